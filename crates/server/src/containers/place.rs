//! Where a container sees its workspace and its arguments, and as whom.
//!
//! Whoever runs in a container is not root. Where the server is, its workspaces are root's, so the one of the call is shown under the user id that
//! tools in the sandbox have, too, at a place that is there for the call alone. Where the server is an ordinary user, it is that user.

use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use kitbag_container::User;
use kitbag_guard::shown::{Shown, hide};
use kitbag_model::OrgId;

use super::Containers;

/// The folder, below the data folder, with one folder for each call that runs in a container.
const CALLS: &str = "containers";

const WORKSPACE: &str = "workspace";
const EXCHANGE: &str = "exchange";

/// The places of one call. They go away with this.
pub(super) struct CallPlace {
    folder: PathBuf,
    pub(super) workspace: PathBuf,
    pub(super) exchange: PathBuf,
    pub(super) user: User,
    shown: Option<Shown>,
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        // Hidden first: what is removed is the empty place and not what was shown there. One that stays shown is not gone into.
        drop(self.shown.take());
        let _ = std::fs::remove_dir(self.folder.join(WORKSPACE));
        let _ = std::fs::remove_dir_all(&self.exchange);
        let _ = std::fs::remove_dir(&self.folder);
    }
}

impl Containers {
    /// Makes the places of a call on a workspace.
    pub(super) async fn place(&self, org: &OrgId, call: &str, workspace: &Path) -> Result<CallPlace, String> {
        let folder = self.0.data.join(CALLS).join(call);
        let made = |path: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        let (here, exchange) = (folder.join(WORKSPACE), folder.join(EXCHANGE));
        made(&here).and_then(|()| made(&exchange)).map_err(|error| format!("no place for the call: {error}"))?;
        let own = User { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
        let mut place = CallPlace { folder, workspace: workspace.to_owned(), exchange, user: own, shown: None };
        if own.uid != 0 {
            return Ok(place);
        }
        let keeper = self.0.sandboxes.get().await.map_err(|error| error.to_string())?;
        let Some(id) = keeper.shows_as() else {
            let why = "Kitbag runs as root, and this machine cannot show its folders under another user id";
            let required = self.0.sandboxes.is_required() || *org != OrgId::local();
            return if required { Err(format!("{why}; run it as an ordinary user")) } else { Ok(place) };
        };
        let tree = keeper.tree(workspace).await.map_err(|error| error.to_string())?;
        place.shown =
            Some(Shown::new(tree, &here).map_err(|error| format!("the workspace could not be shown: {error}"))?);
        chown(&place.exchange, Some(id), Some(id)).map_err(|error| format!("no place for the arguments: {error}"))?;
        place.workspace = here;
        place.user = User { uid: id, gid: id };
        Ok(place)
    }

    /// Clears the places of calls that a killed server left. Whether any container was ever used here.
    pub(super) async fn clear_places(&self) -> bool {
        let calls = self.0.data.join(CALLS);
        let clear = move || {
            let Ok(entries) = std::fs::read_dir(&calls) else { return false };
            for entry in entries.flatten() {
                let folder = entry.path();
                let workspace = folder.join(WORKSPACE);
                if let Err(error) = hide(&workspace) {
                    tracing::warn!(%error, at = %workspace.display(), "what was shown to a container is still there");
                    continue;
                }
                // Only what is empty: should something still be shown there, it is a workspace.
                let _ = std::fs::remove_dir(&workspace);
                let _ = std::fs::remove_dir_all(folder.join(EXCHANGE));
                let _ = std::fs::remove_dir(&folder);
            }
            true
        };
        tokio::task::spawn_blocking(clear).await.unwrap_or(false)
    }
}
