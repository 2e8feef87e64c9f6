//! What a container says on its standard output and error: the end of it, in lines, within a limit.

use std::collections::VecDeque;

/// So many bytes are kept.
const MOST: usize = 256 * 1024;

/// A line that is longer is cut into several.
const LONGEST: usize = 16 * 1024;

/// Where a line was said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stream {
    /// On standard output.
    Stdout,
    /// On standard error.
    Stderr,
}

/// A line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    /// Where it was said.
    pub stream: Stream,
    /// What was said.
    pub text: String,
}

/// Who hears each line.
type Tell<'a> = Box<dyn Fn(&Line) + Send + Sync + 'a>;

/// The end of what was said.
pub(crate) struct Logs<'a> {
    tell: Tell<'a>,
    lines: VecDeque<Line>,
    kept: usize,
    cut: u64,
    open: [Vec<u8>; 2],
}

impl<'a> Logs<'a> {
    /// Nothing was said yet. `tell` hears each line.
    pub(crate) fn new(tell: impl Fn(&Line) + Send + Sync + 'a) -> Self {
        Self { tell: Box::new(tell), lines: VecDeque::new(), kept: 0, cut: 0, open: Default::default() }
    }

    /// More was said.
    pub(crate) fn add(&mut self, stream: Stream, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut part = part;
            while !part.is_empty() {
                let open = &mut self.open[stream as usize];
                let room = LONGEST - open.len().min(LONGEST);
                let (now, later) = part.split_at(part.len().min(room));
                open.extend_from_slice(now);
                part = later;
                if open.ends_with(b"\n") || open.len() >= LONGEST {
                    self.end_line(stream);
                }
            }
        }
    }

    fn end_line(&mut self, stream: Stream) {
        let bytes = std::mem::take(&mut self.open[stream as usize]);
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let text = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned();
        self.kept += text.len();
        let line = Line { stream, text };
        (self.tell)(&line);
        self.lines.push_back(line);
        while self.kept > MOST {
            let Some(gone) = self.lines.pop_front() else { break };
            self.kept -= gone.text.len();
            self.cut += gone.text.len() as u64;
        }
    }

    /// The lines so far, and how many bytes were left out. What has no end yet comes with its end.
    pub(crate) fn take(&mut self) -> (Vec<Line>, u64) {
        self.kept = 0;
        (std::mem::take(&mut self.lines).into(), std::mem::take(&mut self.cut))
    }

    /// The lines, and how many bytes were left out.
    pub(crate) fn finish(mut self) -> (Vec<Line>, u64) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !self.open[stream as usize].is_empty() {
                self.end_line(stream);
            }
        }
        (self.lines.into(), self.cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_the_end_is_kept() {
        let mut logs = Logs::new(|_| {});
        logs.add(Stream::Stdout, b"one\r\ntw");
        logs.add(Stream::Stderr, b"else\n");
        logs.add(Stream::Stdout, b"o\nthree");
        let (lines, cut) = logs.finish();
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!((texts.as_slice(), cut), (&["one", "else", "two", "three"][..], 0));
        let mut logs = Logs::new(|_| {});
        for _ in 0..100 {
            logs.add(Stream::Stdout, &[b'x'; 10_000]);
        }
        logs.add(Stream::Stderr, b"\nlast");
        let (lines, cut) = logs.finish();
        let kept: usize = lines.iter().map(|line| line.text.len()).sum();
        assert!(kept <= MOST && kept as u64 + cut == 1_000_004, "{kept} {cut}");
        assert!(lines.iter().all(|line| line.text.len() <= LONGEST));
        assert_eq!(lines.last().unwrap().text, "last");
    }
}
