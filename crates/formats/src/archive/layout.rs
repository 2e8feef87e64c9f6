//! Where the entries lie. Each has a header of its own before its content, which must repeat what the central directory
//! says, and all of them together must fill the archive up to the directory: no byte without an entry, none with two.

use std::ops::Range;

use super::error::{ArchiveError, shown};
use super::fields::Fields;
use super::record::{DESCRIPTOR, Extra, Method, Record};

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const DESCRIPTOR_SIGNATURE: [u8; 4] = *b"PK\x07\x08";
/// A deflate stream that holds nothing, as written for a folder by tools that compress everything.
const NOTHING: &[u8] = &[3, 0];

/// Where the content of each record is, in their order. The directory begins at `end`.
pub(super) fn contents(bytes: &[u8], end: usize, records: &[Record<'_>]) -> Result<Vec<Range<usize>>, ArchiveError> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|index| records[*index].offset);
    let mut contents = vec![0..0; records.len()];
    let mut filled = 0;
    for (place, index) in order.iter().enumerate() {
        let record = &records[*index];
        let overlap = || ArchiveError::Overlap { name: shown(record.name) };
        let start = usize::try_from(record.offset).ok().filter(|start| *start < end).ok_or_else(overlap)?;
        // It cannot be less: the entry before this one does not reach beyond this start.
        if start > filled {
            return Err(stray(bytes, filled, start));
        }
        let next =
            order.get(place + 1).and_then(|next| usize::try_from(records[*next].offset).ok()).unwrap_or(end).min(end);
        let content = local(bytes, start, end, record)?;
        if content.end > next {
            return Err(overlap());
        }
        filled = content.end + descriptor(&bytes[content.end..next], record)?;
        if record.folder && !is_nothing(record, &bytes[content.clone()]) {
            return Err(ArchiveError::FolderContent { name: shown(record.name) });
        }
        contents[*index] = content;
    }
    if filled == end { Ok(contents) } else { Err(stray(bytes, filled, end)) }
}

fn is_nothing(record: &Record<'_>, content: &[u8]) -> bool {
    record.size == 0
        && record.crc == 0
        && (content.is_empty() || (record.method == Method::Deflate && content == NOTHING))
}

/// Bytes that the directory does not account for.
fn stray(bytes: &[u8], from: usize, to: usize) -> ArchiveError {
    let (at, length) = (from as u64, (to - from) as u64);
    if bytes[from..to].starts_with(&LOCAL) {
        ArchiveError::Hidden { at }
    } else if from == 0 {
        ArchiveError::DataBefore { bytes: length }
    } else {
        ArchiveError::Gap { at, bytes: length }
    }
}

/// Compares the header before the content, and says where the content is.
fn local(bytes: &[u8], start: usize, end: usize, record: &Record<'_>) -> Result<Range<usize>, ArchiveError> {
    let differs = |field| ArchiveError::Header { name: shown(record.name), field };
    let header = Header::read(Fields(&bytes[start..end])).ok_or_else(|| differs("place"))?;
    let pairs = [
        (header.name == record.name, "name"),
        (header.flags == record.flags, "flags"),
        (header.method == if record.method == Method::Stored { 0 } else { 8 }, "method"),
    ];
    if let Some((_, field)) = pairs.into_iter().find(|(same, _)| !same) {
        return Err(differs(field));
    }
    let extra = Extra::read(header.extra, record.name)?;
    extra.text(record.name, record.flags)?;
    let full = u64::from(u32::MAX);
    let [size, packed] = extra
        .widen([(header.size.into(), full), (header.packed.into(), full)])
        .ok_or_else(|| ArchiveError::Zip64 { name: shown(record.name) })?;
    // Whoever writes into a pipe does not know these yet, leaves them empty and writes them behind the content.
    let later = record.flags & DESCRIPTOR != 0;
    let same = |said: u64, central: u64| said == central || (later && said == 0);
    let pairs = [
        (same(header.crc.into(), record.crc.into()), "checksum"),
        (same(packed, record.packed), "packed size"),
        (same(size, record.size), "size"),
    ];
    if let Some((_, field)) = pairs.into_iter().find(|(same, _)| !same) {
        return Err(differs(field));
    }
    let begin = start + header.length;
    usize::try_from(record.packed)
        .ok()
        .and_then(|packed| begin.checked_add(packed))
        .filter(|to| *to <= end)
        .map(|to| begin..to)
        .ok_or_else(|| ArchiveError::Overlap { name: shown(record.name) })
}

struct Header<'a> {
    flags: u16,
    method: u16,
    crc: u32,
    packed: u32,
    size: u32,
    name: &'a [u8],
    extra: &'a [u8],
    length: usize,
}

impl<'a> Header<'a> {
    fn read(mut fields: Fields<'a>) -> Option<Self> {
        let before = fields.0.len();
        fields.signature(LOCAL)?;
        let _version_needed = fields.u16()?;
        let (flags, method) = (fields.u16()?, fields.u16()?);
        let _time_and_date = fields.u32()?;
        let (crc, packed, size) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (name_length, extra_length) = (fields.u16()?, fields.u16()?);
        let name = fields.take(name_length.into())?;
        let extra = fields.take(extra_length.into())?;
        Some(Self { flags, method, crc, packed, size, name, extra, length: before - fields.0.len() })
    }
}

/// The length of what is behind the content of an entry: checksum and sizes, of 32 or 64 bits, with or without a signature.
/// All four are in use; the one that fills the room up to the next entry is meant, if any does.
fn descriptor(room: &[u8], record: &Record<'_>) -> Result<usize, ArchiveError> {
    if record.flags & DESCRIPTOR == 0 {
        return Ok(0);
    }
    let forms = [(true, false), (false, false), (true, true), (false, true)];
    let fitting = forms.into_iter().filter_map(|(signed, wide)| sizes_behind(room, record, signed, wide));
    fitting
        .min_by_key(|length| room.len() - length)
        .ok_or_else(|| ArchiveError::Descriptor { name: shown(record.name) })
}

/// The length of a descriptor in this form, if it is one and agrees.
fn sizes_behind(room: &[u8], record: &Record<'_>, signed: bool, wide: bool) -> Option<usize> {
    let mut fields = Fields(room);
    if signed {
        fields.signature(DESCRIPTOR_SIGNATURE)?;
    }
    let crc = fields.u32()?;
    let (packed, size) =
        if wide { (fields.u64()?, fields.u64()?) } else { (fields.u32()?.into(), fields.u32()?.into()) };
    let same = crc == record.crc && packed == record.packed && size == record.size;
    same.then_some(room.len() - fields.0.len())
}
