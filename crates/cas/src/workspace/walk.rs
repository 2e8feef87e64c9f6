//! Looks at every file's times and size, opening none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use kitbag_model::WorkPath;
use rustix::fs::{AtFlags, Dir};
use rustix::io::Errno;

use super::folder::{Folder, Stat};
use super::ignored::{self, Ignored};
use super::parallel;
use crate::error::CasError;
use crate::tree::Kind;

/// So many files of one folder are looked at as one task.
const BATCH: usize = 512;

/// Something in the folder that a state cannot hold, or that could not be read. It was not kept as it is now, and the next
/// change of state removes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Warning {
    /// Where; bytes that are not text are escaped.
    pub path: String,
    /// Why it was not kept.
    pub reason: &'static str,
}

impl Warning {
    pub(super) fn unreadable(path: &str) -> Self {
        let path = if path.is_empty() { "." } else { path };
        Self { path: path.to_owned(), reason: UNREADABLE }
    }
}

/// What is in the folder, or in those parts of it that may have changed.
#[derive(Default)]
pub(super) struct Walk {
    /// Which paths were looked at, if not all: each with everything below it (true), or it alone.
    pub(super) regions: Option<BTreeMap<String, bool>>,
    /// Files, links and empty folders.
    pub(super) found: Vec<(WorkPath, Stat)>,
    /// What a state cannot hold: the folder it is in, its name, and why.
    pub(super) odd: Vec<(String, OsString, &'static str)>,
    /// Folders that may not be looked into. What was known of them stays.
    pub(super) closed: Vec<String>,
}

pub(super) const UNREADABLE: &str = "it may not be read; if it was known before, it is kept as it was";

impl Walk {
    /// Whether a file has more than one name, here or elsewhere.
    pub(super) fn has_hard_links(&self) -> bool {
        self.found.iter().any(|(_, stat)| stat.links > 1 && stat.kind() != Some(Kind::Folder))
    }

    /// Whether a path was looked at.
    pub(super) fn covers(&self, path: &WorkPath) -> bool {
        let Some(regions) = &self.regions else { return true };
        let mut above = path.parent();
        let mut covered = regions.contains_key(path.as_str());
        while let (false, Some(folder)) = (covered, above) {
            covered = regions.get(folder).is_some_and(|with_below| *with_below);
            above = folder.rsplit_once('/').map(|(above, _)| above);
        }
        covered
    }

