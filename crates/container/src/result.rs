//! The folder in which arguments go in and a result comes out. Whatever ran there may have put anything in place of the result: it is opened as
//! the plain file that it must be, or not at all. A link to a file of this machine would be read with our rights.

use std::fs::File;
use std::io::{self, Read};
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

fn within(file: File, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

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
