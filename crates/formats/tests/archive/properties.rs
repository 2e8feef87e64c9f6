//! What holds for all archives: they come back, and damage is noticed or does not matter.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::{Strategy, any, proptest};
use proptest::sample::Index;
use proptest::{prop_assert, prop_assert_eq};

use crate::build::{Item, deflated, stored, zip};
use crate::whole;
use kitbag_formats::archive::{Archive, ArchiveWriter, Limits, strip_signature};

type Tree = BTreeMap<String, (bool, Vec<u8>)>;

/// Trees without clashes: names of files have an `f`, those of folders do not, and all are in lower case.
fn tree() -> impl Strategy<Value = Tree> {
    let content = vec(vec(any::<u8>(), 0..9), 0..40).prop_map(|words| words.concat());
    btree_map("([a-eä]{1,2}/){0,3}f[a-e猫 ]{0,2}x", (any::<bool>(), content), 0..12)
}

/// The same tree as other tools would write it, in all forms of sizes.
fn foreign(tree: &Tree) -> Vec<u8> {
    let item = |(index, (name, (executable, content))): (usize, (&String, &(bool, Vec<u8>)))| -> Item {
        let item = if index % 2 == 0 { stored(name, content) } else { deflated(name, content) };
        let item = item.both(|header| header.flags = 1 << 11).mode(if *executable { 0o100_755 } else { 0o100_644 });
        match index % 5 {
            0 => item,
            form => item.streamed(form % 2 == 0, form < 3),
        }
    };
    zip(tree.iter().enumerate().map(item))
}

fn written(tree: &Tree) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new());
    for (name, (executable, content)) in tree {
        writer.file(&name.parse().unwrap(), *executable, &mut &content[..]).unwrap();
    }
    writer.finish().unwrap()
}

/// What is read, or nothing if it is refused.
fn read(bytes: &[u8]) -> Option<Tree> {
    let archive = Archive::open(bytes, &Limits::BUNDLE).ok()?;
    let file = |entry| archive.read(entry).map(|content| (entry.path().to_string(), (entry.executable(), content)));
    archive.entries().iter().map(|entry| file(entry).ok()).collect()
}

/// Without what no checksum protects: names and modes.
fn contents(tree: Tree) -> Vec<Vec<u8>> {
    let mut contents: Vec<_> = tree.into_values().map(|(_, content)| content).collect();
    contents.sort();
    contents
}

proptest! {
    #[test]
    fn what_is_written_comes_back(tree in tree()) {
        prop_assert_eq!(read(&written(&tree)), Some(tree));
    }

    #[test]
    fn foreign_archives_are_read_and_written_anew_the_same(tree in tree()) {
        let found = read(&foreign(&tree)).unwrap();
        prop_assert_eq!(&found, &tree);
        prop_assert!(written(&found) == written(&tree));
    }

    #[test]
    fn damage_is_noticed_or_does_not_matter(
        tree in tree(), ours in any::<bool>(), flips in vec((any::<Index>(), 0..8_u8), 1..4),
    ) {
        let mut bytes = if ours { written(&tree) } else { foreign(&tree) };
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        if let Some(found) = read(&bytes) {
            prop_assert_eq!(contents(found), contents(tree));
        }
    }

    #[test]
    fn a_part_of_an_archive_is_none(tree in tree(), ours in any::<bool>(), from in any::<Index>(), to in any::<Index>()) {
        let bytes = if ours { written(&tree) } else { foreign(&tree) };
        let (from, to) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
        if (from, to) != (0, bytes.len()) && from < to && !tree.is_empty() {
            prop_assert_eq!(read(&bytes[from..to]), None);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..300), tail in vec(any::<u8>(), 18)) {
        let _ = whole(&bytes, &Limits::BUNDLE);
        strip_signature(&bytes);
        // Far enough to be followed.
        let _ = whole(&[&bytes[..], b"PK\x05\x06", &tail[..16], &[0, 0]].concat(), &Limits::BUNDLE);
        let end = [0, 0, 0, 0, 1, 0, 1, 0];
        let size = u32::try_from(bytes.len() + 4).unwrap().to_le_bytes();
        let directory = [b"PK\x01\x02", &bytes[..], b"PK\x05\x06", &end, &size, &[0; 6]].concat();
        let _ = whole(&directory, &Limits::BUNDLE);
    }
}
