//! What a container says on its standard output and error: the end of it, in lines, within a limit.

use std::collections::VecDeque;

/// So many bytes are kept.
const MOST: usize = 256 * 1024;

/// What a line counts for beside its text. Without it a flood of empty lines would be nothing, and take all memory.
const A_LINE: usize = 32;

/// So many bytes of one call are told while it runs. Whoever listens may be slower than whoever floods.
const TOLD: usize = 512 * 1024;

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
    told: usize,
    open: [Vec<u8>; 2],
}

impl<'a> Logs<'a> {
    /// Nothing was said yet. `tell` hears each line, of a flood the beginning.
    pub(crate) fn new(tell: impl Fn(&Line) + Send + Sync + 'a) -> Self {
        Self { tell: Box::new(tell), lines: VecDeque::new(), kept: 0, cut: 0, told: 0, open: Default::default() }
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
        let line = Line { stream, text };
        self.kept += cost(&line);
        if self.told < TOLD {
            self.told += cost(&line);
            (self.tell)(&line);
        }
        self.lines.push_back(line);
        while self.kept > MOST {
            let Some(gone) = self.lines.pop_front() else { break };
            self.kept -= cost(&gone);
            self.cut += gone.text.len() as u64 + 1;
        }
    }

    /// Somebody else listens now, and has heard nothing yet.
    pub(crate) fn tell_anew(&mut self) {
        self.told = 0;
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

/// What keeping or telling a line costs.
fn cost(line: &Line) -> usize {
    line.text.len() + A_LINE
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
        // Each of the lines that went counts with its end. Beside the long ones there are the last and the empty one before it.
        let gone = cut - (1_000_004 - kept as u64);
        assert!(
            kept <= MOST && gone == 1_000_000_u64.div_ceil(LONGEST as u64) + 2 - lines.len() as u64,
            "{kept} {cut}"
        );
        assert!(lines.iter().all(|line| line.text.len() <= LONGEST));
        assert_eq!(lines.last().unwrap().text, "last");
    }

    /// `yes ""` says little and never ends.
    #[test]
    fn lines_without_text_count_too() {
        let told = std::sync::atomic::AtomicUsize::new(0);
        let mut logs = Logs::new(|_| {
            told.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        for _ in 0..1000 {
            logs.add(Stream::Stderr, &[b'\n'; 1000]);
        }
        let lines = logs.lines.len();
        assert!(lines <= MOST / A_LINE, "{lines}");
        assert!(told.load(std::sync::atomic::Ordering::Relaxed) <= TOLD / A_LINE + 1);
        // Whoever listens next hears again.
        logs.tell_anew();
        let before = told.load(std::sync::atomic::Ordering::Relaxed);
        logs.add(Stream::Stdout, b"again\n");
        assert_eq!(told.load(std::sync::atomic::Ordering::Relaxed), before + 1);
        let (lines, cut) = logs.finish();
        assert_eq!(lines.len() as u64 + cut, 1_000_001);
    }
}
