//! One record of the central directory, and the extra fields that records and local headers share. What is read here is
//! what the archive says of an entry; `layout` compares it with what is there.

use flate2::Crc;

use super::error::{ArchiveError, shown};
use super::fields::Fields;

const CENTRAL: [u8; 4] = *b"PK\x01\x02";
/// Encrypted content, strong encryption, encrypted headers.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// The sizes come behind the content.
pub(super) const DESCRIPTOR: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;
/// Besides these two: hints on the effort of compression, and bits that never meant anything.
const KNOWN: u16 = DESCRIPTOR | UTF8 | 0b110 | 0b0111_1000_0000;
const UNIX: u8 = 3;
const DARWIN: u8 = 19;
/// MS-DOS, NTFS and VFAT keep the attributes of Windows in the lower half.
const WINDOWS: [u8; 3] = [0, 10, 14];
const WINDOWS_LINK: u32 = 0x400;
const DOS_FOLDER: u32 = 0x10;

/// How content is packed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Method {
    Stored,
    Deflate,
}

/// An entry as the central directory describes it.
pub(super) struct Record<'a> {
    /// As written, with the `/` at a folder's end.
    pub(super) name: &'a [u8],
    pub(super) flags: u16,
    pub(super) method: Method,
    pub(super) crc: u32,
    pub(super) packed: u64,
    pub(super) size: u64,
    pub(super) offset: u64,
    pub(super) folder: bool,
    pub(super) executable: bool,
}

/// The fixed part, as it lies there.
struct Raw<'a> {
    host: u8,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u32,
    size: u32,
    disk: u16,
    external: u32,
    offset: u32,
    name: &'a [u8],
    extra: &'a [u8],
}

impl<'a> Raw<'a> {
    fn read(fields: &mut Fields<'a>) -> Option<Self> {
        fields.signature(CENTRAL)?;
        let made_by = fields.u16()?;
        let _version_needed = fields.u16()?;
        let (flags, method) = (fields.u16()?, fields.u16()?);
        let _time_and_date = fields.u32()?;
        let (crc, packed, size) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (name_length, extra_length, comment_length) = (fields.u16()?, fields.u16()?, fields.u16()?);
        let disk = fields.u16()?;
        let _is_text = fields.u16()?;
        let (external, offset) = (fields.u32()?, fields.u32()?);
        let name = fields.take(name_length.into())?;
        let extra = fields.take(extra_length.into())?;
        let _comment = fields.take(comment_length.into())?;
        let [_, host] = made_by.to_le_bytes();
        Some(Self { host, flags, method, crc, packed, size, disk, external, offset, name, extra })
    }
}

impl<'a> Record<'a> {
    /// The next record, and its name as text.
    pub(super) fn read(fields: &mut Fields<'a>) -> Result<(Self, &'a str), ArchiveError> {
        let damaged = ArchiveError::Directory { what: "a record has no signature or is longer than the directory" };
        let raw = Raw::read(fields).ok_or(damaged)?;
        let name = || shown(raw.name);
        if raw.flags & ENCRYPTED != 0 {
            return Err(ArchiveError::Encrypted { name: name() });
        }
        if raw.flags & !KNOWN != 0 {
            return Err(ArchiveError::Flags { name: name(), flags: raw.flags });
        }
        let method = match raw.method {
            0 => Method::Stored,
            8 => Method::Deflate,
            method => return Err(ArchiveError::Method { name: name(), method }),
        };
        let extra = Extra::read(raw.extra, raw.name)?;
        let text = extra.text(raw.name, raw.flags)?;
        let (long, short) = (u64::from(u32::MAX), u64::from(u16::MAX));
        let [size, packed, offset, disk] = extra
            .widen([
                (raw.size.into(), long),
                (raw.packed.into(), long),
                (raw.offset.into(), long),
                (raw.disk.into(), short),
            ])
            .ok_or_else(|| ArchiveError::Zip64 { name: name() })?;
        if disk != 0 {
            return Err(ArchiveError::Disks);
        }
        if method == Method::Stored && size != packed {
            return Err(ArchiveError::Size { name: name(), said: size });
        }
        let folder = raw.name.ends_with(b"/");
        let executable = kind(&raw, folder)?;
        let record =
            Self { name: raw.name, flags: raw.flags, method, crc: raw.crc, packed, size, offset, folder, executable };
        Ok((record, text))
    }
}

