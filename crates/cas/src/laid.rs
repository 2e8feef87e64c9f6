//! How much workspaces take that are laid out, and when they were used last. It looks, and changes nothing.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is written when a workspace is opened, when it comes to another state, and when it is closed.
const MARKS: [&str; 3] = ["in-use", "origin", "index"];

/// The folders of chats below one folder, and when each was used last, as far as its files say. Not those that were never laid out.
pub fn chats(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let laid_out = entries.map(|entry| entry.path()).filter(|home| home.join("workspace").is_dir());
    laid_out.map(|home| (last_use(&home), home)).map(|(used, home)| (home, used)).collect()
}

fn last_use(home: &Path) -> SystemTime {
    let marks = MARKS.iter().filter_map(|mark| fs::metadata(home.join(mark)).and_then(|about| about.modified()).ok());
    marks.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// What the workspace of a chat takes on the disk. What goes away meanwhile, and what nobody may read, takes nothing.
pub fn size(home: &Path) -> u64 {
    let (mut taken, mut waiting) = (0, vec![home.join("workspace")]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            // Of a link itself.
            let Ok(about) = entry.metadata() else { continue };
            taken += on_disk(&about);
            if about.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    taken
}

/// A sparse file takes less than it is long, and a small one more.
fn on_disk(about: &Metadata) -> u64 {
    about.blocks() * 512
}

#[cfg(test)]
mod tests;
