//! The headers of an archive that is being written, as bytes. `write` decides what they say.

use kitbag_model::WorkPath;

pub(super) const DESCRIPTOR: u16 = 1 << 3;
pub(super) const UTF8: u16 = 1 << 11;
pub(super) const STORED: u16 = 0;
pub(super) const DEFLATE: u16 = 8;
/// Made on Unix, so that the mode counts.
const UNIX: u16 = 3 << 8;
/// 1980-01-01, the first day that a ZIP can name: time, then date.
const EPOCH: [u16; 2] = [0, 1 << 5 | 1];
/// A number that is this or more goes into a 64-bit field.
const FULL: u64 = u32::MAX as u64;
const FULL_COUNT: usize = u16::MAX as usize;

/// What the central directory will say.
pub(super) struct Written {
    pub(super) path: WorkPath,
    pub(super) folder: bool,
    pub(super) executable: bool,
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) crc: u32,
    pub(super) packed: u64,
    pub(super) size: u64,
    pub(super) offset: u64,
}

impl Written {
    fn wide(&self) -> bool {
        self.packed >= FULL || self.size >= FULL
    }

    fn name(&self) -> String {
        if self.folder { format!("{}/", self.path) } else { self.path.to_string() }
    }

    /// From the version that is needed to the length of the name, which both headers have alike.
    fn common(&self, version: u16, sizes: [u32; 3]) -> Vec<u8> {
        let [time, date] = EPOCH;
        let mut bytes = shorts(&[version, self.flags, self.method, time, date]);
        bytes.extend(sizes.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(shorts(&[u16::try_from(self.name().len()).expect("a path has at most 4096 bytes")]));
        bytes
    }

    pub(super) fn local(&self) -> Vec<u8> {
        let mut bytes = b"PK\x03\x04".to_vec();
        // What is not known yet is 0, and so it is for a folder.
        bytes.extend(self.common(20, [self.crc, clamp(self.packed), clamp(self.size)]));
        bytes.extend(shorts(&[0]));
        bytes.extend(self.name().as_bytes());
        bytes
    }

    pub(super) fn descriptor(&self) -> Vec<u8> {
        let mut bytes = b"PK\x07\x08".to_vec();
        bytes.extend(self.crc.to_le_bytes());
        for number in [self.packed, self.size] {
            let eight = number.to_le_bytes();
            bytes.extend(if self.wide() { &eight[..] } else { &eight[..4] });
        }
        bytes
    }

    pub(super) fn central(&self) -> Vec<u8> {
        let mut extra = Vec::new();
        for number in [self.size, self.packed, self.offset].into_iter().filter(|number| *number >= FULL) {
            extra.extend(number.to_le_bytes());
        }
        let version = if extra.is_empty() { 20 } else { 45 };
        if !extra.is_empty() {
            let length = u16::try_from(extra.len()).expect("three numbers at most");
            extra.splice(..0, shorts(&[1, length]));
        }
        let mode: u32 = match (self.folder, self.executable) {
            (true, _) => 0o040_755,
            (false, true) => 0o100_755,
            (false, false) => 0o100_644,
        };
        let attributes = mode << 16 | if self.folder { 0x10 } else { 0 };
        let mut bytes = b"PK\x01\x02".to_vec();
        bytes.extend(shorts(&[UNIX | version]));
        bytes.extend(self.common(version, [self.crc, clamp(self.packed), clamp(self.size)]));
        bytes.extend(shorts(&[u16::try_from(extra.len()).expect("three numbers at most"), 0, 0, 0]));
        bytes.extend(attributes.to_le_bytes());
        bytes.extend(clamp(self.offset).to_le_bytes());
        bytes.extend(self.name().as_bytes());
        bytes.extend(extra);
        bytes
    }
}

/// The end records: the 64-bit ones only where they are needed.
pub(super) fn end(count: usize, size: u64, start: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if count >= FULL_COUNT || size >= FULL || start >= FULL {
        bytes.extend(b"PK\x06\x06");
        bytes.extend(44_u64.to_le_bytes());
        bytes.extend(shorts(&[UNIX | 45, 45, 0, 0, 0, 0]));
        for number in [count as u64, count as u64, size, start] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(b"PK\x06\x07\0\0\0\0");
        bytes.extend((start + size).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
    }
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    bytes.extend(b"PK\x05\x06");
    bytes.extend(shorts(&[0, 0, count, count]));
    bytes.extend(clamp(size).to_le_bytes());
    bytes.extend(clamp(start).to_le_bytes());
    bytes.extend(shorts(&[0]));
    bytes
}

fn shorts(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn clamp(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{DEFLATE, DESCRIPTOR, FULL, Written, end};
    use crate::archive::fields::Fields;
    use crate::archive::record::Record;

    fn written(size: u64, packed: u64, offset: u64) -> Written {
        Written {
            path: "large".parse().expect("a good path"),
            folder: false,
            executable: true,
            flags: DESCRIPTOR,
            method: DEFLATE,
            crc: 7,
            packed,
            size,
            offset,
        }
    }

    /// Files of this kind are too large for a test, but not their headers.
    #[test]
    fn large_numbers_have_room() {
        for (numbers, fields) in [
            ((FULL - 1, FULL - 1, FULL - 1), 0),
            ((FULL, 9, 9), 1),
            ((FULL, FULL, 9), 2),
            ((9, 9, FULL + 1), 1),
            ((1 << 40, 1 << 39, 1 << 41), 3),
        ] {
            let (size, packed, offset) = numbers;
            let bytes = written(size, packed, offset).central();
            assert_eq!(bytes.len(), 46 + "large".len() + if fields == 0 { 0 } else { 4 + fields * 8 });
            assert_eq!(bytes[6], if fields == 0 { 20 } else { 45 }, "the version that a reader needs");
            let (record, name) = Record::read(&mut Fields(&bytes)).expect("a good record");
            assert_eq!((record.size, record.packed, record.offset), numbers);
            assert_eq!((name, record.crc, record.executable), ("large", 7, true));
        }
    }

    #[test]
    fn sizes_behind_large_content_are_wide() {
        assert_eq!(written(FULL - 1, FULL - 1, 0).descriptor().len(), 16);
        let wide = written(1 << 40, 9, 0).descriptor();
        assert_eq!(
            (wide.len(), &wide[8..16], &wide[16..]),
            (24, &9_u64.to_le_bytes()[..], &(1_u64 << 40).to_le_bytes()[..])
        );
    }

    #[test]
    fn an_end_is_wide_where_it_must_be() {
        for (count, size, start, wide) in [
            (65_534, 1, 1, false),
            (65_535, 1, 1, true),
            (1, FULL - 1, FULL - 1, false),
            (1, FULL, 1, true),
            (1, 1, FULL, true),
        ] {
            assert_eq!(end(count, size, start).len(), if wide { 56 + 20 + 22 } else { 22 });
        }
    }
}
