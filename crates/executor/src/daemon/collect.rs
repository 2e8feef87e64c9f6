//! What an agent left in its folder: every file by its content. No link is followed, so that nothing of the machine outside of the folder
//! is taken along; what was put there for the engine is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use kitbag_model::run::Application;
use kitbag_model::run::wire::{Assignment, FileRef};
use kitbag_model::{ContentHash, Hasher, WorkPath};

use crate::Failure;

/// The patterns of what is not kept, as in the workspace of a chat.
const IGNORED: &str = ".kitbagignore";

/// More than this is not a list of patterns.
const LARGEST_LIST: u64 = 256 << 10;

/// What is kept of a folder at most.
#[derive(Clone, Copy, Debug)]
pub struct CollectLimits {
    /// Files.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of all their names, which go into one message.
    pub names: usize,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self { files: 50_000, file_bytes: 1 << 30, bytes: 4 << 30, names: 8 << 20 }
    }
}

/// The files of a folder.
#[derive(Debug, Default)]
pub struct Collected {
    /// Each with its content's hash.
    pub files: BTreeMap<WorkPath, FileRef>,
    /// What cannot be kept, and why.
    pub left_out: Vec<String>,
}

/// Looks at everything in `work`. This reads all of it, so it is not for a thread that serves others.
pub fn collect(work: &Path, job: &Assignment, limits: CollectLimits) -> Result<Collected, Failure> {
    let mut walk = Walk {
        work,
        limits,
        ours: staged(job),
        ignored: ignored(work),
        bytes: 0,
        names: 0,
        found: Collected::default(),
    };
    walk.folder("")?;
    Ok(walk.found)
}

/// The folders of skills that were staged. One that the run's own files have was not: nothing is staged over them.
fn staged(job: &Assignment) -> BTreeSet<String> {
    let (Application::Toolset { profile, .. }, Some(toolset)) = (&job.application, &job.toolset) else {
        return BTreeSet::new();
    };
    let enabled = toolset.agent_skills.iter().filter(|skill| skill.enabled);
    let folders = enabled.map(|skill| format!("{}/{}", profile.skills_folder(), skill.id));
    let own = |folder: &String| {
        let inside =
            |path: &WorkPath| path.as_str().strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'));
        job.files.keys().any(inside)
    };
    folders.filter(|folder| !own(folder)).collect()
}

fn ignored(work: &Path) -> Option<Gitignore> {
    let file = OpenOptions::new().read(true).custom_flags(NO_LINK).open(work.join(IGNORED)).ok()?;
    let mut text = String::new();
    file.take(LARGEST_LIST).read_to_string(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new("");
    for line in text.lines() {
        // A line that is no pattern ignores nothing.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

/// Opens neither a link nor, waiting for somebody at the other end, a pipe.
const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK).bits().cast_signed();

struct Walk<'a> {
    work: &'a Path,
    limits: CollectLimits,
    ours: BTreeSet<String>,
    ignored: Option<Gitignore>,
    bytes: u64,
    names: usize,
    found: Collected,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &str) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            Failure::new("WORKSPACE_FAILED", format_args!("the folder `{folder}` cannot be read: {error}"))
        };
        for entry in fs::read_dir(self.work.join(folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name();
            let path = name.to_str().and_then(|name| WorkPath::below(folder, name).ok());
            let Some(path) = path else {
                let name = name.as_encoded_bytes().escape_ascii();
                self.left_out(format!("`{folder}/{name}` has a name that cannot be kept"));
                continue;
            };
            let skip = self.ours.contains(path.as_str())
                || self.ignored.as_ref().is_some_and(|list| list.matched(&path, kind.is_dir()).is_ignore());
            match () {
                () if skip => {}
                () if kind.is_dir() => self.folder(path.as_str())?,
                () if kind.is_file() => self.file(path)?,
                // Where an engine looks for its skills there is a link of ours.
                () if kind.is_symlink() && path.name() == "skills" && !self.ours.is_empty() => {}
                () => self.left_out(format!("`{path}` is no file and no folder")),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: WorkPath) -> Result<(), Failure> {
        let failed =
            |error: io::Error| Failure::new("WORKSPACE_FAILED", format_args!("`{path}` cannot be read: {error}"));
        let too_large = |reason: String| Failure::new("WORKSPACE_TOO_LARGE", reason);
        if self.found.files.len() == self.limits.files {
            return Err(too_large(format!(
                "the folder has more than {} files; name what is not to be kept in {IGNORED}",
                self.limits.files
            )));
        }
        self.names += path.as_str().len();
        if self.names > self.limits.names {
            return Err(too_large(format!("the names of its files have more than {} bytes", self.limits.names)));
        }
        let mut file =
            OpenOptions::new().read(true).custom_flags(NO_LINK).open(self.work.join(&path)).map_err(failed)?;
        let executable = file.metadata().map_err(failed)?.permissions().mode() & 0o100 != 0;
        let (mut hasher, mut size, mut part) = (Hasher::default(), 0_u64, vec![0; 64 << 10]);
        loop {
            let read = file.read(&mut part).map_err(failed)?;
            if read == 0 {
                break;
            }
            hasher.update(&part[..read]);
            size += read as u64;
            if size > self.limits.file_bytes {
                return Err(too_large(format!("`{path}` has more than {} bytes", self.limits.file_bytes)));
            }
            if self.bytes + size > self.limits.bytes {
                return Err(too_large(format!(
                    "the files of the folder have more than {} bytes; name what is not to be kept in {IGNORED}",
                    self.limits.bytes
                )));
            }
        }
        self.bytes += size;
        self.found.files.insert(path, FileRef { sha256: hasher.finish(), size, executable });
        Ok(())
    }

    fn left_out(&mut self, what: String) {
        self.found.left_out.push(what);
    }
}

impl Collected {
    /// One path and size for each content.
    pub fn contents(&self) -> BTreeMap<ContentHash, (&WorkPath, u64)> {
        self.files.iter().map(|(path, file)| (file.sha256, (path, file.size))).collect()
    }
}
