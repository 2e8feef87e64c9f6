//! Any bytes as a file to import, alone and inside archives of each kind: nothing may panic, and what is accepted has a
//! manifest that says the same.
#![no_main]

use kitbag_formats::archive::{ArchiveWriter, Limits};
use kitbag_formats::import::{Input, Options};
use kitbag_formats::manifest;
use libfuzzer_sys::fuzz_target;

/// Small, so that the fuzzer finds a way through and not a way to use memory.
const LIMITS: Limits =
    Limits { packed: 1 << 20, unpacked: 4 << 20, entries: 1000, ratio: 2000, path_bytes: 1024, depth: 64 };

fn import(bytes: &[u8]) {
    let Ok(input) = Input::open(bytes, &LIMITS) else { return };
    for replace_literals in [false, true] {
        match input.read(Some("file.json"), &Options { replace_literals }) {
            Ok(imported) => {
                let definition = imported.bundle.definition;
                let again = manifest::read(manifest::write(&definition).as_bytes()).expect("what we write we read");
                assert_eq!(again.definition, definition);
            }
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
    }
}

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new());
    for (path, mut content) in files.iter().copied() {
        writer.file(&path.parse().expect("a plain path"), false, &mut content).expect("sorted paths");
    }
    writer.finish().expect("memory takes everything")
}

fuzz_target!(|bytes: &[u8]| {
    import(bytes);
    import(&zip(&[("a", b""), ("manifest.json", bytes)]));
    import(&zip(&[
        (".claude-plugin/plugin.json", bytes),
        ("skills/a/SKILL.md", b"---\nname: a\ndescription: b\n---\n"),
    ]));
    import(&zip(&[(".mcp.json", bytes)]));
    import(&zip(&[("x/SKILL.md", bytes)]));
});
