//! Bodies that are made while they are sent.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use kitbag_cas::CasError;
use kitbag_cas::blobs::BlobReader;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Staged, TransferError};

/// So much is read at a time.
const PART: usize = 256 * 1024;

/// So many parts wait for a slow reader.
const WAITING: usize = 4;

/// A part of a blob: `length` bytes from `start`. No thread waits for a slow reader.
pub(crate) fn stream_blob(blob: Box<dyn BlobReader>, start: u64, length: u64) -> Body {
    let (sender, receiver) = mpsc::channel(WAITING);
    let blob: Arc<dyn BlobReader> = Arc::from(blob);
    tokio::spawn(async move {
        let mut at = start;
        while at < start + length {
            let want = usize::try_from(start + length - at).unwrap_or(usize::MAX).min(PART);
            let blob = Arc::clone(&blob);
            let read = tokio::task::spawn_blocking(move || {
                let mut buffer = vec![0; want];
                let count = blob.read_at(&mut buffer, at).map_err(io::Error::other)?;
                buffer.truncate(count);
                if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Bytes::from(buffer)) }
            });
            let part = read.await.map_err(io::Error::other).flatten();
            let is_over = part.is_err();
            at += part.as_ref().map_or(0, |part| part.len() as u64);
            // An error breaks the connection off: the reader sees that it did not get all of it.
            if sender.send(part).await.is_err() || is_over {
                break;
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// A file that goes away when it was sent.
pub(crate) fn stream_staged(staged: Staged) -> Result<Body, TransferError> {
    // Nobody needs its name when it is open.
    stream_kept(&staged)
}

/// A file that stays, and may be sent again.
pub(crate) fn stream_kept(staged: &Staged) -> Result<Body, TransferError> {
    let failed = |source| TransferError::Disk { path: staged.path().to_owned(), source };
    let file = std::fs::File::open(staged.path()).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    Ok(stream_open(file, length))
}

/// A file that is open, of which so much is sent.
pub(crate) fn stream_open(file: std::fs::File, length: u64) -> Body {
    stream_blob(Box::new(OpenFile(file, length)), 0, length)
}

struct OpenFile(std::fs::File, u64);

impl BlobReader for OpenFile {
    fn length(&self) -> u64 {
        self.1
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, CasError> {
        let read = std::os::unix::fs::FileExt::read_at(&self.0, buffer, at);
        read.map_err(|source| CasError::Io { path: "a file that is being sent".into(), source })
    }
}

/// What `make` writes, from a thread of its own.
pub(crate) fn stream_made(make: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static) -> Body {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut pipe = BufWriter::with_capacity(PART, Pipe(sender.clone()));
        let made = make(&mut pipe).and_then(|()| pipe.flush());
        // What is still in the buffer after an error is worth nothing, and nobody is to wait for it.
        let _ = pipe.into_parts();
        if let Err(error) = made {
            if error.kind() != io::ErrorKind::BrokenPipe {
                tracing::error!(%error, "an answer could not be made to its end");
            }
            let _ = sender.blocking_send(Err(error));
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// What a task sends, part by part: it waits for a slow reader, and hears when there is none any more.
pub(crate) fn stream_sent<F: Future<Output = ()> + Send + 'static>(
    send: impl FnOnce(mpsc::Sender<io::Result<Bytes>>) -> F,
) -> Body {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(send(sender));
    Body::from_stream(ReceiverStream::new(receiver))
}

struct Pipe(mpsc::Sender<io::Result<Bytes>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
