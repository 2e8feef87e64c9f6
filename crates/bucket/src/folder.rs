//! What lies below one prefix of a bucket.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use kitbag_cas::CasError;
use kitbag_cas::blobs::{Content, Depot, Object};
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart};
use tokio::runtime::Handle;

use crate::BucketError;

/// So many requests are under way at a time for one caller.
const AT_ONCE: usize = 16;

/// What is larger goes in parts of this size, so many at a time: all of them are in memory, beside the one that is read.
const PART: u64 = 8 << 20;
const PARTS: usize = 2;

/// A part of a bucket. Clones share its connections.
#[derive(Clone)]
pub struct Folder {
    store: Arc<AmazonS3>,
    prefix: String,
    runtime: Handle,
}

impl Folder {
    pub(crate) fn new(store: Arc<AmazonS3>, prefix: String, runtime: Handle) -> Self {
        Self { store, prefix, runtime }
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    pub(crate) async fn is_readable(&self) -> Result<(), BucketError> {
        Ok(self.store.list(Some(&Path::from(self.prefix.as_str()))).next().await.transpose().map(drop)?)
    }

    /// Everything below it, with keys that begin behind its prefix.
    pub async fn list(&self) -> Result<Vec<Object>, BucketError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let below = format!("{}/", self.prefix);
        let found: Vec<_> = self.store.list(Some(&Path::from(self.prefix.as_str()))).try_collect().await?;
        let object = |meta: object_store::ObjectMeta| {
            let put_at = u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or_default();
            let key = meta.location.as_ref().strip_prefix(&below)?.to_owned();
            Some(Object { key, size: meta.size, age: now.saturating_sub(Duration::from_millis(put_at)) })
        };
        Ok(found.into_iter().filter_map(object).collect())
    }

    /// Puts bytes under a key, if nothing is there. Whether nothing was.
    pub async fn create(&self, key: &str, bytes: Bytes) -> Result<bool, BucketError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.path(key), PutPayload::from_bytes(bytes), options).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts bytes under a key, whatever is there.
    pub async fn put_bytes(&self, key: &str, bytes: Bytes) -> Result<(), BucketError> {
        Ok(self.store.put(&self.path(key), PutPayload::from_bytes(bytes)).await.map(drop)?)
    }

    /// What lies under a key, if something does.
    pub async fn read(&self, key: &str) -> Result<Option<Bytes>, BucketError> {
        match self.store.get(&self.path(key)).await {
            Ok(found) => Ok(Some(found.bytes().await?)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings what lies under a key into a file, if something does.
    pub async fn read_into(&self, key: &str, mut file: &File) -> Result<bool, CasError> {
        let found = match self.store.get(&self.path(key)).await {
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
        let read = |at: u64| {
            let mut part = vec![0; usize::try_from((length - at).min(PART)).unwrap_or(usize::MAX)];
            let mut filled = 0;
            while filled < part.len() {
                match reader.read_at(&mut part[filled..], at + filled as u64)? {
                    0 => return Err(CasError::Distant { reason: format!("{key} became shorter while it was sent") }),
                    more => filled += more,
                }
            }
            Ok(part)
        };
        if length <= PART {
            let bytes = read(0)?;
            return match in_place {
                true => Ok(self.put_bytes(key, bytes.into()).await?),
                false => Ok(self.create(key, bytes.into()).await.map(drop)?),
            };
        }
        let path = self.path(key);
        match self.store.head(&path).await {
            // Whole or not at all: what has the length is what its name says.
            Ok(there) if there.size == length && !in_place => return Ok(()),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(BucketError::from(error).into()),
        }
        let begun = self.store.put_multipart(&path).await.map_err(BucketError::from)?;
        let mut upload = WriteMultipart::new_with_chunk_size(begun, PART as usize);
        let mut at = 0;
        while at < length {
            let sent = match read(at) {
                Ok(part) => {
                    at += part.len() as u64;
                    upload.put(part.into());
                    upload.wait_for_capacity(PARTS).await.map_err(|error| BucketError::from(error).into())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = sent {
                // What was sent of it has no name, and takes room until the store clears it up.
                let _ = upload.abort().await;
                return Err(error);
            }
        }
        Ok(upload.finish().await.map(drop).map_err(BucketError::from)?)
    }

    /// Takes these keys away.
    pub async fn remove_keys(&self, keys: Vec<String>) -> Result<(), BucketError> {
        let paths: Vec<_> = keys.iter().map(|key| Ok(self.path(key))).collect();
        let mut gone = self.store.delete_stream(stream::iter(paths).boxed());
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
