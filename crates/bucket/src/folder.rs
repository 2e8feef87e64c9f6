//! What lies below one prefix of a bucket.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use kitbag_cas::CasError;
use kitbag_cas::blobs::{BlobReader, Content, Depot, Object};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{Error, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::BucketError;

/// So many requests are under way at a time for one caller.
const AT_ONCE: usize = 16;

/// What is larger goes in parts of this size, so many at a time of one file.
pub(crate) const PART: u64 = 8 << 20;
const PARTS: usize = 2;

/// So many of those, and of whatever else is not little, are under way at a time, whoever sends them: that much is in memory, and each has a
/// part of what the line can carry.
const TURNS: usize = 8;

/// What has no more bytes than this is sent at once.
pub(crate) const LITTLE: u64 = 512 << 10;

/// The ways to a bucket.
pub(crate) struct Stores {
    store: AmazonS3,
    /// The same, with the patience that sending takes.
    sender: AmazonS3,
    turns: Arc<Semaphore>,
}

impl Stores {
    pub(crate) fn new(store: AmazonS3, sender: AmazonS3) -> Self {
        Self { store, sender, turns: Arc::new(Semaphore::new(TURNS)) }
    }
}

/// The way by which something is sent, and its turn if it needs one.
type Turn<'a> = (&'a AmazonS3, Option<OwnedSemaphorePermit>);

/// A part of a bucket. Clones share its connections.
#[derive(Clone)]
pub struct Folder {
    stores: Arc<Stores>,
    prefix: String,
    runtime: Handle,
}

impl Folder {
    pub(crate) fn new(stores: Arc<Stores>, prefix: String, runtime: Handle) -> Self {
        Self { stores, prefix, runtime }
    }

    fn store(&self) -> &AmazonS3 {
        &self.stores.store
    }

    /// Waits until so much may be sent.
    async fn turn(&self, length: u64) -> Turn<'_> {
        match length <= LITTLE {
            true => (self.store(), None),
            false => (&self.stores.sender, Arc::clone(&self.stores.turns).acquire_owned().await.ok()),
        }
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    pub(crate) async fn is_readable(&self) -> Result<(), BucketError> {
        Ok(self.store().list(Some(&Path::from(self.prefix.as_str()))).next().await.transpose().map(drop)?)
    }

