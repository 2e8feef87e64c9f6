//! Where a container sees its workspace and its arguments, and as whom.
//!
//! Whoever runs in a container is not root. Where we are, workspaces are root's, so the one that is needed is shown under the user id that
//! tools in the sandbox have, too, at a place that is there for that container alone. Where we are an ordinary user, it is that user.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitbag_cas::clear::remove_folder;
use kitbag_container::User;
use kitbag_guard::keeper::SharedKeeper;
use kitbag_guard::shown::{Shown, hide};

const WORKSPACE: &str = "workspace";
const EXCHANGE: &str = "exchange";

/// What the names of places begin with that have an empty workspace of their own.
const EMPTY: &str = "empty-";

/// So long whoever ends with a place waits until it is gone. What is in it is a stranger's, who may have made it large.
const PATIENCE: Duration = Duration::from_secs(2);

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

impl Place {
    /// Takes it away, and waits for a while until it is gone. The rest goes on without whoever waits.
    pub async fn clear(mut self) {
        if let Some(going) = self.go() {
            let _ = tokio::time::timeout(PATIENCE, going).await;
        }
    }

    /// Has it go, once, where nobody else has to wait for it.
    fn go(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        // Hidden first: what is removed is the empty place and not what was shown there. One that stays shown is not gone into.
        drop(self.shown.take());
        let folder = std::mem::take(&mut self.folder);
        if folder.as_os_str().is_empty() {
            return None;
        }
        let own = self.own;
        let removing = move || remove(&folder, own);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => Some(runtime.spawn_blocking(removing)),
            Err(_) => {
                removing();
                None
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.go();
    }
}

/// Removes a place. What a stranger wrote there may be deeper than a path can be long, and locked. A workspace that is not the place's `own`
/// goes only if it is empty: should something still be shown there, it is somebody's.
fn remove(folder: &Path, own: bool) {
    let workspace = folder.join(WORKSPACE);
    if own {
        removed(&workspace);
    } else {
        let _ = fs::remove_dir(workspace);
    }
    removed(&folder.join(EXCHANGE));
    let _ = fs::remove_dir(folder);
}

fn removed(folder: &Path) {
    if let Err(error) = remove_folder(folder) {
        tracing::warn!(%error, folder = %folder.display(), "a container's folder could not be removed; the next start tries again");
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
        let own = entry.file_name().to_string_lossy().starts_with(EMPTY);
        remove(&folder, own);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    use super::*;

    /// Deeper than the stack of whoever goes from folder to folder by calling itself.
    const DEEP: usize = 20_000;

    /// What a tool may leave: folders in folders, and one that nobody may look into.
    fn fill(exchange: &Path, deep: usize) {
        fs::create_dir_all(exchange).unwrap();
        let mut at = openat(CWD, exchange, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..deep {
            mkdirat(&at, "d", Mode::from(0o755)).unwrap();
            at = openat(&at, "d", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let locked = exchange.join("locked");
        fs::create_dir_all(locked.join("inner")).unwrap();
        fs::write(locked.join("inner/file"), "x").unwrap();
        fs::set_permissions(locked.join("inner"), Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(locked, Permissions::from_mode(0o000)).unwrap();
    }

    fn place(folder: &Path, own: bool, deep: usize) -> Place {
        let user = User { uid: 1, gid: 1 };
        let (workspace, exchange) = (folder.join(WORKSPACE), folder.join(EXCHANGE));
        fs::create_dir_all(&workspace).unwrap();
        fill(&exchange, deep);
        Place { folder: folder.to_owned(), workspace, exchange, user, shown: None, own }
    }

    #[tokio::test]
    async fn whatever_a_tool_left_goes() {
        let places = std::env::temp_dir().join(format!("kitbag-places-{}", std::process::id()));
        place(&places.join("one"), false, DEEP).clear().await;
        // However long it takes, nobody else waits.
        drop(place(&places.join("two"), false, 10));
        let own = place(&places.join("empty-three"), true, 10);
        fill(&own.workspace.join("more"), 10);
        drop(own);
        let end = std::time::Instant::now() + Duration::from_secs(120);
        while fs::read_dir(&places).unwrap().count() > 0 {
            assert!(std::time::Instant::now() < end, "{:?}", fs::read_dir(&places).unwrap().collect::<Vec<_>>());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // What was left by a process that was killed, too; but for what may be somebody's workspace.
        std::mem::forget(place(&places.join("four"), false, 10));
        std::mem::forget(place(&places.join("five"), false, 10));
        fs::write(places.join("five").join(WORKSPACE).join("kept"), "x").unwrap();
        assert!(clear(&places));
        assert!(!places.join("four").exists() && places.join("five").join(WORKSPACE).join("kept").exists());
        assert!(!places.join("five").join(EXCHANGE).exists());
        remove_folder(&places).unwrap();
    }
}
