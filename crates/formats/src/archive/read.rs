//! An archive whose structure has been checked, and its entries. Nothing is unpacked until it is asked for.

use std::io;
use std::ops::Range;

use kitbag_model::WorkPath;

use super::error::{ArchiveError, shown};
use super::fields::Fields;
use super::record::{Method, Record};
use super::{Limits, end, inflate, layout, name, tree};

/// So much may be unpacked whatever the ratio.
const HARMLESS: u64 = 32 << 20;
/// Deflate cannot do better than this, so a larger promise is a lie and gets no memory.
const BEST: u64 = 1032;

/// A file in an archive.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) path: WorkPath,
    pub(super) size: u64,
    pub(super) executable: bool,
    pub(super) method: Method,
    pub(super) crc: u32,
    content: Range<usize>,
}

impl Entry {
    /// Its path, which is below whatever folder it is joined to, and means the same on every system.
    pub fn path(&self) -> &WorkPath {
        &self.path
    }

    /// Its size, unpacked. Reading it gives this many bytes or an error.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether its owner may run it. Nothing else of its mode is known.
    pub fn executable(&self) -> bool {
        self.executable
    }
}

/// An archive that says the same in all its parts. It borrows its bytes and can be read from several threads at once.
#[derive(Clone, Debug)]
pub struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
    folders: Vec<WorkPath>,
}

impl<'a> Archive<'a> {
    /// Checks the whole structure: every record, header, name and size. Unpacks nothing.
    pub fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, ArchiveError> {
        if bytes.len() as u64 > limits.packed {
            return Err(ArchiveError::Packed { bytes: bytes.len() as u64, allowed: limits.packed });
        }
        let directory = end::find(bytes)?;
        let count = usize::try_from(directory.count)
            .ok()
            .filter(|count| *count <= limits.entries)
            .ok_or(ArchiveError::Entries { entries: directory.count, allowed: limits.entries })?;
        let mut fields = Fields(&bytes[directory.start..directory.end]);
        let (mut records, mut paths) = (Vec::new(), Vec::new());
        let mut unpacked = 0_u64;
        for _ in 0..count {
            if fields.0.is_empty() {
                return Err(ArchiveError::Count { said: directory.count });
            }
            let (record, text) = Record::read(&mut fields)?;
            let path = name::check(text.strip_suffix('/').unwrap_or(text), limits)?;
            unpacked = unpacked.saturating_add(record.size);
            if unpacked > limits.unpacked {
                return Err(ArchiveError::Unpacked { allowed: limits.unpacked });
            }
            records.push(record);
            paths.push(path);
        }
        if !fields.0.is_empty() {
            return Err(ArchiveError::Count { said: directory.count });
        }
        if unpacked > HARMLESS && unpacked > (bytes.len() as u64).saturating_mul(limits.ratio) {
            return Err(ArchiveError::Ratio { allowed: limits.ratio });
        }
        let contents = layout::contents(bytes, directory.start, &records)?;
        let (mut entries, mut folders) = (Vec::new(), Vec::new());
        for ((record, path), content) in records.iter().zip(paths).zip(contents) {
            if record.folder {
                folders.push(path);
            } else {
                let &Record { size, executable, method, crc, .. } = record;
                entries.push(Entry { path, size, executable, method, crc, content });
            }
        }
        tree::check(entries.iter().map(Entry::path), &folders)?;
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        folders.sort();
        Ok(Self { bytes, entries, folders })
    }

    /// Its files, sorted by path.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The folders that it lists, sorted. Folders that only follow from a file's path are not among them.
    pub fn folders(&self) -> &[WorkPath] {
        &self.folders
    }

    /// The file of exactly this path.
    pub fn entry(&self, path: &str) -> Option<&Entry> {
        self.entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok().map(|index| &self.entries[index])
    }

    /// The size of all files together, unpacked.
    pub fn size(&self) -> u64 {
        self.entries.iter().map(Entry::size).sum()
    }

    /// A file's content, checked.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, ArchiveError> {
        let possible = entry.size.min((entry.content.len() as u64).saturating_mul(BEST));
        let mut content = Vec::with_capacity(usize::try_from(possible).unwrap_or_default());
        self.copy(entry, &mut content)?;
        Ok(content)
    }

    /// A file's content, piece by piece, and never more of it than [`Entry::size`] says. The checksum is at the end, so
    /// what was written counts only if this succeeds.
    pub fn copy(&self, entry: &Entry, sink: &mut dyn io::Write) -> Result<(), ArchiveError> {
        // An entry of another archive may lead beyond this one.
        let packed = self.bytes.get(entry.content.clone());
        let packed = packed.ok_or_else(|| ArchiveError::Overlap { name: shown(entry.path.as_str().as_bytes()) })?;
        inflate::unpack(packed, entry, sink)
    }

    /// Unpacks every file once into nothing. To do more with the content on the way, or on several threads, call
    /// [`Archive::copy`] for parts of [`Archive::entries`].
    pub fn verify(&self) -> Result<(), ArchiveError> {
        self.entries.iter().try_for_each(|entry| self.copy(entry, &mut io::sink()))
    }
}
