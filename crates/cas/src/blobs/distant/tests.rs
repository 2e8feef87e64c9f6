//! Several machines, one depot, in memory.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kitbag_model::ContentHash;
use tempfile::TempDir;

use super::super::{Blobs, Cache, Content, Depot, Object};
use super::DistantBlobs;
use crate::error::CasError;

#[derive(Default)]
struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    is_gone: AtomicBool,
    gets: AtomicUsize,
    puts: AtomicUsize,
}

impl Memory {
    fn ask(&self) -> Result<std::sync::MutexGuard<'_, BTreeMap<String, Vec<u8>>>, CasError> {
        match self.is_gone.load(Ordering::Relaxed) {
            true => Err(CasError::Distant { reason: "it is gone".to_owned() }),
            false => Ok(self.objects.lock().unwrap()),
        }
    }
}

impl Depot for Memory {
    fn list(&self) -> Result<Vec<Object>, CasError> {
        let object = |(key, bytes): (&String, &Vec<u8>)| Object {
            key: key.clone(),
            size: bytes.len() as u64,
            age: Duration::from_secs(10),
        };
        Ok(self.ask()?.iter().map(object).collect())
    }

    fn put(&self, items: Vec<(String, Content)>) -> Result<(), CasError> {
        for (key, content) in items {
            self.puts.fetch_add(1, Ordering::Relaxed);
            let bytes = read(content);
            self.ask()?.entry(key).or_insert(bytes);
        }
        Ok(())
    }

    fn replace(&self, key: String, content: Content) -> Result<(), CasError> {
        let bytes = read(content);
        self.ask()?.insert(key, bytes);
        Ok(())
    }

    fn get(&self, wanted: Vec<(String, &File)>) -> Result<Vec<bool>, CasError> {
        let objects = self.ask()?;
        let mut found = Vec::new();
        for (key, mut file) in wanted {
            self.gets.fetch_add(1, Ordering::Relaxed);
            found.push(objects.get(&key).inspect(|bytes| file.write_all(bytes).unwrap()).is_some());
        }
        Ok(found)
    }

    fn remove(&self, keys: Vec<String>) -> Result<(), CasError> {
        let mut objects = self.ask()?;
        keys.iter().for_each(|key| drop(objects.remove(key)));
        Ok(())
    }
}

fn read(content: Content) -> Vec<u8> {
    match content {
        Content::Bytes(bytes) => bytes,
        Content::Reader(reader) => {
            let mut bytes = vec![0; reader.length() as usize];
            assert_eq!(reader.read_at(&mut bytes, 0).unwrap(), bytes.len());
            bytes
        }
    }
}

/// One machine of several.
struct Machine {
    folder: TempDir,
    blobs: DistantBlobs,
}

impl Machine {
    fn of(depot: &Arc<Memory>, generation: u64) -> Self {
        Self::with_room(depot, generation, 1 << 30)
    }

    fn with_room(depot: &Arc<Memory>, generation: u64, most: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::new(folder.path().to_owned(), most));
        let home = folder.path().join("chats/one");
        let blobs = DistantBlobs::open(&home, Arc::clone(depot) as Arc<dyn Depot>, cache, generation).unwrap();
        Self { folder, blobs }
    }

    fn put(&self, contents: &[Vec<u8>]) -> Result<u64, CasError> {
        let writer = self.blobs.writer()?;
        for bytes in contents {
            writer.put(&ContentHash::of(bytes), bytes)?;
        }
        writer.finish()
    }

    /// The files that its copies are in.
    fn copies(&self) -> Vec<std::path::PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().join("chats/one/blobs"), self.folder.path().join("chats/one/packs")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.path().is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
            }
        }
        found
    }
}

fn few() -> Vec<Vec<u8>> {
    (0..3_u8).map(|n| vec![n; 100]).collect()
}

fn many() -> Vec<Vec<u8>> {
    (0..40_u32).map(|n| n.to_le_bytes().repeat(50)).collect()
}

#[test]
fn what_one_writes_another_reads_and_nobody_sends_twice() {
    let depot = Arc::new(Memory::default());
    let (one, other) = (Machine::of(&depot, 0), Machine::of(&depot, 0));
    assert_eq!(one.put(&few()).unwrap(), 300);
    assert_eq!(one.put(&many()).unwrap(), 8_000);
    let mut large = tempfile::tempfile().unwrap();
    large.write_all(&vec![7; 400_000]).unwrap();
    std::io::Seek::rewind(&mut large).unwrap();
    let writer = one.blobs.writer().unwrap();
    let (size, hash) = writer.put_file(&large).unwrap();
    assert_eq!((size, writer.finish().unwrap()), (400_000, 400_000));
    for bytes in few().iter().chain(&many()) {
        assert_eq!(other.blobs.read(&ContentHash::of(bytes)).unwrap(), *bytes);
    }
    assert_eq!(other.blobs.open(&hash).unwrap().length(), 400_000);
    // Three and the large one by themselves, the pack as a whole, and its index.
    assert_eq!(depot.gets.load(Ordering::Relaxed), 6);
    let puts = depot.puts.load(Ordering::Relaxed);
    assert_eq!((other.put(&few()).unwrap(), other.put(&many()).unwrap()), (0, 0));
    assert_eq!(depot.puts.load(Ordering::Relaxed), puts, "it was all there");
}

