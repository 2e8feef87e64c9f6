//! Tokens in the database, sealed with the installation's master key.

use std::path::PathBuf;
use std::sync::Arc;

use kitbag_mcp::auth::{Alone, Keeper, KeeperError, Slot};
use kitbag_mcp::connection::Boxed;
use kitbag_model::Secret;
use kitbag_store::Store;
use kitbag_vault::Vault;
use tokio::sync::{OnceCell, Semaphore};

/// So many renew something at the same time.
const MOST_ALONE: usize = 4;

pub(crate) struct StoreKeeper {
    store: Store,
    data: PathBuf,
    given: Option<Secret>,
    vault: OnceCell<Arc<Vault>>,
    /// Each who is alone takes a connection, and needs another for what it does.
    alone: Arc<Semaphore>,
}

impl StoreKeeper {
    pub(super) fn new(store: Store, data: PathBuf, given: Option<Secret>) -> Self {
        Self { store, data, given, vault: OnceCell::new(), alone: Arc::new(Semaphore::new(MOST_ALONE)) }
    }

    /// The vault, which is opened when somebody first needs it.
    pub(crate) async fn vault(&self) -> Result<Arc<Vault>, KeeperError> {
        let open = || async {
            let (data, given) = (self.data.clone(), self.given.clone());
            let opened = tokio::task::spawn_blocking(move || Vault::open(&data, given.as_ref())).await;
            opened.map_err(failed)?.map(Arc::new).map_err(failed)
        };
        self.vault.get_or_try_init(open).await.cloned()
    }
}

impl Keeper for StoreKeeper {
    fn load<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Result<Option<Vec<u8>>, KeeperError>> {
        Box::pin(async move {
            let name = slot.server.to_string();
            let mut tx = self.store.read_beside(&slot.org).await.map_err(failed)?;
            let Some(sealed) = tx.secret(slot.kind.as_str(), &name).await.map_err(failed)? else { return Ok(None) };
            drop(tx);
            let opened = self.vault().await?.unseal(&[slot.org.as_str(), slot.kind.as_str(), &name], &sealed);
            if let Err(error) = &opened {
                tracing::warn!(%error, server = %slot.server, "what was kept of a sign-in cannot be opened any more");
            }
            Ok(opened.ok().map(|plain| plain.to_vec()))
        })
    }

    fn alone<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Option<Alone>> {
        Box::pin(async move {
            let nodes = self.store.nodes()?;
            let permit = Arc::clone(&self.alone).acquire_owned().await.ok();
            let name = format!("{} {} {}", slot.org, slot.kind.as_str(), slot.server);
            match nodes.alone(&name).await {
                Ok(alone) => Some(Box::new((alone, permit)) as Alone),
                Err(error) => {
                    // Better twice than never.
                    tracing::warn!(%error, server = %slot.server, "other servers may renew a sign-in at the same time");
                    None
                }
            }
        })
    }

    fn save<'a>(&'a self, slot: &'a Slot, value: Vec<u8>) -> Boxed<'a, Result<(), KeeperError>> {
        Box::pin(async move {
            let name = slot.server.to_string();
            let context = [slot.org.as_str(), slot.kind.as_str(), &name];
            let sealed = self.vault().await?.seal(&context, &value);
            let mut tx = self.store.write(&slot.org).await.map_err(failed)?;
            tx.put_secret(slot.kind.as_str(), &name, &sealed).await.map_err(failed)?;
            tx.commit().await.map_err(failed)
        })
    }

    fn delete<'a>(&'a self, slot: &'a Slot) -> Boxed<'a, Result<bool, KeeperError>> {
        Box::pin(async move {
            let mut tx = self.store.write(&slot.org).await.map_err(failed)?;
            let deleted = tx.delete_secret(slot.kind.as_str(), &slot.server.to_string()).await.map_err(failed)?;
            tx.commit().await.map_err(failed)?;
            Ok(deleted)
        })
    }
}

fn failed(error: impl std::fmt::Display) -> KeeperError {
    KeeperError(error.to_string())
}
