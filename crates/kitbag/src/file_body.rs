//! Files as the body of a request, read while they are sent.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::failure::Failure;

/// So much is read at a time.
const PART: usize = 256 * 1024;

/// The body of a request.
pub(crate) struct FileBody {
    /// Its `Content-Type`.
    pub(crate) kind: String,
    pub(crate) parts: ReceiverStream<io::Result<Bytes>>,
}

/// Something to send: a text of ours, or what a file holds.
enum Piece {
    Text(String),
    File(Box<dyn Read + Send>, u64),
}

impl FileBody {
    /// One file; `-` is standard input.
    pub(crate) fn of_file(kind: &str, path: &PathBuf) -> Result<Self, Failure> {
        Ok(Self::sending(kind.to_owned(), vec![open(path)?]))
    }

    /// A form with files, each under a name.
    pub(crate) fn form(files: &[(String, PathBuf)]) -> Result<Self, Failure> {
        // Nothing in a file can end the form early: nobody who wrote one could know this.
        let boundary = format!("kitbag-{}", kitbag_model::ChatId::generate());
        let mut pieces = Vec::new();
        for (name, path) in files {
            let name = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
            let head = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
                 Content-Type: application/octet-stream\r\n\r\n"
            );
            pieces.extend([Piece::Text(head), open(path)?, Piece::Text("\r\n".to_owned())]);
        }
        pieces.push(Piece::Text(format!("--{boundary}--\r\n")));
        Ok(Self::sending(format!("multipart/form-data; boundary={boundary}"), pieces))
    }

    fn sending(kind: String, pieces: Vec<Piece>) -> Self {
        let (sender, receiver) = mpsc::channel(4);
        tokio::task::spawn_blocking(move || {
            for piece in pieces {
                if send(piece, &sender).is_err() {
                    break;
                }
            }
        });
        Self { kind, parts: ReceiverStream::new(receiver) }
    }
}

/// Fails when nobody listens any more, or after it has said that a file cannot be read.
fn send(piece: Piece, sender: &mpsc::Sender<io::Result<Bytes>>) -> Result<(), ()> {
    let pass_on = |part| sender.blocking_send(part).map_err(drop);
    let (mut file, size) = match piece {
        Piece::Text(text) => return pass_on(Ok(Bytes::from(text))),
        Piece::File(file, size) => (file, size),
    };
    let mut progress = Progress::new(size);
    loop {
        let mut buffer = vec![0; PART];
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                buffer.truncate(count);
                progress.add(count);
                pass_on(Ok(Bytes::from(buffer)))?;
            }
            Err(error) => {
                pass_on(Err(error))?;
                return Err(());
            }
        }
    }
}

fn open(path: &PathBuf) -> Result<Piece, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Piece::File(Box::new(io::stdin()), 0));
    }
    let failed = |error: io::Error| Failure::wrong_use(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if data.is_dir() {
        return Err(Failure::wrong_use(format!("{} is a folder, not a file", path.display())));
    }
    Ok(Piece::File(Box::new(file), data.len()))
}

/// Says on a terminal how far a large file is. Nobody needs to be told about a small one.
struct Progress {
    sent: u64,
    size: u64,
    shown: Option<Instant>,
}

impl Progress {
    const LARGE: u64 = 8 << 20;
    const PAUSE: Duration = Duration::from_millis(100);

    fn new(size: u64) -> Self {
        let shown = (size >= Self::LARGE && io::stderr().is_terminal()).then(Instant::now);
        Self { sent: 0, size, shown }
    }

    fn add(&mut self, count: usize) {
        self.sent += count as u64;
        if self.shown.is_none_or(|shown| shown.elapsed() < Self::PAUSE && self.sent < self.size) {
            return;
        }
        self.shown = Some(Instant::now());
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let end = if self.sent >= self.size { "\n" } else { "" };
        let _ = write!(io::stderr(), "\rsent {:.1} of {:.1} MB{end}", megabytes(self.sent), megabytes(self.size));
    }
}
