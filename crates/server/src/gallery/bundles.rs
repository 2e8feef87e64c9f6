//! The bundles of what is published: `gallery/ab/<sha256>`, each written once, under the name of its content.
//!
//! Rows and files cannot change in one act. A bundle is there before a row names it, and goes when no row does any more. Between
//! these somebody else may be at work, also in another process on the same folder: whoever writes rows holds a lock with others,
//! whoever removes bundles holds it alone.
//!
//! Where several servers share a bucket, bundles are there, and the folder has copies. No lock reaches all servers then: what nothing
//! names goes from the bucket at the start of a server, when it was put there long ago, and whoever publishes puts it there anew.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kitbag_bucket::Folder;
use kitbag_model::ContentHash;

use super::GalleryError;
use crate::storage::Storage;
use crate::transfer::Staged;

/// The folder of bundles.
#[derive(Clone)]
pub(crate) struct Bundles {
    folder: Arc<PathBuf>,
    bucket: Option<Folder>,
}

/// What nothing names goes from a bucket when it is older than this: rows come soon after a bundle, if they come.
const LATE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// While this is there, no bundle goes away.
pub(crate) struct Held(#[allow(dead_code, reason = "it is held, and let go of when it is dropped")] File);

/// While this is there, nobody is between a bundle and its rows.
pub(super) struct Alone(#[allow(dead_code, reason = "it is held, and let go of when it is dropped")] File);

fn at(path: &Path) -> impl Fn(io::Error) -> GalleryError + '_ {
    move |source| GalleryError::Disk { path: path.to_owned(), source }
}

impl Bundles {
    pub(super) fn new(storage: &Storage) -> Self {
        Self { folder: Arc::new(storage.data().join("gallery")), bucket: storage.gallery() }
    }

    #[cfg(test)]
    fn below(data: &Path) -> Self {
        Self { folder: Arc::new(data.join("gallery")), bucket: None }
    }

    fn place(&self, hash: &ContentHash) -> PathBuf {
        let name = hash.to_string();
        self.folder.join(&name[..2]).join(name)
    }

    fn lock_file(&self) -> Result<(PathBuf, File), GalleryError> {
        fs::create_dir_all(&*self.folder).map_err(at(&self.folder))?;
        let path = self.folder.join("lock");
        let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
        Ok((path, file))
    }

    /// Waits until nobody removes bundles.
    pub(super) fn hold(&self) -> Result<Held, GalleryError> {
        let (path, file) = self.lock_file()?;
        file.lock_shared().map_err(at(&path))?;
        Ok(Held(file))
    }

    /// Waits until nobody else holds anything.
    pub(super) fn hold_alone(&self) -> Result<Alone, GalleryError> {
        let (path, file) = self.lock_file()?;
        file.lock().map_err(at(&path))?;
        Ok(Alone(file))
    }

    /// Moves a bundle to its place, durably. One that is there already is put in place of itself, which also mends it.
    pub(super) fn keep(&self, bundle: &Staged, hash: &ContentHash) -> Result<(), GalleryError> {
        let place = self.place(hash);
        let folder = place.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(at(folder))?;
        if let Some(bucket) = &self.bucket {
            let bytes = fs::read(bundle.path()).map_err(at(bundle.path()))?;
            bucket.wait(bucket.put_bytes(&hash.to_string(), bytes.into()))?;
        }
        File::open(bundle.path()).and_then(|file| file.sync_all()).map_err(at(bundle.path()))?;
        fs::rename(bundle.path(), &place).map_err(at(&place))?;
        for folder in [folder, &self.folder] {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))?;
        }
        Ok(())
    }

    /// Keeps the bytes of a bundle, if they are not there yet.
    pub(super) fn put(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), GalleryError> {
        if let Some(bucket) = &self.bucket {
            // A copy here says nothing: it may have come from another bucket.
            let there = bucket.wait(bucket.read(&hash.to_string()))?;
            if there.is_some_and(|there| ContentHash::of(&there) == *hash) {
                return Ok(());
            }
            return Ok(bucket.wait(bucket.put_bytes(&hash.to_string(), bytes.to_vec().into()))?);
        }
        if self.read(hash).is_ok() {
            return Ok(());
        }
        let place = self.place(hash);
        let folder = place.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(at(folder))?;
        let part = folder.join(format!("{hash}.part"));
        fs::write(&part, bytes).map_err(at(&part))?;
        File::open(&part).and_then(|file| file.sync_all()).map_err(at(&part))?;
        fs::rename(&part, &place).map_err(at(&place))
    }

    /// All of a bundle, if it is what its name says.
    pub(super) fn read(&self, hash: &ContentHash) -> Result<Vec<u8>, GalleryError> {
        let place = self.place(hash);
        let is_whole = |bytes: &Vec<u8>| ContentHash::of(bytes) == *hash;
        let here = match fs::read(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(at(&place))?),
        };
        if let Some(bytes) = here.filter(is_whole) {
            return Ok(bytes);
        }
        let Some(bucket) = &self.bucket else { return Err(GalleryError::Damaged(*hash)) };
        let there = bucket.wait(bucket.read(&hash.to_string()))?.map(Vec::from);
        there.filter(is_whole).ok_or(GalleryError::Damaged(*hash))
    }

    pub(super) fn remove(&self, hash: &ContentHash) -> Result<(), GalleryError> {
        let place = self.place(hash);
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&place)(error)),
            _ => Ok(()),
        }
    }

    /// Whether anything was ever kept here.
    pub(super) fn is_used(&self) -> bool {
        self.bucket.is_some() || self.folder.is_dir()
    }

    /// Removes every bundle but these. What does not look like one is not ours to delete.
    pub(super) fn tidy_up(&self, needed: &[ContentHash]) -> Result<(), GalleryError> {
        if let Some(bucket) = &self.bucket {
            bucket.wait(async {
                let named: HashSet<String> = needed.iter().map(ToString::to_string).collect();
                let there = bucket.list().await?.into_iter();
                let left = there.filter(|object| object.age >= LATE && !named.contains(&object.key));
                let left: Vec<String> = left.map(|object| object.key).collect();
                if left.is_empty() { Ok(()) } else { bucket.remove_keys(left).await }
            })?;
        }
        for folder in fs::read_dir(&*self.folder).map_err(at(&self.folder))? {
            let folder = folder.map_err(at(&self.folder))?.path();
            if !folder.is_dir() {
                continue;
            }
            for file in fs::read_dir(&folder).map_err(at(&folder))? {
                let file = file.map_err(at(&folder))?;
                let hash = file.file_name().to_str().and_then(|name| name.parse::<ContentHash>().ok());
                if let Some(hash) = hash.filter(|hash| !needed.contains(hash)) {
                    self.remove(&hash)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Inbox;
    use std::io::Write;

    fn keep(bundles: &Bundles, inbox: &Inbox, content: &str) -> ContentHash {
        let (staged, mut file) = inbox.create().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let hash = ContentHash::of(content.as_bytes());
        let _held = bundles.hold().unwrap();
        bundles.keep(&staged, &hash).unwrap();
        hash
    }

    #[test]
    fn a_bundle_is_kept_once_and_given_out_whole_or_not_at_all() {
        let data = tempfile::tempdir().unwrap();
        let (bundles, inbox) = (Bundles::below(data.path()), Inbox::new(data.path()));
        let hash = keep(&bundles, &inbox, "one");
        let place = data.path().join("gallery").join(&hash.to_string()[..2]).join(hash.to_string());
        assert_eq!(fs::read_to_string(&place).unwrap(), "one");
        assert_eq!(bundles.read(&hash).unwrap(), b"one");
        assert_eq!(fs::read_dir(data.path().join("inbox")).unwrap().count(), 0, "it was moved");
        fs::write(&place, "other").unwrap();
        assert!(matches!(bundles.read(&hash), Err(GalleryError::Damaged(_))));
        assert_eq!(keep(&bundles, &inbox, "one"), hash);
        assert_eq!(bundles.read(&hash).unwrap(), b"one", "it is mended");
        bundles.remove(&hash).unwrap();
        bundles.remove(&hash).unwrap();
        assert!(matches!(bundles.read(&hash), Err(GalleryError::Damaged(_))));
    }

    /// A process that was killed between a bundle and its rows leaves a bundle that nothing names.
    #[test]
    fn what_nothing_names_goes_at_the_next_start() {
        let data = tempfile::tempdir().unwrap();
        let (bundles, inbox) = (Bundles::below(data.path()), Inbox::new(data.path()));
        let (named, never) = (keep(&bundles, &inbox, "named"), keep(&bundles, &inbox, "never"));
        fs::write(data.path().join("gallery/by-hand"), "").unwrap();
        let alone = bundles.hold_alone().unwrap();
        bundles.tidy_up(&[named]).unwrap();
        drop(alone);
        assert!(bundles.read(&named).is_ok() && bundles.read(&never).is_err());
        assert!(data.path().join("gallery/by-hand").is_file());
    }

    #[test]
    fn nobody_removes_bundles_while_somebody_is_about_to_name_one() {
        let data = tempfile::tempdir().unwrap();
        let bundles = Bundles::below(data.path());
        let (first, second) = (bundles.hold().unwrap(), bundles.hold().unwrap());
        let (_, file) = bundles.lock_file().unwrap();
        assert!(file.try_lock().is_err());
        drop(first);
        assert!(file.try_lock().is_err());
        drop(second);
        file.try_lock().unwrap();
        assert!(bundles.lock_file().unwrap().1.try_lock_shared().is_err());
    }
}
