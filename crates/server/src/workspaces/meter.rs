//! How much all states of an organisation's workspaces take, and that it is no more than its quota. Whatever is kept goes through here,
//! whoever keeps it: a file that comes in, a tool's work, a result that is too large for its record.
//!
//! It is found out once, by looking at the disk or asking the bucket, when there is a quota and somebody first writes; then it is counted in memory.
//! Several nodes tell each other what they add, a hundredth of the quota at a time, so that together they keep no more than that and a few such
//! parts. What was not heard is found out by asking the bucket again from time to time when there is little room.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kitbag_bucket::Folder;
use kitbag_cas::CasError;
use kitbag_cas::blobs::{BlobReader, BlobWriter, Blobs, LocalBlobs, Swept};
use kitbag_model::{ContentHash, OrgId};

use crate::events::Events;
use crate::nodes::Line;

/// After somebody was refused, what there is is counted anew, but not more often than this.
const AGAIN: Duration = Duration::from_secs(30);

/// What others add to a bucket, and nobody heard, is found out after so long, when more than half is taken.
const DRIFT: Duration = Duration::from_secs(300);

/// So many parts of a quota are told one by one.
const PARTS: u64 = 100;

/// What organisations take. Clones share it.
#[derive(Clone)]
pub(super) struct Meters {
    all: Arc<Mutex<HashMap<OrgId, Arc<Meter>>>>,
    events: Events,
}

/// What one organisation takes.
#[derive(Default)]
pub(super) struct Meter {
    state: Mutex<State>,
    counting: tokio::sync::Mutex<()>,
    /// How others hear of it.
    told: Option<(Events, OrgId)>,
}

#[derive(Default)]
struct State {
    /// The most that it may take.
    most: Option<u64>,
    /// What it takes; nobody knows while nobody has to.
    used: Option<u64>,
    counted_at: Option<Instant>,
    /// Whether somebody was refused since it was counted.
    refused: bool,
    /// Whether others write into the same bucket.
    is_shared: bool,
    /// What other nodes have on their own disks, as far as they told. In a bucket it is counted with the rest.
    elsewhere: u64,
    /// What was added here, and others do not know yet.
    untold: u64,
}

impl Meters {
    pub(super) fn new(events: &Events) -> Self {
        Self { all: Arc::default(), events: events.clone() }
    }

    pub(super) fn of(&self, org: &OrgId) -> Arc<Meter> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Arc::new(Meter { told: Some((self.events.clone(), org.clone())), ..Meter::default() });
        Arc::clone(all.entry(org.clone()).or_insert_with(fresh))
    }

    /// Another node added so much.
    pub(super) fn taken_elsewhere(&self, org: &OrgId, bytes: u64) {
        let meter = self.all.lock().unwrap_or_else(PoisonError::into_inner).get(org).cloned();
        let Some(meter) = meter else { return };
        let mut state = meter.state();
        // Who does not count yet finds it when counting.
        if let Some(used) = state.used {
            state.used = Some(used + bytes);
            state.elsewhere += bytes;
        }
    }
}

impl Meter {
    /// From now on the organisation may take so much. What it takes is counted if nobody knows.
    pub(super) async fn hold(&self, most: Option<u64>, stock: Stock) -> Result<(), CasError> {
        let is_shared = stock.shared.is_some();
        if self.is_ready(most) {
            return Ok(());
        }
        let _turn = self.counting.lock().await;
        if self.is_ready(most) {
            return Ok(());
        }
        let used = stock.count().await?;
        let mut state = self.state();
        if is_shared {
            state.elsewhere = 0;
        }
        (state.used, state.counted_at, state.refused) = (Some(used + state.elsewhere), Some(Instant::now()), false);
        state.is_shared = is_shared;
        Ok(())
    }

    fn is_ready(&self, most: Option<u64>) -> bool {
        let mut state = self.state();
        state.most = most;
        if most.is_none() {
            // Nobody counts from here on.
            state.used = None;
            return true;
        }
        let Some(used) = state.used else { return false };
        let is_older = |than| state.counted_at.is_none_or(|at| at.elapsed() >= than);
        let drifts = state.is_shared && most.is_some_and(|most| used > most / 2) && self.has_others();
        !(state.refused && is_older(AGAIN) || drifts && is_older(DRIFT))
    }

    /// How much room there is; none is no limit.
    pub(super) fn left(&self) -> Option<u64> {
        let state = self.state();
        Some(state.most?.saturating_sub(state.used?))
    }

    /// Refuses so much more if there is no room for it.
    pub(super) fn check(&self, bytes: u64) -> Result<(), CasError> {
        let mut state = self.state();
        let (Some(most), Some(used)) = (state.most, state.used) else { return Ok(()) };
        let left = most.saturating_sub(used);
        if bytes <= left {
            return Ok(());
        }
        state.refused = true;
        Err(CasError::NoRoom { wanted: bytes, left, most })
    }

