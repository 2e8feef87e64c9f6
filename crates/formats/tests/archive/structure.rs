//! Lies about the archive as a whole: where it begins and ends, and what lies between its entries.

use crate::build::{Zip, stored, zip};
use crate::{refused, refused_within, whole};
use kitbag_formats::archive::Limits;

fn two() -> Vec<crate::build::Item> {
    vec![stored("a", "one"), stored("b", "two")]
}

fn of(change: impl FnOnce(&mut Zip)) -> Vec<u8> {
    let mut zip = Zip { items: two(), ..Zip::default() };
    change(&mut zip);
    zip.bytes()
}

#[test]
fn one_archive_and_nothing_else() {
    let good = zip(two());
    let inner = zip([stored("inner", "x")]);
    let reaching = {
        // An end record inside the first file whose comment would reach to the end of the archive.
        let mut end = zip([]);
        let length = good.len() - 3 + end.len() - (30 + 1 + 22);
        end[20..22].copy_from_slice(&u16::try_from(length).unwrap().to_le_bytes());
        zip([stored("a", end), stored("b", "two")])
    };
    refused(vec![
        ("nothing", vec![], "NotZip"),
        ("text", b"hello".to_vec(), "NotZip"),
        ("only a signature", b"PK\x05\x06".to_vec(), "NotZip"),
        ("cut before the end", good[..good.len() - 30].to_vec(), "Truncated"),
        ("cut in the end", good[..good.len() - 1].to_vec(), "Truncated"),
        (
            "cut in the comment",
            {
                let mut zip = of(|zip| zip.comment = b"hi".to_vec());
                zip.pop();
                zip
            },
            "Truncated",
        ),
        ("bytes after", of(|zip| zip.after = b"x".to_vec()), "DataAfter"),
        ("many bytes after", of(|zip| zip.after = vec![0; 60_000]), "DataAfter"),
        ("an archive after", [good.clone(), inner.clone()].concat(), "DataBefore"),
        ("an archive in the comment", of(|zip| zip.comment.clone_from(&inner)), "SeveralEnds"),
        ("the mark of an end in the comment", of(|zip| zip.comment = b"PK\x05\x06".to_vec()), "SeveralEnds"),
        ("a file with an end that reaches to the end", reaching, "SeveralEnds"),
        ("a program before, offsets not moved", [b"#!/bin/sh\n".to_vec(), good.clone()].concat(), "DataBefore"),
        ("a program before", of(|zip| zip.before = b"#!/bin/sh\n".to_vec()), "DataBefore"),
        ("bytes and no entries", Zip { before: b"MZ".to_vec(), ..Zip::default() }.bytes(), "DataBefore"),
        ("a program before nothing", [b"MZ".to_vec(), zip([])].concat(), "DataBefore"),
        ("bytes between entries", of(|zip| zip.items[0].behind = b"gap".to_vec()), "Gap"),
        ("bytes before the directory", of(|zip| zip.before_directory = b"gap".to_vec()), "Gap"),
        ("bytes after the directory", of(|zip| zip.after_directory = b"gap".to_vec()), "Gap"),
        ("a first entry that is not listed", of(|zip| zip.items[0].listed = false), "Hidden"),
        ("a last entry that is not listed", of(|zip| zip.items[1].listed = false), "Hidden"),
        (
            "an entry in the gap behind sizes",
            of(|zip| {
                zip.items[0] = stored("a", "one").streamed(true, false);
                zip.items.insert(1, stored("hidden", "x").with(|item| item.listed = false));
            }),
            "Hidden",
        ),
    ]);
    // An archive inside an archive is content like any other.
    whole(&zip([stored("inner.zip", &inner), stored("b", "two")]), &Limits::BUNDLE).unwrap();
    whole(&of(|zip| zip.comment = b"a comment".to_vec()), &Limits::BUNDLE).unwrap();
    assert!(whole(&zip([]), &Limits::BUNDLE).unwrap().is_empty());
}

