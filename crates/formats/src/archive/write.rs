//! Writes ZIP archives into anything that takes bytes, without going back and without holding a large file. The same tree
//! gives the same bytes: sorted, at a fixed time, with no owner.

use std::io::{self, Read, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use kitbag_model::WorkPath;

use super::headers::{DEFLATE, DESCRIPTOR, STORED, UTF8, Written, end};

/// Files up to this size are packed in memory, so that their sizes can stand before them. Larger ones are passed through,
/// and have theirs behind.
const SMALL: usize = 256 << 10;

/// Why an archive could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The entries came in another order than that of their paths, or one came twice.
    #[error("{path} must come before {previous}: an archive is written in the order of its paths, each of them once")]
    Order {
        /// What came now.
        path: WorkPath,
        /// What came before.
        previous: WorkPath,
    },
    /// One of its folders was written as a file.
    #[error("{path} cannot be below {file}, which is a file")]
    BelowFile {
        /// What came now.
        path: WorkPath,
        /// The file.
        file: WorkPath,
    },
    /// The content of a file could not be read.
    #[error("the content of {path} could not be read")]
    Content {
        /// Whose content.
        path: WorkPath,
        /// Why.
        source: io::Error,
    },
    /// The archive could not be passed on.
    #[error("the archive could not be written")]
    Sink(#[source] io::Error),
    /// Something failed before, and what has been written is no whole archive.
    #[error("the archive is incomplete because an entry failed before")]
    Broken,
}

/// Writes one archive. Call [`ArchiveWriter::finish`], or it has no end.
pub struct ArchiveWriter<W: Write> {
    out: Counted<W>,
    entries: Vec<Written>,
    /// Kept, because making one costs more than packing a small file.
    packer: Compress,
    broken: bool,
}

impl<W: Write> ArchiveWriter<W> {
    /// Into `out`.
    pub fn new(out: W) -> Self {
        let packer = Compress::new(Compression::default(), false);
        Self { out: Counted { out, count: 0 }, entries: Vec::new(), packer, broken: false }
    }

    /// Adds a file. Its path must come after all before it.
    pub fn file(&mut self, path: &WorkPath, executable: bool, content: &mut dyn Read) -> Result<(), WriteError> {
        let mut entry = self.begin(path, executable, false)?;
        self.broken = true;
        let mut first = Vec::new();
        let unread = |source| WriteError::Content { path: path.clone(), source };
        (&mut *content).take(SMALL as u64 + 1).read_to_end(&mut first).map_err(unread)?;
        if first.len() <= SMALL {
            self.small(&mut entry, &first).map_err(WriteError::Sink)?;
        } else {
            self.large(&mut entry, first, content)?;
        }
        self.entries.push(entry);
        self.broken = false;
        Ok(())
    }

    /// Adds a folder. Only empty ones need it.
    pub fn folder(&mut self, path: &WorkPath) -> Result<(), WriteError> {
        let entry = self.begin(path, true, true)?;
        self.broken = true;
        self.out.write_all(&entry.local()).map_err(WriteError::Sink)?;
        self.entries.push(entry);
        self.broken = false;
        Ok(())
    }

    /// Writes the central directory and gives `out` back.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if self.broken {
            return Err(WriteError::Broken);
        }
        self.end().map_err(WriteError::Sink)?;
        Ok(self.out.out)
    }

    fn begin(&self, path: &WorkPath, executable: bool, folder: bool) -> Result<Written, WriteError> {
        if self.broken {
            return Err(WriteError::Broken);
        }
        if let Some(previous) = self.entries.last().filter(|previous| previous.path >= *path) {
            return Err(WriteError::Order { path: path.clone(), previous: previous.path.clone() });
        }
        for (end, _) in path.as_str().match_indices('/') {
            let above = &path.as_str()[..end];
            let found = self.entries.binary_search_by(|entry| entry.path.as_str().cmp(above));
            if let Some(file) = found.ok().map(|index| &self.entries[index]).filter(|entry| !entry.folder) {
                return Err(WriteError::BelowFile { path: path.clone(), file: file.path.clone() });
            }
        }
        Ok(Written {
            path: path.clone(),
            folder,
            executable,
            flags: if path.as_str().is_ascii() { 0 } else { UTF8 },
            method: STORED,
            crc: 0,
            packed: 0,
            size: 0,
            offset: self.out.count,
        })
    }

    fn small(&mut self, entry: &mut Written, content: &[u8]) -> io::Result<()> {
        let mut crc = Crc::new();
        crc.update(content);
        let packed = self.pack(content)?;
        entry.method = if packed.is_some() { DEFLATE } else { STORED };
        let packed = packed.as_deref().unwrap_or(content);
        (entry.crc, entry.packed, entry.size) = (crc.sum(), packed.len() as u64, content.len() as u64);
        self.out.write_all(&entry.local())?;
        self.out.write_all(packed)
    }

    /// The content packed, if that makes it smaller.
    fn pack(&mut self, content: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if content.is_empty() {
            return Ok(None);
        }
        // There is no room for more than the content, so what cannot be packed is noticed early.
        let mut packed = Vec::with_capacity(content.len());
        self.packer.reset();
        let status = self.packer.compress_vec(content, &mut packed, FlushCompress::Finish)?;
        Ok((status == Status::StreamEnd && packed.len() < content.len()).then_some(packed))
    }

    fn large(&mut self, entry: &mut Written, first: Vec<u8>, content: &mut dyn Read) -> Result<(), WriteError> {
        (entry.flags, entry.method) = (entry.flags | DESCRIPTOR, DEFLATE);
        self.out.write_all(&entry.local()).map_err(WriteError::Sink)?;
        let start = self.out.count;
        let mut crc = Crc::new();
        let mut encoder = DeflateEncoder::new(&mut self.out, Compression::default());
        let mut piece = first;
        let mut length = piece.len();
        while length > 0 {
            crc.update(&piece[..length]);
            encoder.write_all(&piece[..length]).map_err(WriteError::Sink)?;
            entry.size += length as u64;
            length = read_some(content, &mut piece)
                .map_err(|source| WriteError::Content { path: entry.path.clone(), source })?;
        }
        encoder.finish().map_err(WriteError::Sink)?;
        (entry.crc, entry.packed) = (crc.sum(), self.out.count - start);
        self.out.write_all(&entry.descriptor()).map_err(WriteError::Sink)
    }

    fn end(&mut self) -> io::Result<()> {
        let start = self.out.count;
        for entry in &self.entries {
            self.out.write_all(&entry.central())?;
        }
        let size = self.out.count - start;
        self.out.write_all(&end(self.entries.len(), size, start))?;
        self.out.flush()
    }
}

fn read_some(content: &mut dyn Read, piece: &mut [u8]) -> io::Result<usize> {
    loop {
        match content.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Knows how many bytes went through.
struct Counted<W> {
    out: W,
    count: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
