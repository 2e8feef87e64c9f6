//! Packs: many small blobs in one file, because making a file costs more than writing one.
//!
//! A pack is its blobs one after another, then an index (hash, offset, length; sorted by hash), then a footer that says
//! where the index is and what hash it has. A pack is complete before it gets its name.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use kitbag_model::ContentHash;

use crate::disk::Temporary;
use crate::error::CasError;

const MAGIC: &[u8; 8] = b"kitbagp1";
const ROW: usize = 32 + 8 + 8;
const FOOTER: usize = 8 + 8 + 32;

/// Where in a pack a blob is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// What is in a pack.
pub(super) type Rows = Vec<(ContentHash, Span)>;

/// A pack that is being written.
pub(super) struct PackWriter {
    out: io::BufWriter<Temporary>,
    offset: u64,
    rows: Rows,
}

impl PackWriter {
    pub(super) fn new(file: Temporary) -> Self {
        Self { out: io::BufWriter::with_capacity(1 << 20, file), offset: 0, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, hash: &ContentHash, bytes: &[u8]) -> Result<(), CasError> {
        self.write(bytes)?;
        let length = bytes.len() as u64;
        self.rows.push((*hash, Span { offset: self.offset, length }));
        self.offset += length;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CasError> {
        self.out.write_all(bytes).map_err(|source| CasError::at(self.out.get_ref().path())(source))
    }

    /// How many bytes of blobs are in it.
    pub(super) fn length(&self) -> u64 {
        self.offset
    }

    /// Writes index and footer and makes all of it durable. What is in it, and what to call it.
    pub(super) fn finish(self) -> Result<(Temporary, Rows, ContentHash), CasError> {
        let (file, rows, index) = self.seal()?;
        file.sync()?;
        let name = ContentHash::of(&index);
        Ok((file, rows, name))
    }

    /// Writes index and footer. What is in it, and its index, whose hash is what to call it.
    pub(super) fn seal(mut self) -> Result<(Temporary, Rows, Vec<u8>), CasError> {
        self.rows.sort_by_key(|(hash, _)| *hash);
        let mut index = Vec::with_capacity(self.rows.len() * ROW);
        for (hash, span) in &self.rows {
            index.extend(hash.as_bytes());
            index.extend(span.offset.to_le_bytes());
            index.extend(span.length.to_le_bytes());
        }
        let name = ContentHash::of(&index);
        self.write(&index)?;
        self.write(&self.offset.to_le_bytes())?;
        self.write(name.as_bytes())?;
        self.write(MAGIC)?;
        let path = self.out.get_ref().path().to_owned();
        let file = self.out.into_inner().map_err(|error| CasError::at(&path)(error.into_error()))?;
        Ok((file, self.rows, index))
    }
}

/// Reads the index of a pack; none if it is not one, or damaged.
pub(super) fn read_index(file: &File) -> io::Result<Option<Rows>> {
    let size = file.metadata()?.len();
    let Some(footer_at) = size.checked_sub(FOOTER as u64) else { return Ok(None) };
    let mut footer = [0; FOOTER];
    file.read_exact_at(&mut footer, footer_at)?;
    let index_at = number(&footer[..8]);
    if &footer[FOOTER - 8..] != MAGIC || index_at > footer_at || !(footer_at - index_at).is_multiple_of(ROW as u64) {
        return Ok(None);
    }
    let mut index = vec![0; (footer_at - index_at) as usize];
    file.read_exact_at(&mut index, index_at)?;
    if ContentHash::of(&index).as_bytes() != &footer[8..40] {
        return Ok(None);
    }
    Ok(rows_of(&index))
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes were cut out"))
}

/// Reads an index that is kept beside its pack; none if it is not one.
pub(super) fn rows_of(index: &[u8]) -> Option<Rows> {
    if !index.len().is_multiple_of(ROW) {
        return None;
    }
    let row = |row: &[u8]| {
        let hash = ContentHash::from_bytes(*row.first_chunk().expect("a row begins with a hash"));
        (hash, Span { offset: number(&row[32..]), length: number(&row[40..]) })
    };
    Some(index.chunks_exact(ROW).map(row).collect())
}
