//! Which servers run behind a fence, what is inside, and what becomes of the folders that they keep.
//!
//! Whoever shares this machine with others runs nothing on it but in the sandbox. A person's own servers may.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use kitbag_guard::child::Fence;
use kitbag_model::{InstalledServer, Launch, OrgId, ServerKey};
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
            network: is_local || self.0.shared_network,
            open,
        })
    }

    /// Whether fences are left out: the machine has none, and the configuration says that this is no reason to refuse.
    pub(super) async fn fences_are_open(&self) -> bool {
        let keeper = &self.0.keeper;
        !keeper.is_required() && keeper.get().await.is_ok_and(|keeper| !keeper.has_namespaces())
    }

    /// A server has another name, and keeps what it has.
    pub(super) async fn rename_home(&self, org: &OrgId, from: &ServerKey, to: &ServerKey) {
        let (from, to) = (home_of(&self.0.data, org, from), home_of(&self.0.data, org, to));
        match tokio::fs::rename(&from, &to).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%error, from = %from.display(), "the folder of a server that was renamed did not go along");
            }
            _ => {}
        }
    }

    /// Removes the folders of servers that are not there any more: another one of that name must not find them.
    pub(super) async fn remove_homes_but(&self, org: &OrgId, there: BTreeSet<String>) {
        let folder = home::of(&self.0.data, org).join(KEPT);
        let removed = tokio::task::spawn_blocking(move || remove_but(&folder, &there)).await;
        if let Err(error) = removed.map_err(io::Error::other).and_then(|removed| removed) {
            tracing::error!(%error, %org, "the folders of servers that are gone could not be removed");
        }
    }
}

fn home_of(data: &Path, org: &OrgId, key: &ServerKey) -> PathBuf {
    home::of(data, org).join(KEPT).join(key.to_string())
}

fn remove_but(folder: &Path, there: &BTreeSet<String>) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let gone = folder.join(GONE);
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name != GONE && !name.to_str().is_some_and(|name| there.contains(name)) {
            // At once, whatever still runs in it: nobody is given half of it.
            std::fs::create_dir_all(&gone)?;
            std::fs::rename(entry.path(), gone.join(format!("{}-{}", name.display(), Uuid::now_v7())))?;
        }
    }
    match std::fs::remove_dir_all(&gone) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
