//! Where bytes are kept that rows only name: in the data folder, or in a bucket that several servers share, with copies in the data
//! folder. Below the bucket's prefix each organisation has its own place, and in it each chat: what goes with a chat is one prefix.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kitbag_bucket::{Bucket, Folder};
use kitbag_cas::CasError;
use kitbag_cas::blobs::{Blobs, Cache, DistantBlobs, LocalBlobs};
use kitbag_model::{ChatId, OrgId};

use crate::app::{BlobSettings, Settings};
use crate::home;

/// Where bytes are kept. Clones share it.
#[derive(Clone)]
pub(crate) struct Storage {
    data: PathBuf,
    shared: Option<Shared>,
}

#[derive(Clone)]
struct Shared {
    bucket: Bucket,
    cache: Arc<Cache>,
}

impl Storage {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::at(settings.data.clone(), &settings.blobs)
    }

    /// In this data folder, or in a bucket with copies there.
    pub(crate) fn at(data: PathBuf, blobs: &BlobSettings) -> Self {
        let cache = || Arc::new(Cache::new(data.clone(), blobs.cache_bytes));
        let shared = blobs.bucket.clone().map(|bucket| Shared { bucket, cache: cache() });
        Self { data, shared }
    }

    /// The folder of a chat.
    pub(crate) fn home(&self, org: &OrgId, chat: ChatId) -> PathBuf {
        home::of(&self.data, org).join("chats").join(chat.to_string())
    }

    /// The data folder.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Whether other servers may have the same bytes.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// How many bytes of copies there are, as far as they were counted.
    pub(crate) fn cached(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.cache.taken())
    }

    fn folder(&self, path: &str) -> Option<Folder> {
        self.shared.as_ref().map(|shared| shared.bucket.folder(path))
    }

    /// The place of a chat in the bucket, if there is one.
    pub(crate) fn chat(&self, org: &OrgId, chat: ChatId) -> Option<Folder> {
        self.folder(&format!("orgs/{org}/chats/{chat}"))
    }

    /// That of all chats of an organisation.
    pub(crate) fn chats(&self, org: &OrgId) -> Option<Folder> {
        self.folder(&format!("orgs/{org}/chats"))
    }

    /// That of the toolsets of an organisation.
    pub(crate) fn toolsets(&self, org: &OrgId) -> Option<Folder> {
        self.folder(&format!("orgs/{org}/toolsets"))
    }

    /// That of the gallery's bundles.
    pub(crate) fn gallery(&self) -> Option<Folder> {
        self.folder("gallery")
    }

    /// The blobs of a chat whose folder is `home`, written into this generation where they are shared.
    pub(crate) fn blobs(
        &self,
        org: &OrgId,
        chat: ChatId,
        home: &Path,
        generation: u64,
    ) -> Result<Arc<dyn Blobs>, CasError> {
        match (&self.shared, self.chat(org, chat)) {
            (Some(shared), Some(place)) => {
                let cache = Arc::clone(&shared.cache);
                Ok(Arc::new(DistantBlobs::open(home, Arc::new(place), cache, generation)?))
            }
            _ => Ok(Arc::new(LocalBlobs::open(home)?)),
        }
    }
}
