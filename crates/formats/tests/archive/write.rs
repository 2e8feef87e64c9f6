//! What is written can be read, here and elsewhere, and is the same each time.

use std::io::{self, Read, Write};

use crate::honest::python;
use kitbag_formats::archive::{Archive, ArchiveWriter, Limits, WriteError};
use kitbag_model::WorkPath;

fn path(text: &str) -> WorkPath {
    text.parse().unwrap()
}

/// Bytes that do not repeat, so that they cannot be packed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Gives its bytes in odd pieces, as a network would.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.1.min(buffer.len());
        self.0.read(&mut buffer[..length])
    }
}

fn sample(piece: usize) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new());
    writer.file(&path("a/text"), false, &mut Pieces("text ".repeat(500).as_bytes(), piece)).unwrap();
    writer.file(&path("a/tool"), true, &mut Pieces(b"#!/bin/sh\n", piece)).unwrap();
    writer.folder(&path("empty")).unwrap();
    writer.file(&path("large"), false, &mut Pieces(&"large ".repeat(200_000).into_bytes(), piece)).unwrap();
    writer.file(&path("noise"), false, &mut Pieces(&noise(300_000), piece)).unwrap();
    writer.file(&path("small noise"), false, &mut Pieces(&noise(1000), piece)).unwrap();
    writer.file(&path("zero"), false, &mut io::empty()).unwrap();
    writer.file(&path("ü"), false, &mut Pieces("ü".as_bytes(), piece)).unwrap();
    writer.finish().unwrap()
}

#[test]
fn it_comes_back() {
    let bytes = sample(usize::MAX);
    let archive = Archive::open(&bytes, &Limits::BUNDLE).unwrap();
    let found: Vec<_> =
        archive.entries().iter().map(|entry| (entry.path().as_str(), entry.size(), entry.executable())).collect();
    assert_eq!(
        found,
        [
            ("a/text", 2500, false),
            ("a/tool", 10, true),
            ("large", 1_200_000, false),
            ("noise", 300_000, false),
            ("small noise", 1000, false),
            ("zero", 0, false),
            ("ü", 2, false)
        ]
    );
    assert_eq!(archive.folders(), [path("empty")]);
    assert_eq!(archive.read(archive.entry("noise").unwrap()).unwrap(), noise(300_000));
    archive.verify().unwrap();
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    let once = sample(usize::MAX);
    assert!(once == sample(usize::MAX));
    assert!(once == sample(7919), "how content arrives must not show");
}

#[test]
fn python_reads_it() {
    let script = r#"
import io, sys, zipfile
z = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
assert z.testzip() is None
for i in z.infolist():
    assert i.date_time == (1980, 1, 1, 0, 0, 0) and i.extra == b"" and i.create_system == 3
    print(i.filename, i.file_size, oct(i.external_attr >> 16), i.compress_type, i.flag_bits)
"#;
    let told = String::from_utf8(python(script, &sample(usize::MAX))).unwrap();
    let wanted = [
        "a/text 2500 0o100644 8 0",
        "a/tool 10 0o100755 0 0",
        "empty/ 0 0o40755 0 0",
        "large 1200000 0o100644 8 8",
        "noise 300000 0o100644 8 8",
        "small noise 1000 0o100644 0 0",
        "zero 0 0o100644 0 0",
        "ü 2 0o100644 0 2048",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn more_entries_than_sixteen_bits_count() {
    let count = 65_600;
    let mut writer = ArchiveWriter::new(Vec::new());
    for index in 0..count {
        writer.file(&path(&format!("{index:06}")), false, &mut io::empty()).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let archive = Archive::open(&bytes, &Limits { entries: count, ..Limits::BUNDLE }).unwrap();
    assert_eq!(archive.entries().len(), count);
    let script = "import io, sys, zipfile; print(len(zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())).namelist()))";
    assert_eq!(String::from_utf8(python(script, &bytes)).unwrap().trim(), count.to_string());
}

#[test]
fn order_and_kind_are_kept() {
    let mut writer = ArchiveWriter::new(Vec::new());
    writer.file(&path("b"), false, &mut io::empty()).unwrap();
    for early in ["a", "b"] {
        assert!(matches!(writer.file(&path(early), false, &mut io::empty()), Err(WriteError::Order { .. })));
        assert!(matches!(writer.folder(&path(early)), Err(WriteError::Order { .. })));
    }
    writer.file(&path("b-c"), false, &mut io::empty()).unwrap();
    assert!(matches!(writer.folder(&path("b/c/d")), Err(WriteError::BelowFile { .. })));
    // What was refused left no trace.
    let bytes = writer.finish().unwrap();
    assert_eq!(Archive::open(&bytes, &Limits::BUNDLE).unwrap().entries().len(), 2);
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("no"))
    }
}

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("no"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failure_is_final() {
    let mut writer = ArchiveWriter::new(Vec::new());
    let mut late = io::repeat(0).take(1 << 20).chain(Failing);
    assert!(matches!(writer.file(&path("a"), false, &mut late), Err(WriteError::Content { .. })));
    assert!(matches!(writer.folder(&path("b")), Err(WriteError::Broken)));
    assert!(matches!(writer.finish(), Err(WriteError::Broken)));
    assert!(matches!(ArchiveWriter::new(Failing).folder(&path("a")), Err(WriteError::Sink(_))));
    assert!(matches!(ArchiveWriter::new(Failing).finish(), Err(WriteError::Sink(_))));
}
