//! The folder in which arguments go in and a result comes out. Whatever ran there may have put anything in place of the result: it is opened as
//! the plain file that it must be, or not at all. A link to a file of this machine would be read with our rights.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use serde_json::Value;

/// The file with the arguments.
pub(crate) const ARGS: &str = "args.json";

/// The file with the result.
pub(crate) const RESULT: &str = "result.json";

/// What a call returned: what is in its file, or nothing if it wrote none.
pub(crate) fn read(exchange: &Path, most: u64) -> Result<Value, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(exchange.join(RESULT), flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(Value::Null),
        Err(rustix::io::Errno::LOOP) => return Err("its result is a link and not a file".to_owned()),
        Err(error) => return Err(format!("its result cannot be read: {error}")),
    };
    let plain = file.metadata().is_ok_and(|data| data.is_file());
    if !plain {
        return Err("its result is not a plain file".to_owned());
    }
    let bytes = within(file, most).map_err(|error| format!("its result cannot be read: {error}"))?;
    let Some(bytes) = bytes else { return Err(format!("its result has more than {most} bytes")) };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("its result is not JSON: {error}"))
}

/// So many files and folders may be in the folder, and so deep.
const MOST_ENTRIES: usize = 10_000;
const DEEPEST: usize = 64;

/// Whether what is in the folder takes no more than so many bytes of the disk. What cannot be looked into is too much.
pub(crate) fn fits(exchange: &Path, most: u64) -> bool {
    let (mut folders, mut entries, mut bytes) = (vec![(exchange.to_owned(), 0)], 0, 0u64);
    while let Some((folder, depth)) = folders.pop() {
        let listed = match std::fs::read_dir(&folder) {
            Ok(listed) => listed,
            // It went while this looked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return false,
        };
        for entry in listed.flatten() {
            entries += 1;
            let Ok(data) = entry.metadata() else { continue };
            // What a file takes, and not how long it says it is.
            bytes = bytes.saturating_add(data.blocks().saturating_mul(512));
            if data.is_dir() {
                folders.push((entry.path(), depth + 1));
            }
            if entries > MOST_ENTRIES || depth > DEEPEST || bytes > most {
                return false;
            }
        }
    }
    true
}

fn within(file: File, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_a_result_has_a_bound() {
        let folder = std::env::temp_dir().join(format!("kitbag-exchange-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        assert!(fits(&folder, 1 << 20));
        std::fs::write(folder.join("inner/large"), vec![1; 2 << 20]).unwrap();
        assert!(!fits(&folder, 1 << 20) && fits(&folder, 8 << 20));
        let sparse = File::create(folder.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert!(fits(&folder, 8 << 20), "it takes nothing of the disk");
        std::fs::create_dir_all(folder.join("d/".repeat(DEEPEST + 2))).unwrap();
        assert!(!fits(&folder, 8 << 20));
        std::fs::remove_dir_all(folder.join("d")).unwrap();
        for number in 0..=MOST_ENTRIES {
            File::create(folder.join(number.to_string())).unwrap();
        }
        assert!(!fits(&folder, 8 << 20));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_result_is_a_plain_file_of_json_or_nothing() {
        let folder = std::env::temp_dir().join(format!("kitbag-result-{}", std::process::id()));
        let file = folder.join(RESULT);
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(read(&folder, 10), Ok(Value::Null));
        for (text, wanted) in
            [("{\"a\":1}\n", Some("{\"a\":1}")), (" \n", Some("null")), ("{", None), ("[1,2,3,4,5]", None)]
        {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(&folder, 10).ok().map(|value| value.to_string()).as_deref(), wanted, "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
        assert!(read(&folder, 1000).unwrap_err().contains("link"));
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(read(&folder, 1000).unwrap_err().contains("plain"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
