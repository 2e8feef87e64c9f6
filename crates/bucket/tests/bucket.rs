//! A real S3 server: what races, what is refused, what is cut off.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kitbag_bucket::{Bucket, Pace};
use kitbag_cas::CasError;
use kitbag_cas::blobs::{BlobReader, Content};
use kitbag_guard::dial::EgressPolicy;
use kitbag_testkit::{Gate, TestBucket};
use tokio::runtime::Handle;

struct Zeros(u64);

impl BlobReader for Zeros {
    fn length(&self) -> u64 {
        self.0
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, CasError> {
        let count = buffer.len().min(usize::try_from(self.0 - at).unwrap());
        buffer[..count].fill(0);
        Ok(count)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_put_one_does() {
    let folder = TestBucket::new().open().folder("a");
    let all = (0..16_u8).map(|n| {
        let folder = folder.clone();
        tokio::spawn(async move { folder.create("key", vec![n; 10].into()).await.unwrap() })
    });
    let all: Vec<_> = all.collect();
    let mut winners = Vec::new();
    for (n, one) in all.into_iter().enumerate() {
        if one.await.unwrap() {
            winners.push(n);
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(folder.read("key").await.unwrap().unwrap()[0] as usize, winners[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_is_listed_read_and_taken_away() {
    let bucket = TestBucket::new().open();
    bucket.check().await.unwrap();
    let folder = bucket.folder("orgs/a");
    bucket.folder("orgs/ab").put_bytes("not-mine", "x".into()).await.unwrap();
    // More than one page of a list has.
    let items = (0..1_100).map(|n| (format!("k/{n:04}"), Content::Bytes(vec![1; 3])));
    folder.put_all(items.collect()).await.unwrap();
    folder.put("large", Content::Reader(Box::new(Zeros(20_000_000))), false).await.unwrap();
    let listed = folder.list().await.unwrap();
    assert_eq!(listed.len(), 1_101);
    let large = listed.iter().find(|object| object.key == "large").unwrap();
    assert!(large.size == 20_000_000 && large.age < Duration::from_secs(600), "{large:?}");
    let mut file = tempfile::tempfile().unwrap();
    let found = folder.read_all(vec![("large".to_owned(), &file), ("none".to_owned(), &file)]).await.unwrap();
    assert_eq!(found, [true, false]);
    assert_eq!(length(&mut file), 20_000_000);
    folder.remove_keys(vec!["k/0001".to_owned(), "never-there".to_owned()]).await.unwrap();
    assert!(folder.read("k/0001").await.unwrap().is_none());
    folder.clear().await.unwrap();
    assert!(folder.list().await.unwrap().is_empty());
    assert_eq!(bucket.folder("orgs/ab").list().await.unwrap().len(), 1, "a longer name is another place");
}

fn length(file: &mut File) -> usize {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cut_off_is_not_there_and_wrong_keys_are_told() {
    let place = TestBucket::new();
    let gate = Gate::before(&place);
    let (through, direct) = (place.through(&gate).open().folder("a"), place.open().folder("a"));
    gate.shut_after(12 << 20);
    let cut = through.put("large", Content::Reader(Box::new(Zeros(40_000_000))), false).await;
    assert!(matches!(cut, Err(CasError::Distant { .. })), "{cut:?}");
    assert!(direct.read("large").await.unwrap().is_none());
    gate.open();
    through.put("large", Content::Reader(Box::new(Zeros(40_000_000))), false).await.unwrap();
    assert_eq!(direct.list().await.unwrap()[0].size, 40_000_000);
    let wrong = [("AWS_ACCESS_KEY_ID", "nobody"), ("AWS_SECRET_ACCESS_KEY", "a-secret-of-nobody")];
    let variables = wrong.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
    let url = place.url().parse().unwrap();
    let stranger = Bucket::open_with(&url, &EgressPolicy::default(), Handle::current(), variables).unwrap();
    let refused = stranger.check().await.unwrap_err().to_string();
    assert!(!refused.contains("a-secret-of-nobody"), "{refused}");
}

/// Zeros that know how many of them were read and have not passed a gate: so many are in memory.
struct Counted {
    gate: Arc<Gate>,
    read: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
}

impl BlobReader for Counted {
    fn length(&self) -> u64 {
        9 << 20
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<usize, CasError> {
        let count = Zeros(self.length()).read_at(buffer, at)?;
        let read = self.read.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        self.most.fetch_max(read.saturating_sub(self.gate.passed()), Ordering::Relaxed);
        Ok(count)
    }
}

/// Parts take longer than the store may be silent.
#[tokio::test(flavor = "multi_thread")]
async fn much_gets_through_a_narrow_way_and_little_of_it_is_in_memory() {
    let place = TestBucket::new();
    let gate = Arc::new(Gate::before(&place));
    let through = place.through(&gate).open_at(Pace { silence: Duration::from_secs(2), rate: 512 << 10 }).folder("a");
    gate.narrow(16 << 20);
    let (read, most) = (Arc::default(), Arc::default());
    let counted = || Counted { gate: Arc::clone(&gate), read: Arc::clone(&read), most: Arc::clone(&most) };
    let items = |from: u32| (from..from + 5).map(|n| (n.to_string(), Content::Reader(Box::new(counted()))));
    // Two callers, as two chats are.
    let (one, other) = tokio::join!(through.put_all(items(0).collect()), through.put_all(items(5).collect()));
    one.unwrap();
    other.unwrap();
    let listed = place.open().folder("a").list().await.unwrap();
    assert!(listed.len() == 10 && listed.iter().all(|object| object.size == 9 << 20), "{listed:?}");
    let most = most.load(Ordering::Relaxed);
    // Eight parts, and what the gate has not counted yet.
    assert!(most <= 65 << 20, "{most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_answered_in_time_is_sent_again() {
    let place = TestBucket::new();
    let gate = Gate::before(&place);
    let through = place.through(&gate).open_at(Pace { silence: Duration::from_secs(2), rate: 4 << 20 }).folder("a");
    gate.lose_after(6 << 20);
    through.put("large", Content::Reader(Box::new(Zeros(20_000_000))), false).await.unwrap();
    assert_eq!(place.open().folder("a").list().await.unwrap()[0].size, 20_000_000);
}
