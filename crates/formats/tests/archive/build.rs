//! Archives byte by byte, with every number open to lies.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

pub const UNIX: u16 = 3 << 8;

/// What the central directory and the local header both say.
#[derive(Clone)]
pub struct Header {
    pub name: Vec<u8>,
    pub flags: u16,
    pub method: u16,
    pub crc: u32,
    pub packed: u32,
    pub size: u32,
    pub extra: Vec<u8>,
}

#[derive(Clone)]
pub struct Item {
    pub local: Header,
    pub central: Header,
    pub made_by: u16,
    pub external: u32,
    pub disk: u16,
    /// As it lies in the archive.
    pub content: Vec<u8>,
    /// After the content: a descriptor, or bytes that nobody expects.
    pub behind: Vec<u8>,
    /// Where the central directory says that it is, if not where it is.
    pub offset: Option<u32>,
    /// Whether the central directory has it.
    pub listed: bool,
    pub comment: Vec<u8>,
}

impl Item {
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn both(mut self, change: impl Fn(&mut Header)) -> Self {
        change(&mut self.local);
        change(&mut self.central);
        self
    }

    pub fn mode(self, mode: u32) -> Self {
        self.with(|item| (item.made_by, item.external) = (UNIX, mode << 16))
    }

    /// Sizes behind the content, in one of the four forms, and none before it.
    pub fn streamed(self, signed: bool, wide: bool) -> Self {
        let mut item = self.both(|header| header.flags |= 8);
        (item.local.crc, item.local.packed, item.local.size) = (0, 0, 0);
        item.behind = descriptor(item.central.crc, item.central.packed.into(), item.central.size.into(), signed, wide);
        item
    }
}

pub fn descriptor(crc: u32, packed: u64, size: u64, signed: bool, wide: bool) -> Vec<u8> {
    let mut bytes = if signed { b"PK\x07\x08".to_vec() } else { Vec::new() };
    bytes.extend(crc.to_le_bytes());
    for number in [packed, size] {
        bytes.extend(&number.to_le_bytes()[..if wide { 8 } else { 4 }]);
    }
    bytes
}

pub fn crc(content: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(content);
    crc.sum()
}

pub fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn item(name: &[u8], content: &[u8], packed: Vec<u8>, method: u16) -> Item {
    let header = Header {
        name: name.to_vec(),
        flags: 0,
        method,
        crc: crc(content),
        packed: u32::try_from(packed.len()).unwrap(),
        size: u32::try_from(content.len()).unwrap(),
        extra: Vec::new(),
    };
    Item {
        local: header.clone(),
        central: header,
        made_by: 0,
        external: 0,
        disk: 0,
        content: packed,
        behind: Vec::new(),
        offset: None,
        listed: true,
        comment: Vec::new(),
    }
}

pub fn stored(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Item {
    item(name.as_ref(), content.as_ref(), content.as_ref().to_vec(), 0)
}

pub fn deflated(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Item {
    item(name.as_ref(), content.as_ref(), deflate(content.as_ref()), 8)
}

/// One field behind a name.
pub fn extra(id: u16, content: &[u8]) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend(u16::try_from(content.len()).unwrap().to_le_bytes());
    bytes.extend(content);
    bytes
}

/// The 64-bit field with these numbers.
pub fn wide(numbers: &[u64]) -> Vec<u8> {
    extra(1, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
}

/// The numbers of an end record.
#[derive(Clone)]
pub struct End {
    pub disk: u32,
    pub directory_disk: u32,
    pub here: u64,
    pub count: u64,
    pub size: u64,
    pub start: u64,
}

#[derive(Default)]
pub struct Zip {
    pub before: Vec<u8>,
    pub items: Vec<Item>,
    pub before_directory: Vec<u8>,
    pub after_directory: Vec<u8>,
    pub comment: Vec<u8>,
    pub after: Vec<u8>,
    pub change_end: Option<fn(&mut End)>,
    /// With 64-bit end records; this changes theirs.
    pub wide: Option<fn(&mut Wide)>,
}

/// The 64-bit end record and its locator.
pub struct Wide {
    pub end: End,
    pub length: u64,
    pub place: u64,
    pub disks: u32,
}

pub fn zip(items: impl IntoIterator<Item = Item>) -> Vec<u8> {
    Zip { items: items.into_iter().collect(), ..Zip::default() }.bytes()
}

fn put(bytes: &mut Vec<u8>, header: &Header) {
    bytes.extend(20_u16.to_le_bytes());
    bytes.extend(header.flags.to_le_bytes());
    bytes.extend(header.method.to_le_bytes());
    bytes.extend([0, 0, 0x21, 0]);
    for number in [header.crc, header.packed, header.size] {
        bytes.extend(number.to_le_bytes());
    }
    for length in [header.name.len(), header.extra.len()] {
        bytes.extend(u16::try_from(length).unwrap().to_le_bytes());
    }
}

impl Zip {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.before.clone();
        let mut directory = Vec::new();
        for item in &self.items {
            let offset = item.offset.unwrap_or(u32::try_from(bytes.len()).unwrap());
            bytes.extend(b"PK\x03\x04");
            put(&mut bytes, &item.local);
            for part in [&item.local.name, &item.local.extra, &item.content, &item.behind] {
                bytes.extend(part);
            }
            if !item.listed {
                continue;
            }
            directory.extend(b"PK\x01\x02");
            directory.extend(item.made_by.to_le_bytes());
            put(&mut directory, &item.central);
            directory.extend(u16::try_from(item.comment.len()).unwrap().to_le_bytes());
            directory.extend(item.disk.to_le_bytes());
            directory.extend([0, 0]);
            directory.extend(item.external.to_le_bytes());
            directory.extend(offset.to_le_bytes());
            for part in [&item.central.name, &item.central.extra, &item.comment] {
                directory.extend(part);
            }
        }
        bytes.extend(&self.before_directory);
        let listed = self.items.iter().filter(|item| item.listed).count() as u64;
        let mut end = End {
            disk: 0,
            directory_disk: 0,
            here: listed,
            count: listed,
            size: directory.len() as u64,
            start: bytes.len() as u64,
        };
        bytes.extend(&directory);
        bytes.extend(&self.after_directory);
        if let Some(change) = self.wide {
            put_wide(&mut bytes, &end, change);
        }
        if let Some(change) = self.change_end {
            change(&mut end);
        }
        bytes.extend(b"PK\x05\x06");
        for number in [end.disk.into(), end.directory_disk.into(), end.here, end.count] {
            bytes.extend(&number.to_le_bytes()[..2]);
        }
        for number in [end.size, end.start] {
            bytes.extend(&number.to_le_bytes()[..4]);
        }
        bytes.extend(u16::try_from(self.comment.len()).unwrap().to_le_bytes());
        bytes.extend(&self.comment);
        bytes.extend(&self.after);
        bytes
    }
}

fn put_wide(bytes: &mut Vec<u8>, end: &End, change: fn(&mut Wide)) {
    let mut wide = Wide { end: end.clone(), length: 44, place: bytes.len() as u64, disks: 1 };
    change(&mut wide);
    bytes.extend(b"PK\x06\x06");
    bytes.extend(wide.length.to_le_bytes());
    bytes.extend([45, 3, 45, 0]);
    bytes.extend(wide.end.disk.to_le_bytes());
    bytes.extend(wide.end.directory_disk.to_le_bytes());
    for number in [wide.end.here, wide.end.count, wide.end.size, wide.end.start] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"PK\x06\x07\0\0\0\0");
    bytes.extend(wide.place.to_le_bytes());
    bytes.extend(wide.disks.to_le_bytes());
}
