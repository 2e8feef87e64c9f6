//! The files of a toolset in a bucket: each generation has its own place there, with every file under its hash and a list of them,
//! which comes last. Nobody else ever writes there, so that what is taken away cannot be what somebody else needs.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use kitbag_bucket::BucketError;
use kitbag_cas::CasError;
use kitbag_cas::blobs::Content;
use kitbag_model::{ContentHash, Hasher, ToolsetId, WorkPath};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Shelf, ShelfError, Staging, at, clear, sync};

/// The list of a generation's files.
const LIST: &str = "files.json";

/// What no row names goes when it is older than this: rows come soon after files, if they come.
const LATE: Duration = Duration::from_secs(24 * 60 * 60);

/// So many files are open at a time.
const AT_ONCE: usize = 128;

#[derive(Deserialize, Eq, PartialEq, Serialize)]
struct Listed {
    path: WorkPath,
    sha256: ContentHash,
    executable: bool,
}

impl From<BucketError> for ShelfError {
    fn from(error: BucketError) -> Self {
        Self::Bucket(error.to_string())
    }
}

impl From<CasError> for ShelfError {
    fn from(error: CasError) -> Self {
        match error {
            CasError::Io { path, source } => Self::Disk { path, source },
            other => Self::Bucket(other.to_string()),
        }
    }
}

impl Shelf {
    /// Brings staged files to where all servers find them, if there is such a place. It blocks.
    pub(crate) fn share(&self, staged: &Staging) -> Result<(), ShelfError> {
        self.share_folder(&staged.path, &staged.generation)
    }

