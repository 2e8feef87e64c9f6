//! The gallery: what organisations publish for everybody. Rows say what there is ([`kitbag_store::GalleryTx`]), a folder has the
//! bundles that copies are made from ([`bundles`]), and an index in memory answers searches ([`search`]).

mod bundles;
mod error;
mod search;

use std::sync::{Arc, Mutex};

use kitbag_model::{ContentHash, GalleryEntry, PublicSlug};
use kitbag_store::Store;

use bundles::Bundles;
pub(crate) use bundles::Held;
pub(crate) use error::GalleryError;
use search::Index;
pub(crate) use search::Place;

use crate::storage::Storage;
use crate::transfer::Staged;

/// The gallery of a server. Clones share it.
#[derive(Clone)]
pub(crate) struct Gallery {
    store: Store,
    bundles: Bundles,
    index: Arc<Mutex<Option<Arc<Index>>>>,
}

/// Copies a bundle from where one installation keeps it to where another does. It blocks.
pub(crate) fn copy(from: &Storage, to: &Storage, hash: &ContentHash) -> Result<(), GalleryError> {
    Bundles::new(to).put(hash, &Bundles::new(from).read(hash)?)
}

impl Gallery {
    pub(crate) fn new(storage: &Storage, store: Store) -> Self {
        Self { store, bundles: Bundles::new(storage), index: Arc::default() }
    }

    /// Keeps a bundle under its hash. It stays at least as long as what is answered is held, so that rows that name it can be
    /// written: the file first, the rows after, and a crash between leaves a file that nobody names.
    pub(crate) async fn keep(&self, bundle: Staged, hash: ContentHash) -> Result<Held, GalleryError> {
        let bundles = self.bundles.clone();
        blocking(move || {
            let held = bundles.hold()?;
            bundles.keep(&bundle, &hash)?;
            Ok(held)
        })
        .await
    }

    /// A published toolset.
    pub(crate) async fn entry(&self, slug: &PublicSlug) -> Result<GalleryEntry, GalleryError> {
        let found = self.store.gallery().await?.entry(slug).await?;
        found.ok_or_else(|| GalleryError::NotFound(slug.to_string()))
    }

    /// A published toolset with its bundle.
    pub(crate) async fn open(&self, slug: &PublicSlug) -> Result<(GalleryEntry, Vec<u8>), GalleryError> {
        let bundles = self.bundles.clone();
        // Held before the row is read: what it names does not go away in between.
        let held = blocking(move || bundles.hold()).await?;
        let entry = self.entry(slug).await?;
        let (bundles, hash) = (self.bundles.clone(), entry.bundle);
        let bytes = blocking(move || bundles.read(&hash)).await?;
        drop(held);
        Ok((entry, bytes))
    }

    /// Removes a bundle, unless an adoption of something needs it. It may fail: the next start does it then.
    pub(crate) async fn forget(&self, hash: ContentHash) {
        let forgotten = async {
            let bundles = self.bundles.clone();
            // Nobody is between a bundle and its rows now.
            let alone = blocking(move || bundles.hold_alone()).await?;
            if !self.store.gallery().await?.needs(&hash).await? {
                let bundles = self.bundles.clone();
                blocking(move || bundles.remove(&hash)).await?;
            }
            drop(alone);
            Ok::<_, GalleryError>(())
        };
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, "a bundle that nobody needs any more could not be removed");
        }
    }

    /// Removes the bundles that nothing names. Only for whoever has the data folder alone.
    pub(crate) async fn tidy_up(&self) -> Result<(), GalleryError> {
        if !self.bundles.is_used() {
            return Ok(());
        }
        let bundles = self.bundles.clone();
        let alone = blocking(move || bundles.hold_alone()).await?;
        let needed = self.store.gallery().await?.bundles().await?;
        let bundles = self.bundles.clone();
        blocking(move || bundles.tidy_up(&needed)).await?;
        drop(alone);
        Ok(())
    }
}

/// Does blocking work to its end, even if nobody waits for it any more.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
