//! Files as the body of a request, read while they are sent.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

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
    File(Box<dyn Read + Send>),
}

impl FileBody {
    /// One file; `-` is standard input.
    pub(crate) fn of_file(kind: &str, path: &PathBuf) -> Result<Self, Failure> {
        Ok(Self::sending(kind.to_owned(), vec![Piece::File(open(path)?)]))
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
            pieces.extend([Piece::Text(head), Piece::File(open(path)?), Piece::Text("\r\n".to_owned())]);
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
    let mut file = match piece {
        Piece::Text(text) => return pass_on(Ok(Bytes::from(text))),
        Piece::File(file) => file,
    };
    loop {
        let mut buffer = vec![0; PART];
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                buffer.truncate(count);
                pass_on(Ok(Bytes::from(buffer)))?;
            }
            Err(error) => {
                pass_on(Err(error))?;
                return Err(());
            }
        }
    }
}

fn open(path: &PathBuf) -> Result<Box<dyn Read + Send>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let failed = |error: io::Error| Failure::wrong_use(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(Failure::wrong_use(format!("{} is a folder, not a file", path.display())));
    }
    Ok(Box::new(file))
}
