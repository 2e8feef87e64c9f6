//! What an attempt has to say, on disk until the server has it: events in the order in which they happened, then the result.
//!
//! A folder per attempt: `events` has a line for each event, `result` appears whole. After a crash whatever is there is sent again;
//! the server counts each number once.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use kitbag_model::run::wire::{AttemptId, FileRef, FromExecutor};
use kitbag_model::run::{RunEvent, RunEventKind, RunOutcome};
use kitbag_model::{Timestamp, WorkPath};
use serde::{Deserialize, Serialize};

/// How many events go into one message.
const BATCH: usize = 200;

/// So many bytes of events go into one message, or one event.
const BATCH_BYTES: usize = 256 << 10;

/// All attempts of which something is unsaid.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
}

/// What is unsaid of one attempt.
#[derive(Debug)]
pub struct Outbox {
    id: AttemptId,
    folder: PathBuf,
    events: File,
    /// The events that were not acknowledged, each with its length.
    unsaid: VecDeque<(RunEvent, usize)>,
    next: u64,
    acknowledged: u64,
    result: Option<Box<Ending>>,
}

/// How an attempt ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Ending {
    outcome: RunOutcome,
    files: Option<BTreeMap<WorkPath, FileRef>>,
}

impl Spool {
    /// In a folder, which is made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// What was left unsaid, oldest first. A folder that cannot be read is told and left.
    pub fn left(&self) -> io::Result<Vec<Outbox>> {
        let mut ids: Vec<AttemptId> =
            fs::read_dir(&self.folder)?.filter_map(|entry| parse(entry.ok()?.file_name().to_str()?)).collect();
        ids.sort();
        let open = |id: &AttemptId| match self.outbox(*id) {
            Ok(outbox) => Some(outbox),
            Err(error) => {
                tracing::warn!(%error, %id, "what an attempt had to say cannot be read");
                None
            }
        };
        Ok(ids.iter().filter_map(open).collect())
    }

    /// What is there, without touching it: each attempt, how many events were kept of it, and whether it is over.
    pub fn summary(&self) -> io::Result<Vec<(AttemptId, usize, bool)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(parse) else { continue };
            let events = fs::read(entry.path().join("events")).unwrap_or_default();
            let lines = events.iter().filter(|byte| **byte == b'\n').count();
            all.push((id, lines, entry.path().join("result").exists()));
        }
        all.sort();
        Ok(all)
    }

    /// The outbox of an attempt that begins. Numbers that the server has of it already are not used again.
    pub fn begin(&self, id: AttemptId, acknowledged: u64) -> io::Result<Outbox> {
        let mut outbox = self.outbox(id)?;
        outbox.next = outbox.next.max(acknowledged + 1);
        // That it has begun must be known after a power cut, too.
        File::open(&self.folder)?.sync_all()?;
        Ok(outbox)
    }

    /// The outbox of an attempt, with what is in it already.
    pub fn outbox(&self, id: AttemptId) -> io::Result<Outbox> {
        let folder = self.folder.join(format!("{}.{}", id.run_id, id.attempt));
        fs::create_dir_all(&folder)?;
        let path = folder.join("events");
        let mut unsaid: VecDeque<(RunEvent, usize)> = VecDeque::new();
        let mut whole = 0;
        if let Ok(file) = File::open(&path) {
            // The last line may have been cut off by a crash: nobody has heard of it.
            for line in BufReader::new(file).split(b'\n') {
                let line = line?;
                let Ok(event) = serde_json::from_slice(&line) else { break };
                whole += line.len() as u64 + 1;
                unsaid.push_back((event, line.len()));
            }
        }
        let events = OpenOptions::new().create(true).append(true).open(&path)?;
        events.set_len(whole)?;
        let result = match fs::read(folder.join("result")) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(_) => None,
        };
        let next = unsaid.back().map_or(1, |(event, _)| event.seq + 1);
        Ok(Outbox { id, folder, events, unsaid, next, acknowledged: 0, result })
    }
}

fn parse(name: &str) -> Option<AttemptId> {
    let (run, attempt) = name.split_once('.')?;
    Some(AttemptId { run_id: run.parse().ok()?, attempt: attempt.parse().ok()? })
}

impl Outbox {
    /// Whose it is.
    pub fn id(&self) -> AttemptId {
        self.id
    }

    /// Whether the attempt is over.
    pub fn is_over(&self) -> bool {
        self.result.is_some()
    }

    /// The last number that the server has.
    pub fn acknowledged_up_to(&self) -> u64 {
        self.acknowledged
    }

    /// Whether there are events behind this number.
    pub fn has_behind(&self, said: u64) -> bool {
        self.unsaid.back().is_some_and(|(event, _)| event.seq > said)
    }