#[test]
fn end_records() {
    let end = |change| of(|zip| zip.change_end = Some(change));
    refused(vec![
        ("second disk", end(|end| end.disk = 1), "Disks"),
        ("directory on the second disk", end(|end| end.directory_disk = 1), "Disks"),
        ("other entries elsewhere", end(|end| end.here = 1), "Disks"),
        ("an entry elsewhere", of(|zip| zip.items[0].disk = 1), "Disks"),
        ("one too few", end(|end| (end.here, end.count) = (1, 1)), "Count"),
        ("one too many", end(|end| (end.here, end.count) = (3, 3)), "Count"),
        ("too long", end(|end| end.size += 1), "Directory"),
        ("too short", end(|end| end.size -= 1), "Gap"),
        ("farther", end(|end| end.start += 1), "Directory"),
        ("nearer", end(|end| end.start -= 1), "DataBefore"),
        ("elsewhere, at the right end", end(|end| (end.start, end.size) = (end.start - 1, end.size + 1)), "Directory"),
        ("far away", end(|end| end.start = 0xffff_ffff), "Directory"),
        ("all of it", end(|end| (end.start, end.size) = (0, end.start + end.size)), "Directory"),
    ]);
}

#[test]
fn wide_end_records() {
    let wide = |change| of(|zip| zip.wide = Some(change));
    let full = |change: fn(&mut crate::build::Wide)| {
        of(|zip| {
            zip.wide = Some(change);
            zip.change_end = Some(|end| {
                (end.here, end.count, end.size, end.start) = (0xffff, 0xffff, 0xffff_ffff, 0xffff_ffff);
            });
        })
    };
    whole(&wide(|_| {}), &Limits::BUNDLE).expect("said twice");
    whole(&full(|_| {}), &Limits::BUNDLE).expect("said in 64 bits only");
    whole(&Zip { wide: Some(|_| {}), ..Zip::default() }.bytes(), &Limits::BUNDLE).expect("empty");
    refused(vec![
        ("another count", wide(|wide| (wide.end.count, wide.end.here) = (1, 1)), "Zip64End"),
        ("another total", wide(|wide| wide.end.count = 1), "Zip64End"),
        ("another size", wide(|wide| wide.end.size -= 1), "Zip64End"),
        ("another start", wide(|wide| wide.end.start += 1), "Zip64End"),
        ("elsewhere", wide(|wide| wide.place -= 1), "Zip64End"),
        ("far away", wide(|wide| wide.place = u64::MAX), "Zip64End"),
        ("longer", wide(|wide| wide.length = 45), "Zip64End"),
        ("endless", wide(|wide| wide.length = u64::MAX), "Zip64End"),
        ("two disks", wide(|wide| wide.disks = 2), "Disks"),
        ("another disk", full(|wide| wide.end.disk = 1), "Zip64End"),
        ("entries elsewhere", full(|wide| wide.end.here = 1), "Disks"),
        ("a sum that overflows", full(|wide| (wide.end.size, wide.end.start) = (u64::MAX, 2)), "Directory"),
        ("endless entries", full(|wide| (wide.end.here, wide.end.count) = (u64::MAX, u64::MAX)), "Entries"),
        ("full, and no 64-bit record", of(|zip| zip.change_end = Some(|end| end.start = 0xffff_ffff)), "Directory"),
    ]);
}

#[test]
fn limits() {
    let bytes = zip(two());
    let exact = Limits { packed: bytes.len() as u64, unpacked: 6, entries: 2, ratio: 1, path_bytes: 1, depth: 1 };
    whole(&bytes, &exact).unwrap();
    refused_within(&Limits { packed: exact.packed - 1, ..exact }, "packed", &bytes, "Packed");
    refused_within(&Limits { unpacked: 5, ..exact }, "unpacked", &bytes, "Unpacked");
    refused_within(&Limits { entries: 1, ..exact }, "entries", &bytes, "Entries");
    refused_within(&exact, "path", &zip([stored("ab", "")]), "LongPath");
    let deep = Limits { path_bytes: 3, ..exact };
    refused_within(&deep, "deep", &zip([stored("a/b", "")]), "Deep");
    let endless = Limits { path_bytes: usize::MAX, depth: usize::MAX, ..Limits::BUNDLE };
    refused_within(&endless, "no path is longer", &zip([stored("a/".repeat(3000) + "a", "")]), "LongPath");
}
