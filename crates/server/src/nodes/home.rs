//! What a data folder is called. Several servers may share a database; after a crash the next one on this folder knows what was begun here.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use uuid::Uuid;

/// The name in the file `node` of the data folder, which is made if it is not there.
pub(crate) fn name(data: &Path) -> String {
    let path = data.join("node");
    let read = || fs::read_to_string(&path).ok().map(|text| text.trim().to_owned()).filter(|name| is_name(name));
    if let Some(name) = read() {
        return name;
    }
    let name = Uuid::now_v7().to_string();
    // Whole or not at all, and only if nobody else was quicker.
    let temporary = data.join(format!("node.{name}"));
    let written = File::options().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
        file.write_all(name.as_bytes())?;
        file.sync_all()?;
        match fs::hard_link(&temporary, &path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && read().is_none() => {
                fs::rename(&temporary, &path)
            }
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    });
    let _ = fs::remove_file(&temporary);
    if let Err(error) = written {
        tracing::warn!(%error, path = %path.display(), "what a crash cuts off will not be found again");
    }
    read().unwrap_or(name)
}

fn is_name(text: &str) -> bool {
    Uuid::try_parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let first = name(folder.path());
        assert_eq!(name(folder.path()), first);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(name(other.path()), first);
    }

    #[test]
    fn a_file_that_was_cut_off_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("node"), "").unwrap();
        let first = name(folder.path());
        assert!(is_name(&first));
        assert_eq!(name(folder.path()), first);
    }
}