    /// Whether a path is in a folder that may not be looked into, or is one.
    pub(super) fn is_closed(&self, path: &WorkPath) -> bool {
        self.closed.iter().any(|folder| {
            folder.is_empty()
                || path
                    .as_str()
                    .strip_prefix(folder.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        let escaped = |parent: &str, name: &OsString| {
            let name = name.as_bytes().escape_ascii().to_string();
            if parent.is_empty() { name } else { format!("{parent}/{name}") }
        };
        let odd = self.odd.iter().map(|(parent, name, reason)| Warning { path: escaped(parent, name), reason });
        odd.chain(self.closed.iter().map(|path| Warning::unreadable(path))).collect()
    }
}

/// Looks only at paths that may have changed. None if one of them is something that a state cannot hold: then everything is
/// looked at, so that all of it is named.
pub(super) fn look_at(
    folder: &Folder,
    changed: &BTreeSet<String>,
    ignored: &Ignored,
) -> Result<Option<Walk>, CasError> {
    if changed.contains(ignored::NAME) {
        return Ok(None);
    }
    let mut whole = Walk::default();
    let mut regions: BTreeMap<String, bool> = BTreeMap::new();
    let mut covered: Option<String> = None;
    for path in changed {
        // Below a path that is looked at with everything in it.
        if covered
            .as_ref()
            .is_some_and(|above| path.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('/')))
        {
            continue;
        }
        let Ok(checked) = path.parse::<WorkPath>() else { return Ok(None) };
        if let Some(parent) = checked.parent() {
            regions.entry(parent.to_owned()).or_insert(false);
        }
        regions.insert(path.clone(), true);
        covered = Some(path.clone());
        match folder.stat(&checked) {
            Ok(stat) => match stat.kind() {
                kind if ignored.covers(&checked, kind == Some(Kind::Folder)) => {}
                Some(Kind::Folder) => {
                    let mut below = walk(folder, path, ignored)?;
                    whole.found.append(&mut below.found);
                    whole.odd.append(&mut below.odd);
                    whole.closed.append(&mut below.closed);
                }
                Some(_) => whole.found.push((checked, stat)),
                None => return Ok(None),
            },
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(Errno::ACCESS) => return Ok(None),
            Err(error) => return Err(folder.failed(path)(error)),
        }
    }
    if !whole.odd.is_empty() || !whole.closed.is_empty() || whole.has_hard_links() {
        return Ok(None);
    }
    // The folder above may have become empty, or have stopped being so.
    for (path, _) in regions.iter().filter(|(_, below)| !**below) {
        match empty_folder(folder, path) {
            Ok(Some(stat)) => whole.found.extend(path.parse().ok().map(|path| (path, stat))),
            Ok(None) => {}
            Err(Errno::ACCESS) => return Ok(None),
            Err(error) => return Err(folder.failed(path)(error)),
        }
    }
    whole.found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    whole.found.dedup_by(|(a, _), (b, _)| a == b);
    whole.regions = Some(regions);
    Ok(Some(whole))
}

/// What a folder's times are, if it is one and has nothing in it.
fn empty_folder(folder: &Folder, path: &str) -> Result<Option<Stat>, Errno> {
    let opened = match folder.folder(path) {
        Ok(opened) => opened,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error),
    };
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        if entry.file_name().to_bytes() != b"." && entry.file_name().to_bytes() != b".." {
            return Ok(None);
        }
    }
    rustix::fs::fstat(&opened).map(|raw| Some(Stat::from(&raw)))
}

enum Task {
    Folder(String),
    Files(String, Vec<Vec<u8>>),
}

/// Looks at everything below `start` (`""` for all).
pub(super) fn walk(folder: &Folder, start: &str, ignored: &Ignored) -> Result<Walk, CasError> {
    let tasks = vec![Task::Folder(start.to_owned())];
    let by_path = |(a, _): &(WorkPath, Stat), (b, _): &(WorkPath, Stat)| a.cmp(b);
    let work = |task, walk: &mut Walk, more: &mut Vec<Task>| match task {
        Task::Folder(path) => list(folder, path, ignored, walk, more),
        Task::Files(path, names) => look(folder, &path, &names, ignored, walk, more),
    };
    // Each thread sorts what it found, so that only whole runs are left to be merged.
    let walks = parallel::run_and(tasks, Walk::default, work, |walk| walk.found.sort_unstable_by(by_path))?;
    let mut whole = Walk::default();
    for mut walk in walks {
        whole.found.append(&mut walk.found);
        whole.odd.append(&mut walk.odd);
        whole.closed.append(&mut walk.closed);
    }
    // Those of many files are looked at in several tasks.
    whole.closed.sort_unstable();
    whole.closed.dedup();
    // The stable sort sees the runs.
    whole.found.sort_by(by_path);
    Ok(whole)
}

fn list(
    folder: &Folder,
    path: String,
    ignored: &Ignored,
    walk: &mut Walk,
    more: &mut Vec<Task>,
) -> Result<(), CasError> {
    let failed = folder.failed(&path);
    let opened = folder.folder(&path).and_then(|opened| Dir::read_from(&opened).map(|listed| (opened, listed)));
    let (opened, listed) = match opened {
        Ok(opened) => opened,
        // It went away, or something else took its place, since its parent was listed.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => return Ok(()),
        Err(Errno::ACCESS) => {
            walk.closed.push(path);
            return Ok(());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut names: Vec<Vec<u8>> = Vec::new();
    for entry in listed {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    if names.is_empty() && !path.is_empty() {
        let stat = rustix::fs::fstat(&opened).map_err(&failed)?;
        if let Ok(path) = path.parse() {
            walk.found.push((path, Stat::from(&stat)));
        }
        return Ok(());
    }
    if names.len() <= BATCH {
        return look(folder, &path, &names, ignored, walk, more);
    }
    more.extend(names.chunks(BATCH).map(|names| Task::Files(path.clone(), names.to_vec())));
    Ok(())
}

fn look(
    folder: &Folder,
    parent: &str,
    names: &[Vec<u8>],
    ignored: &Ignored,
    walk: &mut Walk,
    more: &mut Vec<Task>,
) -> Result<(), CasError> {
    let failed = folder.failed(parent);
    let opened = match folder.folder(parent) {
        Ok(opened) => opened,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !parent.is_empty() => return Ok(()),
        Err(Errno::ACCESS) => {
            walk.closed.push(parent.to_owned());
            return Ok(());
        }
        Err(error) => return Err(failed(error)),
    };
    for name in names {
        let stat = match rustix::fs::statat(&opened, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(raw) => Stat::from(&raw),
            Err(Errno::NOENT) => continue,
            // It may be listed and not searched.
            Err(Errno::ACCESS) => {
                walk.closed.push(parent.to_owned());
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        let mut odd = |reason| walk.odd.push((parent.to_owned(), OsString::from_vec(name.clone()), reason));
        let Some(path) = std::str::from_utf8(name).ok().and_then(|name| WorkPath::below(parent, name).ok()) else {
            odd("its name is not UTF-8, or has a backslash, or its path is too long");
            continue;
        };
        match stat.kind() {
            kind if ignored.matches(&path, kind == Some(Kind::Folder)) => {}
            Some(Kind::Folder) => more.push(Task::Folder(path.to_string())),
            Some(_) => walk.found.push((path, stat)),
            None => odd("it is a socket, a pipe or a device"),
        }
    }
    Ok(())
}
