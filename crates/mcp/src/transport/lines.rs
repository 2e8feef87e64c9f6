//! Bytes as they come, cut at line ends.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes, cut at line ends.
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins, and from where on no line end has been looked for.
    from: usize,
    seen: usize,
    longest: usize,
}

impl Lines {
    pub(crate) fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), from: 0, seen: 0, longest }
    }

    /// Reads some more.
    pub(crate) async fn more(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<usize> {
        self.bytes.drain(..self.from);
        (self.seen, self.from) = (self.bytes.len(), 0);
        if self.bytes.is_empty() && self.bytes.capacity() > 1 << 20 {
            // One long message should not be paid for ever after.
            self.bytes = Vec::new();
        }
        self.bytes.reserve(16 << 10);
        stream.read_buf(&mut self.bytes).await
    }

    /// The next whole line, without its end.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let at = self.bytes.get(self.seen..)?.iter().position(|byte| *byte == b'\n');
        let Some(at) = at else {
            self.seen = self.bytes.len();
            return None;
        };
        let (from, to) = (self.from, self.seen + at);
        (self.from, self.seen) = (to + 1, to + 1);
        let line = self.bytes.get(from..to)?;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Whether the line that has no end yet is longer than it may be.
    pub(crate) fn too_long(&self) -> bool {
        self.bytes.len() - self.from > self.longest
    }

    /// Cuts the line here.
    pub(crate) fn take(&mut self) -> &[u8] {
        let from = std::mem::replace(&mut self.from, self.bytes.len());
        self.seen = self.from;
        self.bytes.get(from..).unwrap_or_default()
    }
}
