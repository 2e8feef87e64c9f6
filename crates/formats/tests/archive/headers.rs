//! Lies about one entry: what it is, and what its two headers say.

use crate::build::{Item, deflated, descriptor, extra, stored, wide, zip};
use crate::{refused, whole};
use kitbag_formats::archive::{Archive, Limits};

/// Between two honest entries, so that neighbours could be hurt.
fn one(item: Item) -> Vec<u8> {
    zip([stored("first", "1"), item, stored("last", "3")])
}

#[test]
fn only_files_and_folders() {
    let x = || stored("x", "target");
    refused(vec![
        ("a link", one(x().mode(0o120_777)), "Link"),
        ("a link, by Darwin", one(x().mode(0o120_777).with(|item| item.made_by = 19 << 8)), "Link"),
        ("a link, made by nobody", one(x().mode(0o120_777).with(|item| item.made_by = 0)), "Link"),
        ("a link of Windows", one(x().with(|item| item.external = 0x400)), "Link"),
        ("a link that is a folder", one(stored("x/", "").mode(0o120_777)), "Link"),
        ("a pipe", one(x().mode(0o010_644)), "Special"),
        ("a device", one(x().mode(0o020_644)), "Special"),
        ("a disk", one(x().mode(0o060_644)), "Special"),
        ("a socket", one(x().mode(0o140_644)), "Special"),
        ("a kind that does not exist", one(x().mode(0o170_644)), "Special"),
        ("a folder by mode, not by name", one(x().mode(0o040_755)), "Kind"),
        ("a folder by attribute, not by name", one(x().with(|item| item.external = 0x10)), "Kind"),
        ("a file by mode, a folder by name", one(stored("x/", "").mode(0o100_644)), "Kind"),
        ("a folder with content", one(stored("x/", "content")), "FolderContent"),
        ("a folder with packed content", one(deflated("x/", "content")), "FolderContent"),
        (
            "a folder with hidden bytes",
            one(deflated("x/", "").with(|item| {
                item.content = b"\x03\x00hidden".to_vec();
                (item.local.packed, item.central.packed) = (8, 8);
            })),
            "FolderContent",
        ),
    ]);
    for folder in
        [stored("x/", "").mode(0o040_755), deflated("x/", ""), stored("x/", "").with(|item| item.external = 0x10)]
    {
        whole(&one(folder), &Limits::BUNDLE).unwrap();
    }
}

#[test]
fn only_the_owners_right_to_run_counts() {
    for (item, executable) in [
        (stored("x", "").mode(0o100_755), true),
        (stored("x", "").mode(0o100_744), true),
        (stored("x", "").mode(0o106_755), true),
        (stored("x", "").mode(0o755), true),
        (stored("x", "").mode(0o100_655), false),
        (stored("x", "").mode(0o107_644), false),
        (stored("x", "").mode(0o100_755).with(|item| item.made_by = 19 << 8), true),
        (stored("x", "").mode(0o100_755).with(|item| item.made_by = 0), false),
    ] {
        let bytes = one(item);
        let archive = Archive::open(&bytes, &Limits::BUNDLE).unwrap();
        assert_eq!(archive.entry("x").unwrap().executable(), executable);
    }
}

#[test]
fn only_plain_features() {
    let flags = |flags| one(deflated("x", "content").both(|header| header.flags = flags));
    let method = |method| one(deflated("x", "content").both(|header| header.method = method));
    refused(vec![
        ("encrypted", flags(1), "Encrypted"),
        ("strongly encrypted", flags(1 << 6), "Encrypted"),
        ("encrypted headers", flags(1 << 13), "Encrypted"),
        ("a patch", flags(1 << 5), "Flags"),
        ("enhanced deflating", flags(1 << 4), "Flags"),
        ("reserved", flags(1 << 15), "Flags"),
        ("shrunk", method(1), "Method"),
        ("deflate64", method(9), "Method"),
        ("bzip2", method(12), "Method"),
        ("zstd", method(93), "Method"),
        ("encrypted method", method(99), "Method"),
        ("extra too long", one(stored("x", "").both(|header| header.extra = vec![1, 2, 9, 0, 5])), "Extra"),
        ("extra without a length", one(stored("x", "").both(|header| header.extra = vec![1, 2])), "Extra"),
    ]);
    whole(&flags(0b110), &Limits::BUNDLE).expect("hints on the effort");
    let other =
        one(stored("x", "").both(|header| header.extra = [extra(0x5455, &[3, 1, 2, 3, 4]), vec![0; 3]].concat()));
    whole(&other, &Limits::BUNDLE).expect("times, and filling");
}

#[test]
fn both_headers_say_the_same() {
    let x = || deflated("x", "content, content, content");
    let local = |change: fn(&mut Item)| one(x().with(change));
    let streamed = |change: fn(&mut Item)| one(x().streamed(true, false).with(change));
    refused(vec![
        ("name", local(|item| item.local.name = b"y".to_vec()), "Header"),
        ("longer name", local(|item| item.local.name = b"xy".to_vec()), "Header"),
        ("method", local(|item| item.local.method = 0), "Header"),
        ("flag of encryption", local(|item| item.local.flags = 1), "Header"),
        ("flag of UTF-8", local(|item| item.local.flags = 1 << 11), "Header"),
        ("flag of sizes behind, before the content", local(|item| item.local.flags = 8), "Header"),
        ("flag of sizes behind, in the directory", local(|item| item.central.flags = 8), "Header"),
        ("checksum", local(|item| item.local.crc ^= 1), "Header"),
        ("packed size", local(|item| item.local.packed -= 1), "Header"),
        ("size", local(|item| item.local.size += 1), "Header"),
        ("no checksum", local(|item| item.local.crc = 0), "Header"),
        ("no sizes", local(|item| (item.local.packed, item.local.size) = (0, 0)), "Header"),
        ("checksum, with sizes behind", streamed(|item| item.local.crc = 1), "Header"),
        ("packed size, with sizes behind", streamed(|item| item.local.packed = 1), "Header"),
        ("size, with sizes behind", streamed(|item| item.local.size = 1), "Header"),
        ("no header there", [b"X", &zip([x()])[1..]].concat(), "Header"),
        ("stored in two sizes", one(stored("x", "abc").both(|header| header.size = 2)), "Size"),
    ]);
    for (signed, wide) in [(true, false), (false, false), (true, true), (false, true)] {
        for item in [x(), stored("x", "stored"), deflated("x", ""), stored("x", "")] {
            whole(&one(item.clone().streamed(signed, wide)), &Limits::BUNDLE).unwrap();
            let sizes_before_too = item.clone().streamed(signed, wide).with(|streamed| {
                (streamed.local.crc, streamed.local.packed, streamed.local.size) =
                    (item.central.crc, item.central.packed, item.central.size);
            });
            whole(&one(sizes_before_too), &Limits::BUNDLE).unwrap();
        }
    }
}

