//! What happened in a turn, numbered, for those who follow it and those who come back. Pieces of a block are one growing text, and gone when
//! the block is whole: whoever missed them gets the block. So a log is never much larger than what the turn says, in however many bits it
//! was said, and whoever follows takes from it a little at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

/// So many events are taken out at once.
const AT_ONCE: usize = 64;

/// One event, as it is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Its number. Numbers grow; some are left out.
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    /// JSON.
    pub(crate) data: Arc<str>,
}

/// One event, as it is kept.
enum Kept {
    Whole(Entry),
    Pieces(Pieces),
}

/// Pieces of one block. Each byte has a number of its own, so that whoever had the beginning can be told exactly the rest, and nothing
/// need be kept of where one piece ended and the next began.
struct Pieces {
    name: &'static str,
    block: usize,
    /// The number before its first byte.
    base: u64,
    text: String,
}

impl Pieces {
    fn last(&self) -> u64 {
        self.base + self.text.len() as u64
    }

    /// What is behind a number, as one event.
    fn behind(&self, after: u64) -> Entry {
        let from = usize::try_from(after.saturating_sub(self.base)).unwrap_or(usize::MAX).min(self.text.len());
        // Nobody was ever given a number inside a letter; somebody may make one up.
        let delta = self.text.split_at(self.text.floor_char_boundary(from)).1;
        Entry {
            id: self.last(),
            name: self.name,
            data: json!({ "index": self.block, "delta": delta }).to_string().into(),
        }
    }
}

impl Kept {
    fn last(&self) -> u64 {
        match self {
            Self::Whole(entry) => entry.id,
            Self::Pieces(pieces) => pieces.last(),
        }
    }

    fn behind(&self, after: u64) -> Entry {
        match self {
            Self::Whole(entry) => entry.clone(),
            Self::Pieces(pieces) => pieces.behind(after),
        }
    }

    fn bytes(&self) -> usize {
        let text = match self {
            Self::Whole(entry) => entry.data.len(),
            Self::Pieces(pieces) => pieces.text.len(),
        };
        size_of::<Self>() + text
    }

    fn is_piece_of(&self, block: Option<usize>) -> bool {
        matches!(self, Self::Pieces(pieces) if block.is_none_or(|block| pieces.block == block))
    }
}

#[derive(Default)]
struct Inner {
    entries: Vec<Kept>,
    last: u64,
    is_over: bool,
}

impl Inner {
    fn push(&mut self, name: &'static str, data: &Value) {
        self.last += 1;
        self.entries.push(Kept::Whole(Entry { id: self.last, name, data: data.to_string().into() }));
    }
}

