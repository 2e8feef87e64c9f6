//! Where a container sees its workspace and its arguments, and as whom.
//!
//! Whoever runs in a container is not root. Where we are, workspaces are root's, so the one that is needed is shown under the user id that
//! tools in the sandbox have, too, at a place that is there for that container alone. Where we are an ordinary user, it is that user.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use kitbag_container::User;
use kitbag_guard::keeper::SharedKeeper;
use kitbag_guard::shown::{Shown, hide};

const WORKSPACE: &str = "workspace";
const EXCHANGE: &str = "exchange";

/// What the names of places begin with that have an empty workspace of their own.
const EMPTY: &str = "empty-";

/// Who makes places for containers, and where.
#[derive(Clone)]
pub struct Places {
    folder: PathBuf,
    sandboxes: SharedKeeper,
}

/// The places of one container. They go away with this.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
    /// The folder that it works in, as the engine sees it.
    pub workspace: PathBuf,
    /// The folder for arguments and a result.
    pub exchange: PathBuf,
    /// Who it is.
    pub user: User,
    shown: Option<Shown>,
    /// Whether its workspace is its own, and goes with it.
    own: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Hidden first: what is removed is the empty place and not what was shown there. One that stays shown is not gone into.
        drop(self.shown.take());
        let workspace = self.folder.join(WORKSPACE);
        let _ = if self.own { fs::remove_dir_all(workspace) } else { fs::remove_dir(workspace) };
        let _ = fs::remove_dir_all(&self.exchange);
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Places {
    /// Below a folder of ours. `sandboxes` shows folders of root's to others.
    pub fn new(folder: PathBuf, sandboxes: SharedKeeper) -> Self {
        Self { folder, sandboxes }
    }

    /// Makes the places of a container with this workspace. `name` is nobody else's. `must` says that it must not be root, even where
    /// that cannot be avoided but by refusing.
    pub async fn make(&self, name: &str, workspace: &Path, must: bool) -> Result<Place, String> {
        let folder = self.folder.join(name);
        let made = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        let (here, exchange) = (folder.join(WORKSPACE), folder.join(EXCHANGE));
        let own = User { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
        let mut place = Place { folder, workspace: workspace.to_owned(), exchange, user: own, shown: None, own: false };
        made(&here)
            .and_then(|()| made(&place.exchange))
            .map_err(|error| format!("no place for the container: {error}"))?;
        if own.uid != 0 {
            return Ok(place);
        }
        let Some(id) = self.shows_as(must).await? else { return Ok(place) };
        let keeper = self.sandboxes.get().await.map_err(|error| error.to_string())?;
        let tree = keeper.tree(workspace).await.map_err(|error| error.to_string())?;
        place.shown =
            Some(Shown::new(tree, &here).map_err(|error| format!("the workspace could not be shown: {error}"))?);
        chown(&place.exchange, Some(id), Some(id)).map_err(|error| format!("no place for the arguments: {error}"))?;
        place.workspace = here;
        place.user = User { uid: id, gid: id };
        Ok(place)
    }

    /// The same with a workspace that is empty, and that nobody else sees.
    pub async fn make_empty(&self, must: bool) -> Result<Place, String> {
        let folder = self.folder.join(format!("{EMPTY}{}", uuid::Uuid::now_v7()));
        let (workspace, exchange) = (folder.join(WORKSPACE), folder.join(EXCHANGE));
        let own = User { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
        let mut place = Place { folder, workspace, exchange, user: own, shown: None, own: true };
        let made = |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        let told = |error| format!("no place for the container: {error}");
        made(&place.workspace).and_then(|()| made(&place.exchange)).map_err(told)?;
        if own.uid == 0 {
            let Some(id) = self.shows_as(must).await? else { return Ok(place) };
            for path in [&place.workspace, &place.exchange] {
                chown(path, Some(id), Some(id)).map_err(told)?;
            }
            place.user = User { uid: id, gid: id };
        }
        Ok(place)
    }

    /// The user id under which folders of root's can be shown; none: they cannot, and need not.
    async fn shows_as(&self, must: bool) -> Result<Option<u32>, String> {
        let keeper = self.sandboxes.get().await.map_err(|error| error.to_string())?;
        let id = keeper.shows_as();
        if id.is_none() && (must || self.sandboxes.is_required()) {
            let why = "Kitbag runs as root, and this machine cannot show its folders under another user id";
            return Err(format!("{why}; run it as an ordinary user"));
        }
        Ok(id)
    }

    /// Clears the places that a process left that was killed. Whether any was ever made here.
    pub async fn clear(&self) -> bool {
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || clear(&folder)).await.unwrap_or(false)
    }
}

fn clear(places: &Path) -> bool {
    let Ok(entries) = fs::read_dir(places) else { return false };
    for entry in entries.flatten() {
        let folder = entry.path();
        let workspace = folder.join(WORKSPACE);
        if let Err(error) = hide(&workspace) {
            tracing::warn!(%error, at = %workspace.display(), "what was shown to a container is still there");
            continue;
        }
        // Only what is empty, or nobody's: should something still be shown there, it is a workspace.
        let own = entry.file_name().to_string_lossy().starts_with(EMPTY);
        let _ = if own { fs::remove_dir_all(workspace) } else { fs::remove_dir(workspace) };
        let _ = fs::remove_dir_all(folder.join(EXCHANGE));
        let _ = fs::remove_dir(&folder);
    }
    true
}