    fn take(&self, bytes: u64) -> Result<(), CasError> {
        self.check(bytes)?;
        if let Some(used) = &mut self.state().used {
            *used += bytes;
        }
        Ok(())
    }

    fn has_others(&self) -> bool {
        self.told.as_ref().is_some_and(|(events, _)| events.has_peers())
    }

    /// So much came to stay. Others are told when it is worth it.
    fn added(&self, bytes: u64) {
        let Some((events, org)) = &self.told else { return };
        let mut state = self.state();
        let Some(most) = state.most.filter(|_| bytes > 0 && events.has_peers()) else { return };
        state.untold += bytes;
        if state.untold > most / PARTS {
            let bytes = std::mem::take(&mut state.untold);
            events.tell_others(org, || Line::Took { bytes });
        }
    }

    /// So much is not taken any more.
    pub(super) fn give_back(&self, bytes: u64) {
        if let Some(used) = &mut self.state().used {
            *used = used.saturating_sub(bytes);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the blobs of an organisation, or of one chat, are to be counted.
pub(super) struct Stock {
    /// The folder of their chats.
    pub(super) chats: PathBuf,
    /// Their place in the bucket, if that is where they are kept.
    pub(super) shared: Option<Folder>,
}

impl Stock {
    async fn count(self) -> Result<u64, CasError> {
        if let Some(shared) = self.shared {
            return Ok(shared.list().await?.iter().map(|object| object.size).sum());
        }
        let path = self.chats.clone();
        let counted = tokio::task::spawn_blocking(move || {
            let mut bytes = 0;
            for entry in std::fs::read_dir(&self.chats).into_iter().flatten() {
                bytes += LocalBlobs::stored(&entry?.path())?;
            }
            Ok(bytes)
        });
        let counted = counted.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        counted.map_err(|source| CasError::Io { path, source })
    }
}

/// Blobs of a chat whose organisation is measured.
pub(super) struct Metered {
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) meter: Arc<Meter>,
}

impl Blobs for Metered {
    fn contains(&self, hash: &ContentHash) -> Result<bool, CasError> {
        self.blobs.contains(hash)
    }

    fn missing(&self, hashes: &[ContentHash]) -> Result<Vec<ContentHash>, CasError> {
        // What is brought again was counted when it came: to refuse it would lose it.
        self.blobs.missing(hashes)
    }

    fn read(&self, hash: &ContentHash) -> Result<Vec<u8>, CasError> {
        self.blobs.read(hash)
    }

    fn verify(&self, hash: &ContentHash) -> Result<(), CasError> {
        self.blobs.verify(hash)
    }

    fn open(&self, hash: &ContentHash) -> Result<Box<dyn BlobReader>, CasError> {
        self.blobs.open(hash)
    }

    fn copy_to(&self, hash: &ContentHash, file: &File) -> Result<(), CasError> {
        self.blobs.copy_to(hash, file)
    }

    fn writer<'a>(&'a self) -> Result<Box<dyn BlobWriter + 'a>, CasError> {
        let (small, large) = (AtomicU64::new(0), AtomicU64::new(0));
        let writer = Some(self.blobs.writer()?);
        Ok(Box::new(MeteredWriter { blobs: &*self.blobs, meter: &self.meter, writer, small, large }))
    }

    fn replace(&self, hash: &ContentHash, file: &File) -> Result<bool, CasError> {
        self.blobs.replace(hash, file)
    }

    fn list(&self) -> Result<Vec<ContentHash>, CasError> {
        self.blobs.list()
    }

    fn sweep(&self, is_live: &dyn Fn(&ContentHash) -> bool, grace: Duration) -> Result<Swept, CasError> {
        let swept = self.blobs.sweep(is_live, grace)?;
        self.meter.give_back(swept.bytes);
        Ok(swept)
    }

    fn expect(&self, hashes: &[ContentHash]) -> Result<(), CasError> {
        self.blobs.expect(hashes)
    }

    fn generation(&self) -> Option<u64> {
        self.blobs.generation()
    }

    fn enter(&self, generation: u64, kept: HashSet<ContentHash>) {
        self.blobs.enter(generation, kept);
    }
}

/// Takes room for what it may write, and gives back at the end what it did not need.
struct MeteredWriter<'a> {
    blobs: &'a dyn Blobs,
    meter: &'a Meter,
    /// None when it is finished.
    writer: Option<Box<dyn BlobWriter + 'a>>,
    /// What was taken for small blobs, which are on the disk when all are, and for large ones, which are there at once.
    small: AtomicU64,
    large: AtomicU64,
}

