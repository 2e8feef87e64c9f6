//! From packed bytes to content, with the checks that only the content can answer: size, checksum, and that the stream
//! ends where its bytes do. Never gives out more than the archive said, whatever the stream would unpack to.

use std::io;

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::error::{ArchiveError, shown};
use super::read::Entry;
use super::record::Method;

/// How much is unpacked at a time.
const PIECE: usize = 64 << 10;

/// Unpacks `packed` piece by piece.
pub(super) fn unpack(packed: &[u8], entry: &Entry, sink: &mut dyn io::Write) -> Result<(), ArchiveError> {
    let mut crc = Crc::new();
    let mut pass = |piece: &[u8]| {
        crc.update(piece);
        sink.write_all(piece).map_err(ArchiveError::Sink)
    };
    match entry.method {
        Method::Stored => packed.chunks(PIECE).try_for_each(&mut pass)?,
        Method::Deflate => inflate(packed, entry, &mut pass)?,
    }
    if crc.sum() == entry.crc {
        Ok(())
    } else {
        Err(ArchiveError::Checksum { name: shown(entry.path.as_str().as_bytes()) })
    }
}

fn inflate(
    packed: &[u8],
    entry: &Entry,
    pass: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let name = || shown(entry.path.as_str().as_bytes());
    let size = || ArchiveError::Size { name: name(), said: entry.size };
    // One byte more than is expected, so that a stream with more shows itself at once.
    let room = usize::try_from(entry.size).map_or(PIECE, |size| size.saturating_add(1).min(PIECE));
    let mut piece = vec![0; room];
    let mut stream = Decompress::new(false);
    let mut given = 0_u64;
    let mut rest = packed;
    loop {
        let (read, written) = (stream.total_in(), stream.total_out());
        let status = stream
            .decompress(rest, &mut piece, FlushDecompress::None)
            .map_err(|_| ArchiveError::Deflate { name: name() })?;
        let read = usize::try_from(stream.total_in() - read).unwrap_or(usize::MAX);
        let written = usize::try_from(stream.total_out() - written).unwrap_or(usize::MAX);
        rest = rest.get(read..).unwrap_or_default();
        let fresh = piece.get(..written).unwrap_or_default();
        given = given.saturating_add(fresh.len() as u64);
        if given > entry.size {
            return Err(size());
        }
        pass(fresh)?;
        match status {
            Status::StreamEnd if !rest.is_empty() => return Err(ArchiveError::LeftOver { name: name() }),
            Status::StreamEnd if given != entry.size => return Err(size()),
            Status::StreamEnd => return Ok(()),
            // No progress: the stream wants bytes that are not there.
            _ if read == 0 && written == 0 => return Err(ArchiveError::Deflate { name: name() }),
            _ => {}
        }
    }
}
