//! Any bytes as an archive: nothing may panic, no file may be larger than it says, and what is accepted must survive being
//! written and read again.
#![no_main]

use kitbag_formats::archive::{Archive, ArchiveWriter, Limits, strip_signature};
use libfuzzer_sys::fuzz_target;

/// Small, so that the fuzzer finds a way through and not a way to use memory.
const LIMITS: Limits =
    Limits { packed: 1 << 20, unpacked: 4 << 20, entries: 1000, ratio: 2000, path_bytes: 1024, depth: 64 };

fuzz_target!(|bytes: &[u8]| {
    let (bytes, _) = strip_signature(bytes);
    let Ok(archive) = Archive::open(bytes, &LIMITS) else { return };
    let mut writer = ArchiveWriter::new(Vec::new());
    let mut contents = Vec::new();
    for entry in archive.entries() {
        let Ok(content) = archive.read(entry) else { return };
        assert_eq!(content.len() as u64, entry.size());
        writer.file(entry.path(), entry.executable(), &mut &content[..]).expect("entries are sorted and do not clash");
        contents.push(content);
    }
    let written = writer.finish().expect("memory takes everything");
    let again = Archive::open(&written, &Limits { packed: 8 << 20, ..LIMITS }).expect("what we write we read");
    assert_eq!(again.entries().len(), contents.len());
    for (entry, content) in again.entries().iter().zip(contents) {
        assert!(again.read(entry).expect("what we write we read") == content);
        let before = archive.entry(entry.path().as_str()).expect("the same paths");
        assert_eq!(before.executable(), entry.executable());
    }
});
