//! Sealing anew, with the first of the master keys, what an older one sealed. Afterwards the older one is needed no more.

use kitbag_model::OrgId;
use kitbag_store::StoreError;
use kitbag_vault::{KeyId, Vault, VaultError};
use tokio::time::Instant;

use crate::app::App;

/// So many are read at a time.
const BATCH: u32 = 100;

/// So many that cannot be opened are named.
const MOST_NAMED: usize = 100;

/// What was sealed anew, and what could not be.
#[derive(Debug)]
pub(crate) struct Resealed {
    /// The key that everything has now, as far as it could be opened.
    pub(crate) key: KeyId,
    /// How many were sealed with another key.
    pub(crate) resealed: u64,
    /// How many had this key already.
    pub(crate) current: u64,
    /// What no key here opens, and why. Their names, never what is in them.
    pub(crate) unreadable: Vec<Unreadable>,
    /// Whether there is more, for which there was no time.
    pub(crate) more: bool,
}

/// Something that no key here opens.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) org: OrgId,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Why nothing was sealed anew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResealError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("{0}")]
    Keeper(String),
    #[error(
        "this server was started when {ours} was the first master key, and now {first} is: start it again, then reseal"
    )]
    OtherKey { ours: KeyId, first: KeyId },
}

impl App {
    /// Seals everything of all organisations with the first key, until it is done or `end` has come. What is done already is left
    /// alone, so that it can be asked again.
    pub(crate) async fn reseal(&self, end: Instant) -> Result<Resealed, ResealError> {
        let vault = self.servers().vault().await.map_err(|error| ResealError::Keeper(error.to_string()))?;
        let (data, given) = (self.settings().data.clone(), self.settings().servers.master_key.clone());
        let fresh = tokio::task::spawn_blocking(move || Vault::open(&data, given.as_ref())).await;
        let first = fresh.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?.key_id();
        if first != vault.key_id() {
            return Err(ResealError::OtherKey { ours: vault.key_id(), first });
        }
        let mut done = Resealed { key: first, resealed: 0, current: 0, unreadable: Vec::new(), more: false };
        for org in self.store().system().await?.organization_ids().await? {
            let mut after = (String::new(), String::new());
            loop {
                let mut tx = self.store().read_beside(&org).await?;
                let found = tx.secrets_after((&after.0, &after.1), BATCH).await?;
                drop(tx);
                let Some((kind, name, _)) = found.last() else { break };
                after = (kind.clone(), name.clone());
                for (kind, name, sealed) in found {
                    if Instant::now() >= end {
                        done.more = true;
                        return Ok(done);
                    }
                    self.reseal_one(&vault, &org, (kind, name), &sealed, &mut done).await?;
                }
            }
        }
        if done.unreadable.is_empty() {
            // The older keys are needed no more, so nodes that have only those may not serve any more.
            let mut tx = self.store().write(&OrgId::local()).await?;
            tx.rename_master_key(&first.to_string()).await?;
            tx.commit().await?;
        }
        Ok(done)
    }

    async fn reseal_one(
        &self,
        vault: &Vault,
        org: &OrgId,
        (kind, name): (String, String),
        sealed: &[u8],
        done: &mut Resealed,
    ) -> Result<(), StoreError> {
        let context = [org.as_str(), &kind, &name];
        match vault.unseal(&context, sealed) {
            Err(error) if done.unreadable.len() < MOST_NAMED => {
                done.unreadable.push(Unreadable { org: org.clone(), kind, name, reason: error.to_string() });
            }
            Err(_) => {}
            Ok(_) if !vault.is_stale(sealed) => done.current += 1,
            Ok(plain) => {
                let mut tx = self.store().write(org).await?;
                // Whoever gave another value meanwhile sealed it with this key.
                tx.reseal_secret(&kind, &name, sealed, &vault.seal(&context, &plain)).await?;
                tx.commit().await?;
                done.resealed += 1;
            }
        }
        Ok(())
    }
}
