//! A folder as an engine wants it for a build: a tar archive in memory, of plain files with fixed owners and times, so that one folder is always
//! the same bytes.

/// A name that a tar archive has no room for.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the path {0} is too long for a build")]
pub struct BadName(pub String);

/// A folder, packed file by file.
#[derive(Debug, Default)]
pub struct Packed(Vec<u8>);

const BLOCK: usize = 512;

impl Packed {
    /// Adds a file.
    pub fn file(&mut self, path: &str, executable: bool, content: &[u8]) -> Result<(), BadName> {
        let (prefix, name) = split(path).ok_or_else(|| BadName(path.to_owned()))?;
        let mut header = [0_u8; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, name.as_bytes());
        put(100, if executable { b"0000755\0" } else { b"0000644\0" });
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", content.len()).as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, b"0");
        put(257, b"ustar\0");
        put(263, b"00");
        put(345, prefix.as_bytes());
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }

    /// The archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

/// A path in the two fields that there are for it.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= 100 {
        return Some(("", path));
    }
    let fits = |at: &usize| *at <= 155 && path.len() - at - 1 <= 100;
    let at = path.match_indices('/').map(|(at, _)| at).find(fits)?;
    Some((&path[..at], &path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_can_be_unpacked() {
        let long = format!("{}/{}", "d".repeat(90), "f".repeat(60));
        let mut packed = Packed::default();
        packed.file("Containerfile", false, b"FROM scratch\n").unwrap();
        packed.file(&long, true, &[7; 1000]).unwrap();
        assert_eq!(packed.file(&"x".repeat(101), false, b""), Err(BadName("x".repeat(101))));
        let bytes = packed.finish();
        assert_eq!(bytes.len(), 512 + 512 + 512 + 1024 + 1024);
        let folder = std::env::temp_dir().join(format!("kitbag-packed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let archive = folder.join("a.tar");
        std::fs::write(&archive, bytes).unwrap();
        // Another program's reading of it: ours would share our mistakes.
        #[allow(clippy::disallowed_methods, reason = "a test")]
        let done = std::process::Command::new("tar").arg("-C").arg(&folder).arg("-xf").arg(&archive).status().unwrap();
        assert!(done.success());
        assert_eq!(std::fs::read(folder.join(&long)).unwrap(), [7; 1000]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
