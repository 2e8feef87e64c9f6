//! Archives that are not what they say, or would put something where it does not belong.

use super::Case;
use crate::kit::{bundle, manifest};
use crate::zip_build::{Item, Zip, crc, deflated, stored, zip};

fn honest() -> Vec<Item> {
    vec![
        stored("toolset.yaml", manifest("app", "2.0.0", "tools: [{id: x, entrypoint: 't:f'}]")),
        stored("tools/t.py", "def f(workspace): pass\n"),
    ]
}

/// A bundle that is well but for one more entry.
fn and(item: Item) -> Vec<u8> {
    zip(honest().into_iter().chain([item]))
}

fn named(name: impl AsRef<[u8]>) -> Vec<u8> {
    and(stored(name, "evil"))
}

/// The same with a name that is marked as UTF-8.
fn utf8(name: impl AsRef<[u8]>) -> Item {
    stored(name, "evil").both(|header| header.flags |= 1 << 11)
}

fn whole(change: impl FnOnce(&mut Zip)) -> Vec<u8> {
    let mut zip = Zip { items: honest(), ..Zip::default() };
    change(&mut zip);
    zip.bytes()
}

fn cut(count: usize) -> Vec<u8> {
    let mut bytes = zip(honest());
    bytes.truncate(bytes.len() - count);
    bytes
}

pub(super) fn cases() -> Vec<Case> {
    let case = |what, bytes, words| Case(what, bytes, "INVALID_BUNDLE", words);
    let litter = |item: Item| and(item);
    let end_record = [b"PK\x05\x06".as_slice(), &[0; 18]].concat();
    vec![
        // Not one archive.
        case("nothing", Vec::new(), "not a ZIP"),
        case("a text", b"not an archive".to_vec(), "not a ZIP"),
        case("a tar archive", vec![0; 10240], "not a ZIP"),
        case("cut by one byte", cut(1), "ZIP"),
        case("cut by the end record", cut(22), "ZIP"),
        case("a byte behind", whole(|zip| zip.after = vec![0]), "ZIP"),
        case("another archive behind", whole(|zip| zip.after = crate::zip_build::zip(honest())), "ZIP"),
        case("a program before", whole(|zip| zip.before = b"#!/bin/sh\n".to_vec()), "before the first entry"),
        case("an end in the comment", whole(|zip| zip.comment = end_record), "more than one end record"),
        case("bytes between", whole(|zip| zip.before_directory = b"gap".to_vec()), "belong to no entry"),
        case("one entry too many", whole(|zip| zip.change_end = Some(|end| (end.here, end.count) = (3, 3))), "entries"),
        case("part of several", whole(|zip| zip.change_end = Some(|end| end.disk = 1)), "one part of several"),
        case("an entry nobody lists", and(stored("hidden", "x").with(|item| item.listed = false)), "does not list"),
        // Names.
        case("up", named("../evil"), "lead out of the folder"),
        case("down and up", named("a/../../evil"), "lead out of the folder"),
        case("only up", named(".."), "lead out of the folder"),
        case("absolute", named("/etc/evil"), "absolute"),
        case("a drive", named("C:/evil"), "drive letter"),
        case("a drive with a backslash", named("C:\\evil"), "drive letter"),
        case("up with a backslash", named("..\\evil"), "backslash"),
        case("an empty part", named("a//b"), "empty part"),
        case("a dot", named("./a"), "empty part"),
        case("no name", named(""), "empty part"),
        case("a NUL", named("a\0b"), "control character"),
        case("a line break", named("a\nb"), "control character"),
        case("text turned around", and(utf8("a\u{202e}gpj.exe")), "control character"),
        case("a dot at the end", named("a."), "dot or a space"),
        case("a space at the end", named("a /b"), "dot or a space"),
        case("a device", named("aux.txt"), "device on Windows"),
        case("a long name", named("x".repeat(256)), "more than 255 bytes"),
        case("a long path", named("abcdefgh/".repeat(500) + "x"), "path has more than"),
        case("a deep path", named("a/".repeat(500) + "x"), "path has more than"),
        case("not UTF-8", and(utf8(b"\xff\xfe")), "not; names must be UTF-8"),
        case("an old encoding", named(b"\x81.txt"), "neither ASCII nor marked as UTF-8"),
        // The tree.
        case("the manifest twice", and(stored("toolset.yaml", manifest("app", "3.0.0", ""))), "twice"),
        case("the module twice", and(stored("tools/t.py", "evil")), "twice"),
        case("another case", and(stored("tools/T.py", "evil")), "upper and lower case"),
        case("a folder in another case", and(stored("TOOLS/u.py", "evil")), "upper and lower case"),
        case(
            "another spelling",
            zip(honest().into_iter().chain([utf8("caf\u{e9}"), utf8("cafe\u{301}")])),
            "different Unicode spellings",
        ),
        case("below a file", and(stored("tools/t.py/x", "evil")), "also a folder"),
        // What an entry is.
        case("a link", and(stored("link", "/etc/passwd").mode(0o120_777)), "it is a link"),
        case("a pipe", and(stored("pipe", "").mode(0o010_644)), "device, a pipe or a socket"),
        case("a device file", and(stored("null", "").mode(0o020_666)), "device, a pipe or a socket"),
        case("encrypted", and(stored("x", "x").both(|header| header.flags |= 1)), "encrypted"),
        case("another compression", and(stored("x", "x").both(|header| header.method = 12)), "method 12"),
        // Content.
        case("another checksum", and(stored("x", "content").both(|header| header.crc ^= 1)), "checksum"),
        case("larger than said", and(deflated("x", "content").both(|header| header.size = 3)), "another size"),
        case("two names", and(stored("x", "x").with(|item| item.local.name = b"y".to_vec())), "disagree on its name"),
        case("a damaged stream", and(deflated("x", "x").with(|item| item.content.fill(0xff))), "damaged"),
        case(
            "overlapping entries",
            and(stored("x", "x").both(|header| (header.packed, header.size) = (9000, 9000))),
            "overlaps",
        ),
        case("a bomb by its header", and(deflated("x", "x").both(|header| header.size = 64 << 20)), "times larger"),
        case("a bomb of zeros", and(deflated("x", vec![0; 64 << 20])), "times larger"),
        case(
            "a bomb that says little",
            and(deflated("x", vec![0; 8 << 20]).both(|header| header.size = 1000)),
            "another size",
        ),
        case("more than may be unpacked", and(deflated("x", "x").both(|header| header.size = 600 << 20)), "unpacked"),
        case(
            "too many files",
            zip(honest().into_iter().chain((0..20_000).map(|number| stored(format!("f/{number}"), "")))),
            "at most 20000",
        ),
        case(
            "damaged, where nobody looks",
            litter(stored("__MACOSX/x", "x").both(|header| header.crc = crc(b"y"))),
            "checksum",
        ),
        // Which files there are.
        case("no manifest", bundle(&[("tools/t.py", "x")]), "there is no toolset.yaml"),
        case("no files", zip([]), "there is no toolset.yaml"),
        case("litter alone", bundle(&[("__MACOSX/toolset.yaml", "id: app")]), "there is no toolset.yaml"),
        case("two spellings", and(stored("toolset.yml", manifest("app", "3.0.0", ""))), "two manifests"),
        case("in capitals", bundle(&[("Toolset.yaml", "id: app"), ("x", "")]), "lower case"),
        case("too deep", bundle(&[("a/b/toolset.yaml", "id: app"), ("a/x", "")]), "too deep"),
        case("in one of two folders", bundle(&[("a/toolset.yaml", "id: app"), ("b/x", "")]), "too deep"),
    ]
}