/// Refuses what is neither file nor folder; says whether a file's owner may run it. No other bit of the mode is looked at,
/// so none (set-user-id least of all) survives.
fn kind(raw: &Raw<'_>, folder: bool) -> Result<bool, ArchiveError> {
    let name = || shown(raw.name);
    let mode = raw.external >> 16;
    let unix = raw.host == UNIX || raw.host == DARWIN;
    // Some readers look at the mode whatever system made the archive, so a link is a link everywhere.
    let link = mode & 0o170000 == 0o120000;
    if link || (WINDOWS.contains(&raw.host) && raw.external & WINDOWS_LINK != 0) {
        return Err(ArchiveError::Link { name: name() });
    }
    let by_mode = match mode & 0o170000 {
        0o040000 if unix => Some(true),
        0o100000 if unix => Some(false),
        0 => None,
        _ if unix => return Err(ArchiveError::Special { name: name() }),
        _ => None,
    };
    let said_folder = by_mode.unwrap_or(folder) || raw.external & DOS_FOLDER != 0;
    if said_folder != folder {
        return Err(ArchiveError::Kind { name: name() });
    }
    Ok(unix && !folder && mode & 0o100 != 0)
}

/// The extra fields that matter; others (times, owners) are passed over.
pub(super) struct Extra<'a> {
    zip64: Option<&'a [u8]>,
    unicode: Option<&'a [u8]>,
}

impl<'a> Extra<'a> {
    pub(super) fn read(extra: &'a [u8], name: &[u8]) -> Result<Self, ArchiveError> {
        Self::parse(extra).ok_or_else(|| ArchiveError::Extra { name: shown(name) })
    }

    fn parse(extra: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(extra);
        let mut found = Self { zip64: None, unicode: None };
        // Tools that align content fill up with zeros, and not always by a multiple of four.
        while !(fields.0.len() < 4 && fields.0.iter().all(|byte| *byte == 0)) {
            let (id, length) = (fields.u16()?, fields.u16()?);
            let content = fields.take(length.into())?;
            let place = match id {
                0x0001 => &mut found.zip64,
                0x7075 => &mut found.unicode,
                _ => continue,
            };
            if place.replace(content).is_some() {
                return None;
            }
        }
        Some(found)
    }

    /// The name as text. Without the flag for UTF-8 it is in whatever encoding the maker's system had, so only ASCII has
    /// one meaning, unless the Unicode field confirms it.
    pub(super) fn text<'n>(&self, name: &'n [u8], flags: u16) -> Result<&'n str, ArchiveError> {
        if self.unicode.is_some_and(|field| !confirms(field, name)) {
            return Err(ArchiveError::SecondName { name: shown(name) });
        }
        if flags & UTF8 == 0 && !name.is_ascii() && self.unicode.is_none() {
            return Err(ArchiveError::Encoding { name: shown(name) });
        }
        std::str::from_utf8(name).map_err(|_| ArchiveError::NotUtf8 { name: shown(name) })
    }

    /// Replaces the numbers which are full (the second of each pair) by their 64-bit ones. The field must have exactly
    /// those, or all in order up to some, which then agree with what was said.
    pub(super) fn widen<const N: usize>(&self, numbers: [(u64, u64); N]) -> Option<[u64; N]> {
        let full = numbers.map(|(number, full)| number == full);
        let said = numbers.map(|(number, _)| number);
        let Some(field) = self.zip64 else { return (!full.contains(&true)).then_some(said) };
        self.wide(field, numbers, |index| full[index])
            .or_else(|| self.wide(field, numbers, |_| true))
            .filter(|wide| (0..N).all(|index| full[index] || wide[index] == said[index]))
    }

    fn wide<const N: usize>(
        &self,
        field: &[u8],
        numbers: [(u64, u64); N],
        has: impl Fn(usize) -> bool,
    ) -> Option<[u64; N]> {
        let mut fields = Fields(field);
        let mut wide = numbers.map(|(number, _)| number);
        for (index, (number, full)) in numbers.into_iter().enumerate().filter(|(index, _)| has(*index)) {
            if fields.0.is_empty() && number != full {
                continue;
            }
            // The disk is the only number that is short, and it becomes half as long as the others.
            wide[index] = if full == u64::from(u16::MAX) { fields.u32()?.into() } else { fields.u64()? };
        }
        fields.0.is_empty().then_some(wide)
    }
}

/// Whether the Unicode field is for this name, and says the same.
fn confirms(field: &[u8], name: &[u8]) -> bool {
    let mut fields = Fields(field);
    let mut crc = Crc::new();
    crc.update(name);
    let (version, sum) = (fields.take(1), fields.u32());
    version == Some(&[1]) && sum == Some(crc.sum()) && fields.0 == name
}