#[test]
fn sizes_behind_the_content() {
    let x = || deflated("x", "content, content, content");
    let behind = |crc: u32, packed: u64, size: u64| {
        move |item: &mut Item| {
            let central = &item.central;
            let (packed, size) = (u64::from(central.packed) + packed, u64::from(central.size) + size);
            item.behind = descriptor(central.crc ^ crc, packed, size, true, false);
        }
    };
    let with = |change: &dyn Fn(&mut Item)| one(x().streamed(true, false).with(change));
    refused(vec![
        ("another checksum", with(&behind(1, 0, 0)), "Descriptor"),
        ("another packed size", with(&behind(0, 1, 0)), "Descriptor"),
        ("another size", with(&behind(0, 0, 1)), "Descriptor"),
        ("missing", with(&|item| item.behind.clear()), "Descriptor"),
        ("cut", with(&|item| item.behind.truncate(11)), "Descriptor"),
        ("and more", with(&|item| item.behind.extend(b"more")), "Gap"),
        ("twice", with(&|item| item.behind.extend_from_within(..)), "Gap"),
        (
            "wide, with another upper half",
            with(&|item| {
                let (packed, size) = (u64::from(item.central.packed), u64::from(item.central.size) | 1 << 32);
                item.behind = descriptor(item.central.crc, packed, size, true, true);
            }),
            "Descriptor",
        ),
        ("last of all, missing", zip([x().streamed(true, false).with(|item| item.behind.clear())]), "Descriptor"),
        ("not announced", one(x().with(|item| item.behind = descriptor(0, 0, 0, true, false))), "Gap"),
    ]);
}

#[test]
fn wide_sizes() {
    const FULL: u32 = u32::MAX;
    let x = || stored("x", "content");
    let central = |change: fn(&mut crate::build::Header)| one(x().with(|item| change(&mut item.central)));
    let local = |change: fn(&mut crate::build::Header)| one(x().with(|item| change(&mut item.local)));
    for honest in [
        central(|header| (header.size, header.packed, header.extra) = (FULL, FULL, wide(&[7, 7]))),
        central(|header| (header.size, header.extra) = (FULL, wide(&[7]))),
        central(|header| (header.packed, header.extra) = (FULL, wide(&[7]))),
        central(|header| (header.packed, header.extra) = (FULL, wide(&[7, 7]))),
        central(|header| header.extra = wide(&[7, 7])),
        central(|header| header.extra = wide(&[])),
        local(|header| (header.size, header.packed, header.extra) = (FULL, FULL, wide(&[7, 7]))),
        local(|header| header.extra = wide(&[7, 7])),
        one(x().streamed(true, true).with(|item| {
            (item.local.size, item.local.packed, item.local.extra) = (FULL, FULL, wide(&[0, 0]));
        })),
    ] {
        whole(&honest, &Limits::BUNDLE).unwrap();
    }
    refused(vec![
        ("full, without the field", central(|header| header.size = FULL), "Zip64"),
        ("full, field too short", central(|header| (header.size, header.extra) = (FULL, extra(1, &[7; 4]))), "Zip64"),
        (
            "full, field for one only",
            central(|header| {
                (header.size, header.packed, header.extra) = (FULL, FULL, wide(&[7]));
            }),
            "Zip64",
        ),
        ("disagrees", central(|header| header.extra = wide(&[8, 7])), "Zip64"),
        ("disagrees on the place", central(|header| header.extra = wide(&[7, 7, 0])), "Zip64"),
        ("more than there are", central(|header| header.extra = wide(&[7, 7, 36, 0, 0])), "Zip64"),
        ("twice", central(|header| header.extra = [wide(&[7, 7]), wide(&[7, 7])].concat()), "Extra"),
        ("before the content: disagrees", local(|header| header.extra = wide(&[7, 8])), "Zip64"),
        ("before the content: no field", local(|header| header.size = FULL), "Zip64"),
        (
            "before the content: another size",
            local(|header| (header.size, header.extra) = (FULL, wide(&[8]))),
            "Header",
        ),
        (
            "endless",
            central(|header| {
                (header.size, header.packed, header.extra) = (FULL, FULL, wide(&[u64::MAX, u64::MAX]));
            }),
            "Unpacked",
        ),
        (
            "a place far away",
            one(x().with(|item| {
                (item.offset, item.central.extra) = (Some(FULL), wide(&[u64::MAX]));
            })),
            "Hidden",
        ),
        (
            "another disk",
            one(x().with(|item| {
                (item.disk, item.central.extra) = (0xffff, extra(1, &[1, 0, 0, 0]));
            })),
            "Disks",
        ),
    ]);
}
