//! The end record: where the central directory is and how many entries it has. Most tricks begin here, because every
//! reader looks for this record from behind, each in its own way.

use super::error::ArchiveError;
use super::fields::Fields;

pub(super) const END: [u8; 4] = *b"PK\x05\x06";
const LOCATOR: [u8; 4] = *b"PK\x06\x07";
const END64: [u8; 4] = *b"PK\x06\x06";
const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
/// Without the comment, which may have 65,535 bytes more.
const LENGTH: usize = 22;
const LOCATOR_LENGTH: usize = 20;
const END64_LENGTH: usize = 56;

/// Where the central directory is.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Directory {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) count: u64,
}

/// The numbers that both kinds of end record have, in their order.
#[derive(Clone, Copy)]
struct Numbers {
    disk: u64,
    directory_disk: u64,
    count_here: u64,
    count: u64,
    size: u64,
    start: u64,
}

/// Finds the one end record and follows it.
pub(super) fn find(bytes: &[u8]) -> Result<Directory, ArchiveError> {
    let at = place(bytes)?;
    let (end, numbers) = numbers(bytes, at)?;
    if numbers.disk != 0 || numbers.directory_disk != 0 || numbers.count_here != numbers.count {
        return Err(ArchiveError::Disks);
    }
    let outside = ArchiveError::Directory { what: "it does not lie before the end record" };
    let (Ok(start), Ok(size)) = (usize::try_from(numbers.start), usize::try_from(numbers.size)) else {
        return Err(outside);
    };
    match start.checked_add(size) {
        Some(sum) if sum == end => Ok(Directory { start, end, count: numbers.count }),
        Some(sum) if sum < end => Err(displaced(bytes, sum, size, end)),
        _ => Err(outside),
    }
}

/// Whether a whole ZIP could end with the last of these bytes.
pub(super) fn ends_here(bytes: &[u8]) -> bool {
    place(bytes).is_ok()
}

/// The offset of the end record.
fn place(bytes: &[u8]) -> Result<usize, ArchiveError> {
    let floor = bytes.len().saturating_sub(LENGTH + usize::from(u16::MAX));
    let mut fits = None;
    let mut last = None;
    for (at, _) in bytes[floor..].windows(END.len()).enumerate().filter(|(_, window)| **window == END) {
        let at = floor + at;
        if fits.is_some() {
            // Either another whole end record, or one inside the comment that a less careful reader finds first.
            return Err(ArchiveError::SeveralEnds);
        }
        let Some(comment) = Fields::at(bytes, at + LENGTH - 2).and_then(|mut fields| fields.u16()) else { continue };
        let end = at + LENGTH + usize::from(comment);
        if end == bytes.len() {
            fits = Some(at);
        }
        last = Some(end);
    }
    match (fits, last) {
        (Some(at), _) => Ok(at),
        (None, Some(end)) if end < bytes.len() => Err(ArchiveError::DataAfter { bytes: (bytes.len() - end) as u64 }),
        (None, Some(_)) => Err(ArchiveError::Truncated { what: "its comment is shorter than the end record says" }),
        (None, None) if bytes.starts_with(LOCAL) => Err(ArchiveError::Truncated { what: "it has no end record" }),
        (None, None) => Err(ArchiveError::NotZip),
    }
}

/// What the end records say, and where the first of them begins.
fn numbers(bytes: &[u8], at: usize) -> Result<(usize, Numbers), ArchiveError> {
    let ordinary = Fields::at(bytes, at).and_then(ordinary).ok_or(ArchiveError::NotZip)?;
    let Some(locator) = at.checked_sub(LOCATOR_LENGTH) else { return Ok((at, ordinary)) };
    let mut fields = Fields(&bytes[locator..at]);
    if fields.signature(LOCATOR).is_none() {
        return Ok((at, ordinary));
    }
    // Some readers follow the locator always and some only when the ordinary record refers to it. Both must arrive at the
    // same numbers.
    let (disk, place, disks) = (|| Some((fields.u32()?, fields.u64()?, fields.u32()?)))()
        .ok_or(ArchiveError::Zip64End { what: "its locator is damaged" })?;
    if disk != 0 || disks > 1 {
        return Err(ArchiveError::Disks);
    }
    let misplaced = ArchiveError::Zip64End { what: "it does not lie where its locator says" };
    let Some(begin) = locator.checked_sub(END64_LENGTH).filter(|begin| *begin as u64 == place) else {
        return Err(misplaced);
    };
    let wide = wide(Fields(&bytes[begin..locator])).ok_or(misplaced)?;
    let agree = |ordinary: u64, full: u64, wide: u64| ordinary == full || ordinary == wide;
    let (short, long) = (u64::from(u16::MAX), u64::from(u32::MAX));
    let same = agree(ordinary.disk, short, wide.disk)
        && agree(ordinary.directory_disk, short, wide.directory_disk)
        && agree(ordinary.count_here, short, wide.count_here)
        && agree(ordinary.count, short, wide.count)
        && agree(ordinary.size, long, wide.size)
        && agree(ordinary.start, long, wide.start);
    if same { Ok((begin, wide)) } else { Err(ArchiveError::Zip64End { what: "their numbers differ" }) }
}

fn ordinary(mut fields: Fields<'_>) -> Option<Numbers> {
    fields.signature(END)?;
    Some(Numbers {
        disk: fields.u16()?.into(),
        directory_disk: fields.u16()?.into(),
        count_here: fields.u16()?.into(),
        count: fields.u16()?.into(),
        size: fields.u32()?.into(),
        start: fields.u32()?.into(),
    })
}

fn wide(mut fields: Fields<'_>) -> Option<Numbers> {
    fields.signature(END64)?;
    let (length, _versions) = (fields.u64()?, fields.u32()?);
    // The length does not count itself and the signature. A longer record is for encryption.
    if length != END64_LENGTH as u64 - 12 {
        return None;
    }
    Some(Numbers {
        disk: fields.u32()?.into(),
        directory_disk: fields.u32()?.into(),
        count_here: fields.u64()?,
        count: fields.u64()?,
        size: fields.u64()?,
        start: fields.u64()?,
    })
}

/// There are bytes between where the directory ends and where the end record begins: a program glued before the archive
/// moves everything by its length; anything else is a hole.
fn displaced(bytes: &[u8], sum: usize, size: usize, end: usize) -> ArchiveError {
    let moved = (end - sum) as u64;
    let really_there = bytes[end - size..].starts_with(if size == 0 { &END } else { CENTRAL });
    let as_said = bytes[sum - size..].starts_with(CENTRAL);
    if really_there && !as_said {
        ArchiveError::DataBefore { bytes: moved }
    } else {
        ArchiveError::Gap { at: sum as u64, bytes: moved }
    }
}