    /// The same for the files of a folder.
    pub(crate) fn share_folder(&self, folder: &Path, generation: &str) -> Result<(), ShelfError> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let mut files = Vec::new();
        list(folder, folder, &mut files)?;
        for part in files.chunks(AT_ONCE) {
            let mut items = Vec::new();
            for file in part {
                let path = folder.join(file.path.as_str());
                let bytes = fs::read(&path).map_err(at(&path))?;
                items.push((format!("{generation}/{}", file.sha256), Content::Bytes(bytes)));
            }
            bucket.wait(bucket.put_all(items))?;
        }
        let list = serde_json::to_vec(&files).map_err(|error| ShelfError::Bucket(error.to_string()))?;
        Ok(bucket.wait(bucket.put_bytes(&format!("{generation}/{LIST}"), list.into()))?)
    }

    /// Whether a generation's files are here.
    pub(crate) fn is_laid_out(&self, generation: &str) -> bool {
        generation.is_empty() || self.staged().join(generation).is_dir()
    }

    /// Makes sure that a generation's files are here. It blocks.
    pub(crate) fn lay_out(&self, generation: &str) -> Result<(), ShelfError> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let place = self.staged().join(generation);
        if self.is_laid_out(generation) {
            return Ok(());
        }
        let list = bucket.wait(bucket.read(&format!("{generation}/{LIST}")))?;
        let gone = || ShelfError::Gone(generation.to_owned());
        let files: Vec<Listed> = serde_json::from_slice(&list.ok_or_else(gone)?).map_err(|_| gone())?;
        let part = self.staged().join(format!("{}.part", Uuid::now_v7()));
        fs::create_dir_all(&part).map_err(at(&part))?;
        let brought = files.chunks(AT_ONCE).try_for_each(|some| self.bring(generation, some, &part));
        // Nobody looks at the files again: a folder in its place must not be there, after a power cut, without what is in them.
        let lasting = brought.and_then(|()| sync(&part));
        let placed = lasting.and_then(|()| fs::rename(&part, &place).map_err(at(&place)));
        match placed {
            Ok(()) => Ok(()),
            // Somebody else was faster.
            Err(_) if place.is_dir() => clear(&part).map_err(at(&part)),
            Err(error) => {
                let _ = clear(&part);
                Err(error)
            }
        }
    }

    fn bring(&self, generation: &str, files: &[Listed], folder: &Path) -> Result<(), ShelfError> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let mut opened = Vec::new();
        for file in files {
            let path = folder.join(file.path.as_str());
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(at(parent))?;
            opened.push(fs::File::create_new(&path).map_err(at(&path))?);
        }
        let wanted = files.iter().map(|file| format!("{generation}/{}", file.sha256)).zip(&opened).collect();
        let found = bucket.wait(bucket.read_all(wanted))?;
        for (file, found) in files.iter().zip(found) {
            let path = folder.join(file.path.as_str());
            if !found || hash_of(&path)? != file.sha256 {
                return Err(ShelfError::Gone(file.path.to_string()));
            }
            let mode = if file.executable { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(at(&path))?;
        }
        Ok(())
    }

    /// Copies the files of a toolset to where another installation keeps them, unless they are there. It blocks.
    pub(crate) fn copy(&self, to: &Shelf, id: &ToolsetId, generation: &str) -> Result<(), ShelfError> {
        self.lay_out(generation)?;
        let source = self.folder_of(id, generation);
        if let Some(bucket) = &to.bucket {
            let is_there = bucket.wait(bucket.read(&format!("{generation}/{LIST}")))?.is_some();
            return if is_there { Ok(()) } else { to.share_folder(&source, generation) };
        }
        let (place, part) = (to.folder.join(id.as_str()), to.staged().join(format!("{generation}.part")));
        let mark = to.staged().join(format!("moved-{generation}"));
        if mark.exists() {
            return Ok(());
        }
        for path in [&place, &part] {
            if path.exists() {
                clear(path).map_err(at(path))?;
            }
        }
        let mut files = Vec::new();
        list(&source, &source, &mut files)?;
        for file in files {
            let (from, to) = (source.join(file.path.as_str()), part.join(file.path.as_str()));
            let parent = to.parent().unwrap_or(&part);
            fs::create_dir_all(parent).map_err(at(parent))?;
            fs::copy(&from, &to).map_err(at(&to))?;
        }
        fs::create_dir_all(&part).map_err(at(&part))?;
        sync(&part)?;
        fs::rename(&part, &place).map_err(at(&place))?;
        // The next start clears it up, with everything else that is not a generation.
        fs::write(&mark, "").map_err(at(&mark))
    }

    /// Whether another installation has the same files of a toolset. It blocks.
    pub(crate) fn has_same(&self, to: &Shelf, id: &ToolsetId, generation: &str) -> Result<bool, ShelfError> {
        let listed = |shelf: &Shelf| {
            shelf.lay_out(generation)?;
            let (folder, mut files) = (shelf.folder_of(id, generation), Vec::new());
            list(&folder, &folder, &mut files)?;
            files.sort_by(|one, other| one.path.cmp(&other.path));
            Ok::<_, ShelfError>(files)
        };
        Ok(listed(self)? == listed(to)?)
    }

    /// Takes away the files of a generation that no row names any more, everywhere but where another server laid them out.
    pub(crate) fn forget(&self, generation: &str) -> Result<(), ShelfError> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        if generation.is_empty() {
            return Ok(());
        }
        let mine = |object: &kitbag_cas::blobs::Object| object.key.starts_with(&format!("{generation}/"));
        bucket.wait(async {
            let there = bucket.list().await?;
            bucket.remove_keys(there.into_iter().filter(mine).map(|object| object.key).collect()).await
        })?;
        let place = self.staged().join(generation);
        if place.is_dir() { clear(&place).map_err(at(&place)) } else { Ok(()) }
    }

    /// Takes away what servers that were killed left in the bucket: generations that no row names and that are not new.
    pub(crate) fn tidy_up_shared(&self, known: &[&str]) -> Result<(), ShelfError> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let is_left = |object: &kitbag_cas::blobs::Object| {
            let generation = object.key.split('/').next().unwrap_or_default();
            object.age >= LATE && !known.contains(&generation)
        };
        Ok(bucket.wait(async {
            let left: Vec<String> = bucket.list().await?.into_iter().filter(is_left).map(|object| object.key).collect();
            if left.is_empty() { Ok(()) } else { bucket.remove_keys(left).await }
        })?)
    }
}

/// All files below a folder.
fn list(folder: &Path, below: &Path, files: &mut Vec<Listed>) -> Result<(), ShelfError> {
    for entry in fs::read_dir(below).map_err(at(below))? {
        let path = entry.map_err(at(below))?.path();
        let about = path.symlink_metadata().map_err(at(&path))?;
        if about.is_dir() {
            list(folder, &path, files)?;
        } else if let Some(name) = path.strip_prefix(folder).ok().and_then(|name| name.to_str()?.parse().ok()) {
            let executable = about.permissions().mode() & 0o100 != 0;
            files.push(Listed { path: name, sha256: hash_of(&path)?, executable });
        }
    }
    Ok(())
}

fn hash_of(path: &Path) -> Result<ContentHash, ShelfError> {
    let mut file = fs::File::open(path).map_err(at(path))?;
    let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer).map_err(at(path))? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
