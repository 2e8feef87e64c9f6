//! A real S3 server: what races, what is refused, what is cut off.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs::File;
use std::io::{Read, Seek};
use std::time::Duration;

use kitbag_bucket::Bucket;
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