#[test]
fn a_damaged_copy_is_brought_again() {
    let depot = Arc::new(Memory::default());
    let one = Machine::of(&depot, 0);
    one.put(&few()).unwrap();
    one.put(&many()).unwrap();
    for path in one.copies() {
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    // A process that starts now finds the damaged ones.
    let cache = Arc::new(Cache::new(one.folder.path().to_owned(), 1 << 30));
    let home = one.folder.path().join("chats/one");
    let again = DistantBlobs::open(&home, Arc::clone(&depot) as Arc<dyn Depot>, cache, 0).unwrap();
    for bytes in few().iter().chain(&many()) {
        let mut file = tempfile::tempfile().unwrap();
        again.copy_to(&ContentHash::of(bytes), &file).unwrap();
        let mut copied = Vec::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_end(&mut file, &mut copied).unwrap();
        assert_eq!(copied, *bytes);
    }
    // What is damaged there is damaged, and can be put right from a file that has it.
    let (hash, wrong) = (ContentHash::of(&few()[0]), b"something else".to_vec());
    depot.objects.lock().unwrap().insert(format!("g0/blobs/{hash}"), wrong);
    let fresh = Machine::of(&depot, 0);
    assert!(matches!(fresh.blobs.read(&hash), Err(CasError::Corrupt { .. })));
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&few()[0]).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    assert!(fresh.blobs.replace(&hash, &file).unwrap());
    assert_eq!(Machine::of(&depot, 0).blobs.read(&hash).unwrap(), few()[0]);
}

#[test]
fn copies_take_no_more_than_they_may() {
    let depot = Arc::new(Memory::default());
    let one = Machine::with_room(&depot, 0, 20_000);
    let contents: Vec<Vec<u8>> = (0..60_u8).map(|n| vec![n; 1_000]).collect();
    for part in contents.chunks(4) {
        one.put(part).unwrap();
    }
    let taken: u64 = one.copies().iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(taken <= 20_000, "{taken}");
    for bytes in &contents {
        assert_eq!(one.blobs.read(&ContentHash::of(bytes)).unwrap(), *bytes);
    }
}

#[test]
fn nothing_is_said_to_be_there_while_nobody_answers() {
    let depot = Arc::new(Memory::default());
    let one = Machine::of(&depot, 0);
    one.put(&few()).unwrap();
    depot.is_gone.store(true, Ordering::Relaxed);
    assert!(matches!(one.put(&many()), Err(CasError::Distant { .. })));
    assert_eq!(one.blobs.read(&ContentHash::of(&few()[0])).unwrap(), few()[0], "the copies are there");
    let other = Machine::of(&depot, 0);
    assert!(matches!(other.blobs.read(&ContentHash::of(&few()[0])), Err(CasError::Distant { .. })));
    depot.is_gone.store(false, Ordering::Relaxed);
    assert_eq!(one.put(&many()).unwrap(), 8_000, "all of it is sent again");
    assert_eq!(other.blobs.read(&ContentHash::of(&many()[3])).unwrap(), many()[3]);
}

/// However slow a collector is: what it takes away later nobody relied on.
#[test]
fn a_slow_collector_takes_nothing_that_somebody_relies_on() {
    let depot = Arc::new(Memory::default());
    let (collector, writer) = (Machine::of(&depot, 0), Machine::of(&depot, 0));
    let (left, kept) = (few(), many());
    // Somebody who was killed left these, and nothing names them; the others are named.
    collector.put(&left).unwrap();
    collector.put(&kept).unwrap();
    let live: HashSet<ContentHash> = kept.iter().map(|bytes| ContentHash::of(bytes)).collect();
    collector.blobs.enter(1, live.clone());
    // Before it goes on, somebody else writes the same, in the generation that the rows say, and relies on what is named.
    writer.blobs.enter(1, live.clone());
    assert_eq!(writer.put(&left).unwrap(), 300, "what lies in an older generation is not relied on");
    assert_eq!(writer.put(&kept).unwrap(), 0);
    let is_live = |hash: &ContentHash| live.contains(hash);
    let swept = collector.blobs.sweep(&is_live, Duration::from_secs(5)).unwrap();
    assert_eq!((swept.blobs, swept.bytes), (0, 300), "the doubles go");
    let anybody = Machine::of(&depot, 1);
    for bytes in left.iter().chain(&kept) {
        assert_eq!(anybody.blobs.read(&ContentHash::of(bytes)).unwrap(), *bytes);
    }
}

#[test]
fn a_collection_takes_what_is_old_and_unneeded_and_packs_the_rest_anew() {
    let depot = Arc::new(Memory::default());
    let one = Machine::of(&depot, 0);
    one.put(&few()).unwrap();
    one.put(&many()).unwrap();
    let live: HashSet<ContentHash> = many().iter().take(5).map(|bytes| ContentHash::of(bytes)).collect();
    let is_live = |hash: &ContentHash| live.contains(hash);
    assert_eq!(one.blobs.sweep(&is_live, Duration::ZERO).unwrap().blobs, 0, "it is all of this generation");
    one.blobs.enter(1, live.clone());
    assert_eq!(one.blobs.sweep(&is_live, Duration::from_secs(60)).unwrap().blobs, 0, "it is all new");
    let swept = one.blobs.sweep(&is_live, Duration::ZERO).unwrap();
    assert_eq!((swept.blobs, swept.bytes), (3 + 35, 300 + 35 * 200));
    let mut left = one.blobs.list().unwrap();
    left.sort_unstable();
    let mut wanted: Vec<ContentHash> = live.into_iter().collect();
    wanted.sort_unstable();
    assert_eq!(left, wanted);
    let other = Machine::of(&depot, 1);
    assert_eq!(other.blobs.read(&wanted[0]).unwrap(), one.blobs.read(&wanted[0]).unwrap());
    assert!(matches!(other.blobs.read(&ContentHash::of(&few()[0])), Err(CasError::Missing { .. })));
}