/// The log of one turn.
pub(crate) struct Log {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::default(), changed: watch::Sender::new(()) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner());
        self.changed.send_replace(());
    }

    /// Something happened.
    pub(crate) fn tell(&self, name: &'static str, data: &Value) {
        self.change(|inner| inner.push(name, data));
    }

    /// Something goes on: it takes the place of what was told of it last, if nothing else happened since.
    pub(crate) fn go_on(&self, name: &'static str, data: &Value) {
        self.change(|inner| {
            if matches!(inner.entries.last(), Some(Kept::Whole(last)) if last.name == name) {
                inner.entries.pop();
            }
            inner.push(name, data);
        });
    }

    /// A piece of a block came.
    pub(crate) fn piece(&self, name: &'static str, block: usize, text: &str) {
        self.change(|inner| {
            match inner.entries.last_mut() {
                Some(Kept::Pieces(pieces)) if (pieces.name, pieces.block) == (name, block) => {
                    pieces.text.push_str(text)
                }
                _ => {
                    let pieces = Pieces { name, block, base: inner.last, text: text.to_owned() };
                    inner.entries.push(Kept::Pieces(pieces));
                }
            }
            inner.last += text.len() as u64;
        });
    }

    /// A block is whole, and kept.
    pub(crate) fn block(&self, block: usize, value: &Value) {
        self.change(|inner| {
            inner.entries.retain(|entry| !entry.is_piece_of(Some(block)));
            inner.push("block", &json!({ "index": block, "block": value }));
        });
    }

    /// Nothing follows. What is not whole by now never will be.
    pub(crate) fn end(&self) {
        self.change(|inner| {
            inner.is_over = true;
            inner.entries.retain(|entry| !entry.is_piece_of(None));
            inner.entries.shrink_to_fit();
        });
    }

    /// The next of what came behind a number, and whether that was the last of it.
    pub(crate) fn behind(&self, after: u64) -> (Vec<Entry>, bool) {
        let inner = self.inner();
        let from = inner.entries.partition_point(|entry| entry.last() <= after);
        let next: Vec<Entry> = inner.entries[from..].iter().take(AT_ONCE).map(|entry| entry.behind(after)).collect();
        let is_all = from + next.len() == inner.entries.len();
        (next, is_all && inner.is_over)
    }

    /// The number of what happened last.
    pub(crate) fn last(&self) -> u64 {
        self.inner().last
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.inner().entries.iter().map(Kept::bytes).sum()
    }

    /// Hears whenever there is more.
    pub(crate) fn listen(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entry: &Entry) -> Value {
        serde_json::from_str(&entry.data).unwrap()
    }

    /// What somebody is told who comes back again and again, from behind a number on.
    fn heard(log: &Log, mut after: u64) -> (Vec<Entry>, bool) {
        let mut all = Vec::new();
        loop {
            let (next, is_over) = log.behind(after);
            let Some(last) = next.last() else { return (all, is_over) };
            after = last.id;
            all.extend(next);
        }
    }

    #[test]
    fn who_comes_back_gets_the_whole_of_what_it_missed_pieces_of() {
        let log = Log::new();
        log.tell("turn", &json!({}));
        log.piece("text", 1, "Hel");
        let (first, is_over) = log.behind(0);
        assert_eq!(first.iter().map(|entry| entry.name).collect::<Vec<_>>(), ["turn", "text"]);
        assert!(!is_over);
        log.piece("text", 1, "lo");
        // Whoever had the first piece gets the second alone, whoever had none gets both as one.
        let (second, _) = log.behind(first[1].id);
        assert_eq!(second.iter().map(data).collect::<Vec<_>>(), [json!({ "index": 1, "delta": "lo" })]);
        assert_eq!(data(&log.behind(1).0[0])["delta"], "Hello");
        log.block(1, &json!({ "type": "text", "text": "Hello" }));
        let (rest, _) = log.behind(first[1].id);
        assert_eq!(rest.len(), 1);
        assert!(rest[0].id > second[0].id);
        assert_eq!((rest[0].name, &data(&rest[0])["block"]["text"]), ("block", &json!("Hello")));
        log.end();
        assert_eq!(log.behind(rest[0].id), (Vec::new(), true));
    }

    #[test]
    fn numbers_that_nobody_was_given_do_no_harm() {
        let log = Log::new();
        log.piece("text", 1, "aé😀");
        for after in 0..=log.last() + 2 {
            for entry in log.behind(after).0 {
                assert!("aé😀".ends_with(data(&entry)["delta"].as_str().unwrap()), "{after}");
            }
        }
        assert_eq!(log.behind(u64::MAX), (Vec::new(), false));
    }

    #[test]
    fn memory_is_that_of_the_text_however_small_the_bits() {
        let log = Log::new();
        for _ in 0..100_000 {
            log.piece("text", 1, "x");
        }
        assert!(log.bytes() < 110_000, "{}", log.bytes());
        assert_eq!(log.behind(0).0.len(), 1);
        // It ends in the middle of the block.
        log.end();
        assert_eq!((log.bytes(), log.behind(0)), (0, (Vec::new(), true)));
    }

    #[test]
    fn what_goes_on_is_told_once_to_who_comes_late() {
        let log = Log::new();
        for done in 0..1000 {
            log.go_on("tool_call_progress", &json!({ "progress": done }));
        }
        let (told, _) = log.behind(0);
        assert_eq!((told.len(), told[0].id, data(&told[0])), (1, 1000, json!({ "progress": 999 })));
    }

    #[test]
    fn a_long_log_is_taken_a_little_at_a_time() {
        let log = Log::new();
        for number in 0..500 {
            log.tell("tool_call", &json!(number));
        }
        log.end();
        let (first, is_over) = log.behind(0);
        assert!(first.len() < 100 && !is_over, "{}", first.len());
        let (all, is_over) = heard(&log, 0);
        assert_eq!(all.iter().map(data).collect::<Vec<_>>(), (0..500).map(|number| json!(number)).collect::<Vec<_>>());
        assert!(is_over);
    }
}
