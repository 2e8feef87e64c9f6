//! Several machines, one depot, in memory.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use kitbag_model::ContentHash;
use tempfile::TempDir;

use super::super::{Blobs, Cache, Content, Depot, Object};
use super::{AT_ONCE, DistantBlobs};
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
    cache: Arc<Cache>,
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
        let blobs =
            DistantBlobs::open(&home, Arc::clone(depot) as Arc<dyn Depot>, Arc::clone(&cache), generation).unwrap();
        Self { folder, cache, blobs }
    }

    fn put(&self, contents: &[Vec<u8>]) -> Result<u64, CasError> {
        let writer = self.blobs.writer()?;
        for bytes in contents {
            writer.put(&ContentHash::of(bytes), bytes)?;
        }
        writer.finish()
    }

    fn put_files(&self, contents: &[Vec<u8>]) -> Result<u64, CasError> {
        let writer = self.blobs.writer()?;
        for bytes in contents {
            assert_eq!(writer.put_file(&file_of(bytes))?, (bytes.len() as u64, ContentHash::of(bytes)));
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

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn large(kind: u8) -> Vec<u8> {
    vec![kind; 2_000_000]
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

/// However small the cache is, nothing is too large to be written or read.
#[test]
fn what_is_larger_than_the_cache_is_kept_and_read() {
    let depot = Arc::new(Memory::default());
    let (one, other) = (Machine::with_room(&depot, 0, 1_000_000), Machine::with_room(&depot, 0, 1_000_000));
    let contents = [large(1), large(2), vec![3; 500_000]];
    one.put(&few()).unwrap();
    assert_eq!(one.put_files(&contents).unwrap(), 4_500_000);
    for machine in [&other, &one] {
        let small: Vec<ContentHash> = few().iter().map(|bytes| ContentHash::of(bytes)).collect();
        small.iter().for_each(|hash| drop(machine.blobs.read(hash).unwrap()));
        for bytes in &contents {
            let hash = ContentHash::of(bytes);
            assert_eq!(machine.blobs.read(&hash).unwrap(), *bytes);
            machine.blobs.verify(&hash).unwrap();
            let mut part = vec![0; 10];
            machine.blobs.open(&hash).unwrap().read_at(&mut part, 400_000).unwrap();
            assert_eq!(part, bytes[..10]);
            let mut copied = tempfile::tempfile().unwrap();
            machine.blobs.copy_to(&hash, &copied).unwrap();
            copied.rewind().unwrap();
            assert_eq!(std::io::read_to_string(&copied).unwrap().as_bytes(), bytes);
        }
        let taken: u64 = machine.copies().iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(taken <= 1_000_000, "{taken}");
        let gets = depot.gets.load(Ordering::Relaxed);
        small.iter().for_each(|hash| drop(machine.blobs.read(hash).unwrap()));
        assert_eq!(depot.gets.load(Ordering::Relaxed), gets, "what has room stays");
    }
    // One that is damaged where it is kept is put right, however large.
    let hash = ContentHash::of(&contents[0]);
    depot.objects.lock().unwrap().insert(format!("g0/blobs/{hash}"), b"something else".to_vec());
    assert!(one.blobs.replace(&hash, &file_of(&contents[0])).unwrap());
    assert_eq!(Machine::of(&depot, 0).blobs.read(&hash).unwrap(), contents[0]);
}

/// Room that another chat needs is not made by taking what is just being brought for somebody.
#[test]
fn what_is_brought_stays_until_it_is_read() {
    let depot = Arc::new(Memory::default());
    Machine::of(&depot, 0).put_files(&[large(1)]).unwrap();
    let one = Machine::with_room(&depot, 0, 1_000_000);
    let brought = one.blobs.fetch(&ContentHash::of(&large(1))).unwrap();
    one.cache.grew(1);
    assert_eq!(one.copies().len(), 1);
    drop(brought);
    assert_eq!(one.copies().len(), 0, "then it goes");
}

#[test]
fn a_damaged_copy_is_not_what_is_sent() {
    let depot = Arc::new(Memory::default());
    let one = Machine::of(&depot, 0);
    one.put_files(&[large(1)]).unwrap();
    let path = &one.copies()[0];
    fs::remove_file(path).unwrap();
    fs::write(path, large(2)).unwrap();
    // A collection has begun since, and no state names it, so it is sent again.
    one.blobs.enter(1, HashSet::new());
    assert_eq!(one.put_files(&[large(1)]).unwrap(), 2_000_000);
    let hash = ContentHash::of(&large(1));
    assert_eq!(depot.objects.lock().unwrap()[&format!("g1/blobs/{hash}")], large(1));
    assert_eq!(one.blobs.read(&hash).unwrap(), large(1));
}

/// Each that waits is open.
#[test]
fn of_many_large_ones_few_wait() {
    let depot = Arc::new(Memory::default());
    let one = Machine::of(&depot, 0);
    let contents: Vec<Vec<u8>> = (0..200_u8).map(|n| vec![n; 1_000]).collect();
    let writer = one.blobs.writer().unwrap();
    for bytes in &contents {
        writer.put_file(&file_of(bytes)).unwrap();
    }
    assert_eq!(depot.puts.load(Ordering::Relaxed), AT_ONCE, "the others wait for the end");
    assert_eq!(writer.finish().unwrap(), 200_000);
    assert_eq!(one.put_files(&contents).unwrap(), 0);
    assert_eq!(depot.puts.load(Ordering::Relaxed), 200);
    let other = Machine::of(&depot, 0);
    for bytes in &contents {
        assert_eq!(other.blobs.read(&ContentHash::of(bytes)).unwrap(), *bytes);
    }
}

/// The disk has a removed file as long as it is open, also in a chat that nobody uses any more.
#[test]
fn packs_that_had_to_go_are_not_kept_open() {
    let depot = Arc::new(Memory::default());
    let (folder, most) = (tempfile::tempdir().unwrap(), 100_000);
    let cache = Arc::new(Cache::new(folder.path().to_owned(), most));
    let chats: Vec<DistantBlobs> = (0..20)
        .map(|n| {
            let home = folder.path().join(format!("chats/{n}"));
            let blobs = DistantBlobs::open(&home, Arc::clone(&depot) as Arc<dyn Depot>, Arc::clone(&cache), 0).unwrap();
            let writer = blobs.writer().unwrap();
            for part in 0..20_u8 {
                let bytes = [n, part].repeat(500);
                writer.put(&ContentHash::of(&bytes), &bytes).unwrap();
            }
            writer.finish().unwrap();
            blobs
        })
        .collect();
    let open = || fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let (gone, there): (Vec<_>, Vec<_>) = open()
        .filter(|path| path.starts_with(folder.path()))
        .partition(|path| path.to_string_lossy().contains("(deleted)"));
    assert!(gone.is_empty() && !there.is_empty(), "{gone:?}, {there:?}");
    for (n, blobs) in (0..).zip(&chats) {
        let bytes = [n, 7].repeat(500);
        assert_eq!(blobs.read(&ContentHash::of(&bytes)).unwrap(), bytes, "it is brought again");
    }
}

/// What is served in parts is opened for each of them.
#[test]
fn a_large_copy_that_was_hashed_is_not_hashed_again() {
    let depot = Arc::new(Memory::default());
    let one = Machine::of(&depot, 0);
    one.put_files(&[large(1)]).unwrap();
    let hash = ContentHash::of(&large(1));
    let path = &one.copies()[0];
    let used_long_ago =
        || File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(600)).unwrap();
    used_long_ago();
    let read = bytes_read(|| drop(one.blobs.open(&hash).unwrap()));
    assert!(read >= 2_000_000, "{read}: the first time it is");
    let age = || path.metadata().unwrap().modified().unwrap().elapsed().unwrap_or_default();
    assert!(age() < Duration::from_secs(300), "it is said that it was used");
    for _ in 0..3 {
        let read = bytes_read(|| drop(one.blobs.open(&hash).unwrap()));
        assert!(read < 100_000, "{read}");
    }
    // Somebody changed it, if only a little.
    let mut bytes = large(1);
    bytes[1_999_999] ^= 1;
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
    let mut end = [0; 1];
    one.blobs.open(&hash).unwrap().read_at(&mut end, 1_999_999).unwrap();
    assert_eq!(end, [1]);
}

/// What this thread reads meanwhile, from whatever.
fn bytes_read(work: impl FnOnce()) -> u64 {
    let so_far = || {
        let text = fs::read_to_string("/proc/thread-self/io").unwrap();
        text.strip_prefix("rchar: ").unwrap().lines().next().unwrap().parse::<u64>().unwrap()
    };
    let before = so_far();
    work();
    so_far() - before
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
