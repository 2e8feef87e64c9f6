//! Lies that only unpacking brings out, and bombs.

use std::io::{self, Write};

use crate::build::{Item, Zip, deflate, deflated, stored, zip};
use crate::{refused, refused_within};
use kitbag_formats::archive::{Archive, ArchiveError, Limits};

fn packed(item: Item, content: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    zip([item.both(|header| header.packed = length).with(|item| item.content = content), stored("last", "3")])
}

#[test]
fn content_is_what_was_packed() {
    let text = "content, content, content";
    let x = || deflated("x", text);
    let with = |bytes: &[u8]| [deflate(text.as_bytes()), bytes.to_vec()].concat();
    let cut = {
        let mut cut = deflate(text.as_bytes());
        cut.pop();
        cut
    };
    refused(vec![
        ("checksum", zip([x().both(|header| header.crc ^= 1)]), "Checksum"),
        ("checksum of stored", zip([stored("x", text).both(|header| header.crc ^= 1)]), "Checksum"),
        ("no checksum", zip([x().both(|header| header.crc = 0)]), "Checksum"),
        ("smaller than said", zip([x().both(|header| header.size += 1)]), "Size"),
        ("larger than said", zip([x().both(|header| header.size -= 1)]), "Size"),
        ("larger than nothing", zip([x().both(|header| header.size = 0)]), "Size"),
        ("a byte behind", packed(x(), with(b"\0")), "LeftOver"),
        ("a second stream behind", packed(x(), with(&deflate(b"hidden"))), "LeftOver"),
        ("no end", packed(x(), cut), "Deflate"),
        ("no stream", packed(x(), b"\xff\xff\xff\xff".to_vec()), "Deflate"),
        ("nothing at all", packed(x(), vec![]), "Deflate"),
    ]);
}

#[test]
fn entries_have_bytes_of_their_own() {
    let kernel = deflated("kernel", vec![0; 1000]);
    let length = 30 + 6 + kernel.content.len();
    let same = Zip { items: vec![kernel.clone(), kernel.clone().with(|item| item.offset = Some(0))], ..Zip::default() };
    let quoted = |behind: Item| {
        // The first entry's content includes the whole second entry: every byte is unpacked twice.
        let mut first = stored("first", "").both(|header| header.packed = u32::try_from(length).unwrap());
        (first.local.size, first.central.size) = (first.local.packed, first.local.packed);
        zip([first, behind])
    };
    refused(vec![
        ("the same header", same.bytes(), "Overlap"),
        ("one within the other", quoted(kernel), "Overlap"),
        (
            "beyond the directory",
            zip([stored("x", "abc").both(|header| (header.packed, header.size) = (9000, 9000))]),
            "Overlap",
        ),
        (
            "into the directory",
            zip([stored("x", "abc").both(|header| (header.packed, header.size) = (4, 4))]),
            "Overlap",
        ),
        ("a header in the directory", zip([stored("x", "abc").with(|item| item.offset = Some(34))]), "Overlap"),
        ("a header beyond the end", zip([stored("x", "abc").with(|item| item.offset = Some(9000))]), "Overlap"),
    ]);
}

#[test]
fn bombs_by_their_headers() {
    let saying = |size: u32| zip([deflated("x", "x").both(|header| header.size = size)]);
    let many =
        |count: u32, item: &dyn Fn(Item) -> Item| zip((0..count).map(|index| item(deflated(format!("{index}"), ""))));
    let endless = crate::build::wide(&[u64::MAX / 2]);
    refused(vec![
        ("ratio", saying((32 << 20) + 1), "Ratio"),
        ("ratio of many together", many(40, &|item| item.both(|header| header.size = 1 << 20)), "Ratio"),
        ("not more than is harmless", saying(32 << 20), "Size"),
        ("total", saying((512 << 20) + 1), "Unpacked"),
        ("total of many", many(3, &|item| item.both(|header| header.size = 200 << 20)), "Unpacked"),
        (
            "a total that overflows",
            many(3, &|item| item.both(|header| (header.size, header.extra) = (u32::MAX, endless.clone()))),
            "Unpacked",
        ),
        ("entries", many(20_001, &|item| item), "Entries"),
    ]);
    let bytes = saying(40 << 20);
    let ratio = (40 << 20) / bytes.len() as u64;
    refused_within(&Limits { ratio, ..Limits::BUNDLE }, "just below", &bytes, "Ratio");
    refused_within(&Limits { ratio: ratio + 1, ..Limits::BUNDLE }, "just above", &bytes, "Size");
}

/// Counts what arrives, and refuses more than it was told.
struct Counter {
    arrived: u64,
    most: u64,
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.arrived += bytes.len() as u64;
        if self.arrived > self.most { Err(io::Error::other("full")) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_bomb_with_modest_headers_stops_at_what_they_say() {
    // 64 MiB that say they are 100,000 bytes.
    let bytes = zip([deflated("bomb", vec![0; 64 << 20]).both(|header| header.size = 100_000)]);
    let archive = Archive::open(&bytes, &Limits::BUNDLE).unwrap();
    let mut counter = Counter { arrived: 0, most: u64::MAX };
    let error = archive.copy(&archive.entries()[0], &mut counter).unwrap_err();
    assert!(matches!(error, ArchiveError::Size { said: 100_000, .. }), "{error}");
    assert!(counter.arrived <= 100_000, "{} bytes came through", counter.arrived);
    assert!(archive.read(&archive.entries()[0]).is_err() && archive.verify().is_err());
}

#[test]
fn a_full_sink_stops_the_copy() {
    let bytes = zip([stored("x", vec![1; 1 << 20])]);
    let archive = Archive::open(&bytes, &Limits::BUNDLE).unwrap();
    let mut counter = Counter { arrived: 0, most: 100 };
    let error = archive.copy(&archive.entries()[0], &mut counter).unwrap_err();
    assert!(matches!(error, ArchiveError::Sink(_)));
    assert!(counter.arrived <= 64 << 10);
}

#[test]
fn an_entry_of_another_archive_is_an_error_at_most() {
    let (long, short) = (zip([stored("x", vec![1; 5000])]), zip([stored("x", "1")]));
    let (long, short) =
        (Archive::open(&long, &Limits::BUNDLE).unwrap(), Archive::open(&short, &Limits::BUNDLE).unwrap());
    assert!(short.read(&long.entries()[0]).is_err());
}

#[test]
fn threads_share_an_archive() {
    fn shareable<T: Send + Sync>(_: &T) {}
    let bytes = zip((0..100).map(|index| deflated(format!("{index}"), format!("content {index}").repeat(100))));
    let archive = Archive::open(&bytes, &Limits::BUNDLE).unwrap();
    shareable(&archive);
    std::thread::scope(|scope| {
        for half in archive.entries().chunks(50) {
            scope.spawn(|| half.iter().for_each(|entry| archive.copy(entry, &mut io::sink()).unwrap()));
        }
    });
    archive.verify().unwrap();
}