    /// One more event. It is on disk when this returns; a power cut may still take the last ones, a crash of ours none. If the disk does
    /// not take it, it is told all the same.
    pub fn push(&mut self, kind: RunEventKind) -> io::Result<()> {
        let event = RunEvent { seq: self.next, at: Timestamp::now(), kind };
        let mut line = serde_json::to_vec(&event)?;
        line.push(b'\n');
        self.next += 1;
        self.unsaid.push_back((event, line.len()));
        self.events.write_all(&line)
    }

    /// The attempt is over. From here on it survives a power cut. If the disk does not take it, it is told all the same.
    pub fn end(&mut self, outcome: RunOutcome, files: Option<BTreeMap<WorkPath, FileRef>>) -> io::Result<()> {
        let ending = Ending { outcome, files };
        let bytes = serde_json::to_vec(&ending)?;
        self.result = Some(Box::new(ending));
        self.events.sync_data()?;
        let (new, path) = (self.folder.join("result.new"), self.folder.join("result"));
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(&new, &path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Some events behind the number `said`, which was sent and perhaps not yet acknowledged.
    pub fn events(&self, said: u64) -> Vec<RunEvent> {
        let from = self.unsaid.partition_point(|(event, _)| event.seq <= said);
        let mut bytes = 0;
        let fits = |(_, length): &&(RunEvent, usize)| {
            let first = bytes == 0;
            bytes += length;
            first || bytes <= BATCH_BYTES
        };
        self.unsaid.range(from..).take(BATCH).take_while(fits).map(|(event, _)| event.clone()).collect()
    }

    /// How it ended, if it has.
    pub fn result(&self) -> Option<FromExecutor> {
        let ending = self.result.as_ref()?;
        Some(FromExecutor::Result { id: self.id, outcome: ending.outcome.clone(), files: ending.files.clone() })
    }

    /// The server has everything up to `seq`, and the result too, if it says so: then nothing is left, and the folder goes.
    pub fn acknowledged(&mut self, seq: u64, result: bool) -> bool {
        while self.unsaid.front().is_some_and(|(event, _)| event.seq <= seq) {
            self.unsaid.pop_front();
        }
        self.acknowledged = self.acknowledged.max(seq);
        let done = result && self.result.is_some();
        if done {
            self.discard();
        }
        done
    }

    /// Nobody wants to know any more.
    pub fn discard(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, id = %self.id, "what an attempt had to say could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use kitbag_model::RunId;
    use kitbag_model::run::RunState;

    use super::*;

    fn text(text: &str) -> RunEventKind {
        RunEventKind::Text { text: text.into() }
    }

    fn id() -> AttemptId {
        AttemptId { run_id: RunId::generate(), attempt: 2 }
    }

    fn numbers(events: Vec<RunEvent>) -> Vec<u64> {
        events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn what_was_not_acknowledged_is_said_again_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path()).unwrap();
        let id = id();
        let mut outbox = spool.begin(id, 0).unwrap();
        (1..=3).for_each(|number| outbox.push(text(&number.to_string())).unwrap());
        assert!(!outbox.acknowledged(1, false));
        assert_eq!(numbers(outbox.events(0)), [2, 3]);
        assert_eq!(numbers(outbox.events(2)), [3]);
        assert!(outbox.events(3).is_empty() && outbox.result().is_none());
        // Killed in the middle of a line.
        drop(outbox);
        let path = folder.path().join(format!("{}.2/events", id.run_id));
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"seq\":4,\"at\":\"2026").unwrap();
        let mut left = spool.left().unwrap();
        let outbox = &mut left[0];
        assert_eq!((outbox.id(), outbox.is_over()), (id, false));
        assert_eq!(
            numbers(outbox.events(0)),
            [1, 2, 3],
            "what was acknowledged is not known after a crash, and counts once"
        );
        outbox.push(text("4")).unwrap();
        assert_eq!(numbers(outbox.events(3)), [4]);
        let outcome = RunOutcome { state: RunState::Succeeded, output: None, error: None, usage: None };
        outbox.end(outcome.clone(), None).unwrap();
        let mut again = spool.left().unwrap();
        assert!(again[0].is_over());
        assert!(matches!(again[0].result(), Some(FromExecutor::Result { outcome: kept, .. }) if kept == outcome));
        assert!(!again[0].acknowledged(4, false));
        assert!(again[0].acknowledged(4, true));
        assert!(spool.left().unwrap().is_empty());
    }

    #[test]
    fn messages_stay_small_and_numbers_are_used_once() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path()).unwrap();
        let mut outbox = spool.begin(id(), 7).unwrap();
        let large = "x".repeat(BATCH_BYTES);
        for long in ["a", "b", &large, &large, "c"] {
            outbox.push(text(long)).unwrap();
        }
        assert_eq!(numbers(outbox.events(0)), [8, 9]);
        assert_eq!(numbers(outbox.events(9)), [10], "one event goes, however long it is");
        assert_eq!(numbers(outbox.events(10)), [11]);
        assert_eq!(numbers(outbox.events(11)), [12]);
        (0..BATCH).for_each(|_| outbox.push(text("d")).unwrap());
        assert_eq!(outbox.events(11).len(), BATCH);
    }
}
