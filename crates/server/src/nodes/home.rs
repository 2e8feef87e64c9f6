//! What a data folder is called. Several servers may share a database; after a crash the next one on this folder knows what was begun here.
//!
//! A copy of a folder has the same name. If both were served, each start of one would end all that the other has begun, so the second is not
//! served for as long as the first answers.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use kitbag_model::OrgId;
use uuid::Uuid;

use super::remote::{Answer, address_of};
use super::servers::SHOW;
use crate::app::App;

/// So long another server may take to say that it is there. One that was killed is not, which is known at once.
const SAYING: Duration = Duration::from_secs(2);

/// A server runs on another folder of the same name.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server at {address} runs with a data folder of the same name: this folder is a copy of that one, or the other way round. \
     Remove the file \"node\" from the copy, and it gets a name of its own"
)]
pub struct HomeTaken {
    address: String,
}

impl App {
    /// Makes sure that no other server has a folder of this one's name. Call it when this is one of the servers of the database, and before
    /// anything is ended that was begun here.
    pub async fn check_home(&self) -> Result<(), HomeTaken> {
        let nodes = self.nodes();
        let (me, own) = (nodes.id(), nodes.0.settings.advertise.as_ref().map(address_text));
        for node in nodes.peers().iter().filter(|node| *node.id != *me && node.home == nodes.home()) {
            // At this server's own address there is nobody else.
            let Some(address) = node.address.clone().filter(|address| Some(address) != own.as_ref()) else { continue };
            if node.is_dead || node.is_late {
                continue;
            }
            let path = address_of(SHOW, &[("org", OrgId::local().as_str())]);
            let asked = nodes.asked(self.servers(), &node.id, path);
            if let Ok(Answer::Done(_)) = tokio::time::timeout(SAYING, asked).await {
                nodes.leave().await;
                return Err(HomeTaken { address });
            }
        }
        Ok(())
    }
}

/// An address as the rows of nodes have it.
pub(super) fn address_text(url: &url::Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

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
