//! What an entry may not be called, alone and beside others.

use crate::build::{crc, deflated, extra, stored, zip};
use crate::{refused, whole};
use kitbag_formats::archive::{Archive, Limits};

#[test]
fn a_name_means_the_same_on_every_system() {
    let long = "a".repeat(256);
    let deep = "d/".repeat(64) + "f";
    let path = "abcdefg/".repeat(40);
    let path = path.clone() + &path + &path + &path + "f";
    let mut rows = Vec::new();
    for (name, wanted) in [
        ("../evil", "Traversal"),
        ("a/../../evil", "Traversal"),
        ("a/..", "Traversal"),
        ("..", "Traversal"),
        ("/etc/x", "Absolute"),
        ("//host/x", "Absolute"),
        ("C:\\x", "Drive"),
        ("C:x", "Drive"),
        ("z:/x", "Drive"),
        ("..\\x", "Backslash"),
        ("a\\b", "Backslash"),
        ("a//b", "EmptyPart"),
        ("./a", "EmptyPart"),
        ("a/./b", "EmptyPart"),
        ("a//", "EmptyPart"),
        ("", "EmptyPart"),
        ("/", "EmptyPart"),
        ("a\0b", "Character"),
        ("a\nb", "Character"),
        ("a\x1b[31mb", "Character"),
        ("a\x7f", "Character"),
        ("exe\u{202e}gpj.sh", "Character"),
        ("a\u{85}b", "Character"),
        ("a.", "TrailingDot"),
        ("a ", "TrailingDot"),
        ("a./b", "TrailingDot"),
        ("a /b", "TrailingDot"),
        ("...", "TrailingDot"),
        ("con", "Reserved"),
        ("a/NUL", "Reserved"),
        ("aux.txt", "Reserved"),
        ("Com1.tar.gz", "Reserved"),
        ("lpt9/x", "Reserved"),
        ("prn .txt", "Reserved"),
        ("COM¹", "Reserved"),
        ("conin$", "Reserved"),
        (&long, "LongName"),
        (&path, "LongPath"),
        (&deep, "Deep"),
    ] {
        rows.push((name, zip([stored("first", "1"), stored(name, "x").both(|header| header.flags = 1 << 11)]), wanted));
    }
    refused(rows);
}

#[test]
fn odd_names_that_are_fine() {
    for name in [
        "..a", ".hidden", "a..b", "a b", "console", "com", "com10", "comx", "nul_", "ü/👋", "ab:c", "x=1&y", "-rf",
        "~", "…",
    ] {
        let bytes = zip([stored(name, "x").both(|header| header.flags = 1 << 11)]);
        assert_eq!(whole(&bytes, &Limits::BUNDLE).unwrap(), [(name.to_owned(), b"x".to_vec())]);
    }
}

#[test]
fn encodings() {
    let unicode = |name: &str, sum: u32| {
        let mut field = vec![1];
        field.extend(sum.to_le_bytes());
        field.extend(name.as_bytes());
        extra(0x7075, &field)
    };
    let confirmed = |field: Vec<u8>| zip([stored("ü", "x").both(|header| header.extra.clone_from(&field))]);
    let right = crc("ü".as_bytes());
    refused(vec![
        ("not ASCII, no flag", zip([stored("ü", "x")]), "Encoding"),
        ("an old code page", zip([stored(b"\x81", "x")]), "Encoding"),
        ("flagged, not UTF-8", zip([stored(b"\xff", "x").both(|header| header.flags = 1 << 11)]), "NotUtf8"),
        ("overlong", zip([stored(b"\xc0\xae\xc0\xae/x", "x").both(|header| header.flags = 1 << 11)]), "NotUtf8"),
        ("another name", confirmed(unicode("../x", right)), "SecondName"),
        ("for another name", confirmed(unicode("ü", right ^ 1)), "SecondName"),
        ("an empty field", confirmed(extra(0x7075, &[])), "SecondName"),
        ("twice", confirmed([unicode("ü", right), unicode("ü", right)].concat()), "Extra"),
        (
            "another name, only before the content",
            zip([stored("a", "x").with(|item| item.local.extra = unicode("b", crc(b"a")))]),
            "SecondName",
        ),
    ]);
    assert!(whole(&confirmed(unicode("ü", right)), &Limits::BUNDLE).is_ok());
}

#[test]
fn paths_live_side_by_side() {
    let pair = |one: &str, other: &str| {
        let flagged = |name: &str| deflated(name, "x").both(|header| header.flags = 1 << 11);
        let folder = |name: &str| stored(name, "").both(|header| header.flags = 1 << 11);
        let item = |name: &str| if name.ends_with('/') { folder(name) } else { flagged(name) };
        zip([item(one), flagged("between"), item(other)])
    };
    refused(vec![
        ("the same", pair("a", "a"), "Duplicate"),
        ("the same folder", pair("a/", "a/"), "Duplicate"),
        ("case", pair("A.py", "a.py"), "CaseTwin"),
        ("case beyond ASCII", pair("Ü", "ü"), "CaseTwin"),
        ("case of folders", pair("Src/a", "src/b"), "CaseTwin"),
        ("case of folders, deep", pair("x/Src/y/a", "x/src/y/b"), "CaseTwin"),
        ("case of a folder and a file", pair("SRC", "src/b"), "CaseTwin"),
        ("sharp s", pair("straße", "STRASSE"), "CaseTwin"),
        ("the sign of kelvin", pair("\u{212a}", "k"), "CaseTwin"),
        ("composed and not", pair("\u{e9}", "e\u{301}"), "UnicodeTwin"),
        ("composed and not, in folders", pair("\u{e9}/a", "e\u{301}/b"), "UnicodeTwin"),
        ("marks in another order", pair("\u{3b1}\u{345}\u{301}", "\u{3b1}\u{301}\u{345}"), "UnicodeTwin"),
        ("composed and not, other case", pair("\u{c9}", "e\u{301}"), "CaseTwin"),
        ("file and folder", pair("a", "a/b"), "FileAndFolder"),
        ("folder and file", pair("a/b/c", "a/b"), "FileAndFolder"),
        ("file and listed folder", pair("a", "a/"), "FileAndFolder"),
    ]);
    for (one, other) in [("a/", "a/b"), ("a-b", "a/b"), ("a.b", "a"), ("a/b", "a/c"), ("é", "e")] {
        whole(&pair(one, other), &Limits::BUNDLE).expect(one);
    }
}

#[test]
fn entries_are_sorted_and_found() {
    let bytes = zip([stored("b", "2"), stored("a/", ""), stored("a/x", "1"), stored("a-b", "0")]);
    let archive = Archive::open(&bytes, &Limits::BUNDLE).unwrap();
    let paths: Vec<_> = archive.entries().iter().map(|entry| entry.path().as_str()).collect();
    assert_eq!(paths, ["a-b", "a/x", "b"]);
    assert_eq!(
        archive.folders().iter().map(AsRef::as_ref).collect::<Vec<&std::path::Path>>(),
        [std::path::Path::new("a")]
    );
    assert_eq!(archive.read(archive.entry("a/x").unwrap()).unwrap(), b"1");
    assert!(archive.entry("A-b").is_none());
    assert_eq!(archive.size(), 3);
}
