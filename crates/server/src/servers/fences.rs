//! Which servers run behind a fence, what is inside, and what becomes of the folders that they keep.
//!
//! Whoever shares this machine with others runs nothing on it but in the sandbox. A person's own servers may.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use kitbag_guard::child::Fence;
use kitbag_model::{InstalledServer, Launch, OrgId, ServerKey};
use tokio::sync::MutexGuard;
use uuid::Uuid;

use super::Servers;
use crate::home;

/// The folder, below that of an organisation, whose folders are kept by one server each.
const KEPT: &str = "servers";

/// What is to be removed, beside them. No server is called so.
const GONE: &str = ".gone";

/// Whether a server is a process that runs in the sandbox.
pub(crate) fn is_fenced(org: &OrgId, server: &InstalledServer) -> bool {
    matches!(server.server.launch, Launch::Stdio { .. }) && (*org != OrgId::local() || server.sandbox)
}

impl Servers {
    /// What stands around a server, if anything.
    pub(super) fn fence(
        &self,
        org: &OrgId,
        key: &ServerKey,
        server: &InstalledServer,
        toolset: Option<PathBuf>,
        open: bool,
    ) -> Option<Fence> {
        let is_local = *org == OrgId::local();
        is_fenced(org, server).then(|| Fence {
            home: home_of(&self.0.data, org, key),
            toolset,
            network: self.may_be_in_network(org),
            // Whoever shares this machine with others has the whole sandbox or none.
            open: open && is_local,
            required: !is_local,
        })
    }

    /// Whether what runs in the sandbox for an organisation may be in this machine's own network. Whoever shares the machine reaches
    /// what is behind its firewall only if the operator says so.
    pub(crate) fn may_be_in_network(&self, org: &OrgId) -> bool {
        *org == OrgId::local() || self.0.shared_network
    }

    /// Whether fences are left out: the machine has none, and the configuration says that this is no reason to refuse.
    pub(super) async fn fences_are_open(&self) -> bool {
        let sandboxes = &self.0.sandboxes;
        !sandboxes.is_required() && sandboxes.get().await.is_ok_and(|keeper| !keeper.has_namespaces())
    }

    /// Until this is dropped no folder is removed.
    pub(crate) async fn hold_homes(&self) -> MutexGuard<'_, ()> {
        self.0.homes.lock().await
    }

    /// A server has another name, and keeps what it has. Whoever changes the name holds the folders meanwhile.
    pub(super) async fn rename_home(&self, org: &OrgId, from: &ServerKey, to: &ServerKey) {
        let (from, to) = (home_of(&self.0.data, org, from), home_of(&self.0.data, org, to));
        match tokio::fs::rename(&from, &to).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%error, from = %from.display(), "the folder of a server that was renamed did not go along");
            }
            _ => {}
        }
    }

    /// The names of all folders that servers keep, or kept.
    pub(super) async fn homes(&self, org: &OrgId) -> BTreeSet<String> {
        let folder = home::of(&self.0.data, org).join(KEPT);
        let list = move || {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        };
        tokio::task::spawn_blocking(list).await.unwrap_or_default()
    }

    /// Removes folders of servers that are not there any more: another one of that name must not find them.
    pub(super) async fn remove_homes(&self, org: &OrgId, names: impl Iterator<Item = &String>) {
        let (folder, names) = (home::of(&self.0.data, org).join(KEPT), names.cloned().collect::<Vec<_>>());
        if names.is_empty() {
            return;
        }
        let removed = tokio::task::spawn_blocking(move || remove(&folder, &names)).await;
        if let Err(error) = removed.map_err(io::Error::other).and_then(|removed| removed) {
            tracing::error!(%error, %org, "the folders of servers that are gone could not be removed");
        }
    }
}

fn home_of(data: &Path, org: &OrgId, key: &ServerKey) -> PathBuf {
    home::of(data, org).join(KEPT).join(key.to_string())
}

fn remove(folder: &Path, names: &[String]) -> io::Result<()> {
    let gone = folder.join(GONE);
    std::fs::create_dir_all(&gone)?;
    for name in names.iter().filter(|name| *name != GONE) {
        // At once, whatever still runs in it: nobody is given half of it.
        std::fs::rename(folder.join(name), gone.join(format!("{name}-{}", Uuid::now_v7())))?;
    }
    std::fs::remove_dir_all(&gone)
}
