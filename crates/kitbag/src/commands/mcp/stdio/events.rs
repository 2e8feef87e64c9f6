//! The messages in an answer that goes on and on.

use crate::failure::{Doing, Failure};

/// Reads the messages of a stream.
pub(super) struct Messages {
    response: reqwest::Response,
    buffer: Vec<u8>,
    /// So much of it has no end of an event.
    searched: usize,
    /// The number of the last event, from which the stream can be taken up.
    pub(super) last: Option<String>,
}

impl Messages {
    pub(super) fn new(response: reqwest::Response) -> Self {
        Self { response, buffer: Vec::new(), searched: 0, last: None }
    }

    /// The next message, in one line; none when there are no more.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            while let Some(end) = self.buffer[self.searched..].windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..self.searched + end + 2).collect();
                self.searched = 0;
                let block = String::from_utf8_lossy(&block);
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                if let Some(number) = field("id:") {
                    self.last = Some(number.to_owned());
                }
                if let Some(data) = field("data:").filter(|data| !data.is_empty()) {
                    return Ok(Some(data.to_owned()));
                }
            }
            self.searched = self.buffer.len().saturating_sub(1);
            match self.response.chunk().await.doing("the server broke off")? {
                Some(part) => self.buffer.extend_from_slice(&part),
                None => return Ok(None),
            }
        }
    }
}