impl MeteredWriter<'_> {
    fn inner(&self) -> &dyn BlobWriter {
        self.writer.as_deref().expect("it is there until it is finished, which uses it up")
    }
}

impl Drop for MeteredWriter<'_> {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            // It was given up. What it left is found out when somebody is refused.
            self.meter.give_back(self.small.load(Ordering::Relaxed));
            self.meter.state().refused = true;
        }
    }
}

impl BlobWriter for MeteredWriter<'_> {
    fn put(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), CasError> {
        if !self.blobs.contains(hash)? {
            self.meter.take(bytes.len() as u64)?;
            self.small.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        self.inner().put(hash, bytes)
    }

    fn put_file(&self, file: &File) -> Result<(u64, ContentHash), CasError> {
        let size = file.metadata().map_or(0, |about| about.len());
        match self.meter.take(size) {
            // Perhaps it is there already, and takes no room: that is worth reading it once more.
            Err(refused) if !self.blobs.contains(&hash_of(file)?)? => return Err(refused),
            Err(_) => {}
            Ok(()) => drop(self.large.fetch_add(size, Ordering::Relaxed)),
        }
        self.inner().put_file(file)
    }

    fn finish(mut self: Box<Self>) -> Result<u64, CasError> {
        let Some(writer) = self.writer.take() else { return Ok(0) };
        let fresh = writer.finish()?;
        // What was there already, or came twice, needs no room.
        let taken = self.small.load(Ordering::Relaxed) + self.large.load(Ordering::Relaxed);
        self.meter.give_back(taken.saturating_sub(fresh));
        self.meter.added(fresh);
        Ok(fresh)
    }
}

fn hash_of(mut file: &File) -> Result<ContentHash, CasError> {
    use std::io::{Read, Seek};
    let failed = |source| CasError::Io { path: "a workspace file".into(), source };
    let mut hasher = kitbag_model::Hasher::default();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    file.rewind().map_err(failed)?;
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A file that is too large for a pack.
    fn large(byte: u8) -> (Vec<u8>, File) {
        let bytes = vec![byte; 300_000];
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        (bytes, file)
    }

    #[tokio::test]
    async fn what_is_kept_is_counted_once_and_what_is_given_up_is_not() {
        let chats = tempfile::tempdir().unwrap();
        let meter = Arc::new(Meter::default());
        let open = |name: &str| Metered {
            blobs: Arc::new(LocalBlobs::open(&chats.path().join(name)).unwrap()),
            meter: Arc::clone(&meter),
        };
        let one = open("one");
        let put = |blobs: &Metered, bytes: &[u8]| {
            let writer = blobs.writer()?;
            writer.put(&ContentHash::of(bytes), bytes)?;
            writer.finish()
        };
        assert_eq!(put(&one, &[1; 1_000]).unwrap(), 1_000);
        assert_eq!(meter.left(), None, "nobody counts without a quota");
        let stock = || Stock { chats: chats.path().to_owned(), shared: None };
        meter.hold(Some(400_000), stock()).await.unwrap();
        assert_eq!(meter.left(), Some(399_000));
        assert_eq!(put(&one, &[1; 1_000]).unwrap(), 0, "it was there");
        assert_eq!(meter.left(), Some(399_000));

        let (bytes, file) = large(2);
        let writer = one.writer().unwrap();
        assert_eq!(writer.put_file(&file).unwrap(), (300_000, ContentHash::of(&bytes)));
        writer.put(&ContentHash::of(&[3; 500]), &[3; 500]).unwrap();
        assert_eq!(writer.finish().unwrap(), 300_500);
        assert_eq!(meter.left(), Some(98_500));
        // Too much is refused before anything of it is written; what is there already is not too much.
        let writer = one.writer().unwrap();
        assert!(matches!(
            writer.put_file(&large(4).1),
            Err(CasError::NoRoom { wanted: 300_000, left: 98_500, most: 400_000 })
        ));
        let (_, same) = large(2);
        assert!(writer.put_file(&same).is_ok());
        writer.put(&ContentHash::of(&[5; 700]), &[5; 700]).unwrap();
        drop(writer);
        assert_eq!(meter.left(), Some(98_500), "what was given up takes nothing");
        // Another chat has its own.
        assert_eq!(put(&open("two"), &[1; 1_000]).unwrap(), 1_000);
        assert_eq!(meter.left(), Some(97_500));
        let swept = one.sweep(&|_| false, Duration::ZERO).unwrap();
        assert_eq!(meter.left(), Some(97_500 + swept.bytes));
        meter.hold(None, stock()).await.unwrap();
        assert_eq!(put(&one, &vec![6; 500_000]).unwrap(), 500_000, "there is no quota any more");
    }
}