    /// Everything below it, with keys that begin behind its prefix.
    pub async fn list(&self) -> Result<Vec<Object>, BucketError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let below = format!("{}/", self.prefix);
        let found: Vec<_> = self.store().list(Some(&Path::from(self.prefix.as_str()))).try_collect().await?;
        let object = |meta: object_store::ObjectMeta| {
            let put_at = u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or_default();
            let key = meta.location.as_ref().strip_prefix(&below)?.to_owned();
            Some(Object { key, size: meta.size, age: now.saturating_sub(Duration::from_millis(put_at)) })
        };
        Ok(found.into_iter().filter_map(object).collect())
    }

    /// Puts bytes under a key, if nothing is there. Whether nothing was.
    pub async fn create(&self, key: &str, bytes: Bytes) -> Result<bool, BucketError> {
        let turn = self.turn(bytes.len() as u64).await;
        self.send(key, bytes, false, turn).await
    }

    /// Puts bytes under a key, whatever is there.
    pub async fn put_bytes(&self, key: &str, bytes: Bytes) -> Result<(), BucketError> {
        let turn = self.turn(bytes.len() as u64).await;
        self.send(key, bytes, true, turn).await.map(drop)
    }

    /// Whether it was sent: it is not if something is there that it is not to take the place of.
    async fn send(
        &self,
        key: &str,
        bytes: Bytes,
        in_place: bool,
        (store, _turn): Turn<'_>,
    ) -> Result<bool, BucketError> {
        let mode = if in_place { PutMode::Overwrite } else { PutMode::Create };
        let options = PutOptions { mode, ..PutOptions::default() };
        match store.put_opts(&self.path(key), PutPayload::from_bytes(bytes), options).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) if !in_place => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What lies under a key, if something does.
    pub async fn read(&self, key: &str) -> Result<Option<Bytes>, BucketError> {
        match self.store().get(&self.path(key)).await {
            Ok(found) => Ok(Some(found.bytes().await?)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings what lies under a key into a file, if something does.
    pub async fn read_into(&self, key: &str, mut file: &File) -> Result<bool, CasError> {
        let found = match self.store().get(&self.path(key)).await {
            Err(Error::NotFound { .. }) => return Ok(false),
            found => found.map_err(BucketError::from)?,
        };
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(BucketError::from)?;
            file.write_all(&piece).map_err(|source| CasError::Io { path: key.into(), source })?;
        }
        Ok(true)
    }

    /// Puts something under a key, unless it is there already or is to take its place.
    pub async fn put(&self, key: &str, content: Content, in_place: bool) -> Result<(), CasError> {
        let reader = match content {
            Content::Bytes(bytes) if in_place => return Ok(self.put_bytes(key, bytes.into()).await?),
            Content::Bytes(bytes) => return Ok(self.create(key, bytes.into()).await.map(drop)?),
            Content::Reader(reader) => reader,
        };
        let length = reader.length();
        if length <= PART {
            let turn = self.turn(length).await;
            let bytes = part_of(&*reader, 0, key)?;
            return Ok(self.send(key, bytes, in_place, turn).await.map(drop)?);
        }
        let path = self.path(key);
        match self.store().head(&path).await {
            // Whole or not at all: what has the length is what its name says.
            Ok(there) if there.size == length && !in_place => return Ok(()),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(BucketError::from(error).into()),
        }
        let mut upload = self.stores.sender.put_multipart(&path).await.map_err(BucketError::from)?;
        let done = match self.send_parts(&mut *upload, &*reader, key).await {
            Ok(()) => upload.complete().await.map(drop).map_err(|error| BucketError::from(error).into()),
            Err(error) => Err(error),
        };
        if done.is_err() {
            // What was sent of it has no name, and takes room until the store clears it up.
            let _ = upload.abort().await;
        }
        done
    }

    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        reader: &dyn BlobReader,
        key: &str,
    ) -> Result<(), CasError> {
        let mut under_way = JoinSet::new();
        let (mut at, length) = (0, reader.length());
        while at < length || !under_way.is_empty() {
            if at < length && under_way.len() < PARTS {
                // Read when it is its turn, so that who waits has nothing in memory. Those on their way are tasks, which go on meanwhile:
                // if they stood still, everybody could wait for everybody.
                let (_, turn) = self.turn(PART).await;
                let part = part_of(reader, at, key)?;
                at += part.len() as u64;
                let sending = upload.put_part(part.into());
                under_way.spawn(async move { (sending.await, turn).0 });
            } else if let Some(done) = under_way.join_next().await {
                done.map_err(|error| BucketError::new(error.to_string()))?.map_err(BucketError::from)?;
            }
        }
        Ok(())
    }

    /// Takes these keys away.
    pub async fn remove_keys(&self, keys: Vec<String>) -> Result<(), BucketError> {
        let paths: Vec<_> = keys.iter().map(|key| Ok(self.path(key))).collect();
        let mut gone = self.store().delete_stream(stream::iter(paths).boxed());
        while let Some(done) = gone.next().await {
            match done {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes everything below it away.
    pub async fn clear(&self) -> Result<(), BucketError> {
        let keys: Vec<String> = self.list().await?.into_iter().map(|object| object.key).collect();
        if keys.is_empty() { Ok(()) } else { self.remove_keys(keys).await }
    }

    /// Puts these, many at a time.
    pub async fn put_all(&self, items: Vec<(String, Content)>) -> Result<(), CasError> {
        let sending =
            stream::iter(items.into_iter().map(|(key, content)| async move { self.put(&key, content, false).await }));
        sending.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Brings these, many at a time. Which of them were there.
    pub async fn read_all(&self, wanted: Vec<(String, &File)>) -> Result<Vec<bool>, CasError> {
        let coming =
            stream::iter(wanted.into_iter().map(|(key, file)| async move { self.read_into(&key, file).await }));
        coming.buffered(AT_ONCE).try_collect().await
    }

    /// Waits for work of its own on a thread that may block.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

impl Depot for Folder {
    fn list(&self) -> Result<Vec<Object>, CasError> {
        Ok(self.wait(Self::list(self))?)
    }

    fn put(&self, items: Vec<(String, Content)>) -> Result<(), CasError> {
        self.wait(self.put_all(items))
    }

    fn replace(&self, key: String, content: Content) -> Result<(), CasError> {
        self.wait(Self::put(self, &key, content, true))
    }

    fn get(&self, wanted: Vec<(String, &File)>) -> Result<Vec<bool>, CasError> {
        self.wait(self.read_all(wanted))
    }

    fn remove(&self, keys: Vec<String>) -> Result<(), CasError> {
        Ok(self.wait(self.remove_keys(keys))?)
    }
}

/// What is sent at a time of a file, from `at` on.
fn part_of(reader: &dyn BlobReader, at: u64, key: &str) -> Result<Bytes, CasError> {
    let mut part = vec![0; usize::try_from((reader.length() - at).min(PART)).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < part.len() {
        match reader.read_at(&mut part[filled..], at + filled as u64)? {
            0 => return Err(CasError::Distant { reason: format!("{key} became shorter while it was sent") }),
            more => filled += more,
        }
    }
    Ok(part.into())
}
