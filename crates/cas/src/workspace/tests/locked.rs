//! Folders that are too deep, files that may not be read, a workspace that somebody else has.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::{CasError, Chat, Limits, LocalBlobs, Workspace, on_disk, tree_of_nothing};
use crate::clear;

/// Does `work` as one whom permissions bind, whoever runs the tests.
fn as_an_ordinary_user(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            let powers = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            sets.effective.remove(powers);
            sets.permitted.remove(powers);
            set_capabilities(None, sets).unwrap();
            work();
        });
        done.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes a folder of so many levels, deeper than a path can say. The innermost has a file.
fn make_deep(top: &Path, name: &str, levels: usize) {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at: OwnedFd = rustix::fs::open(top, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)).unwrap();
        at = rustix::fs::openat(&at, name, flags, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(&at, "file", flags, Mode::from_raw_mode(0o644)).unwrap();
}

#[test]
fn a_folder_deeper_than_a_path_can_say_is_named_and_removed() {
    for mut chat in [Chat::new(), Chat::watching()] {
        chat.write("good", "x");
        // More levels than descriptors can be open, and longer than any path.
        make_deep(chat.workspace.path(), "deep", 3000);
        make_deep(chat.workspace.path(), &"l".repeat(200), 40);
        let snapshot = chat.workspace.snapshot(&chat.nodes).unwrap();
        chat.nodes.add(&snapshot.tree.new_nodes).unwrap();
        assert_eq!(snapshot.warnings.len(), 2, "{:?}", snapshot.warnings.len());
        chat.materialise(&snapshot.tree.root);
        assert!(chat.workspace.snapshot(&chat.nodes).unwrap().warnings.is_empty());
        let empty = tree_of_nothing(&mut chat);
        chat.materialise(&empty);
        assert!(on_disk(chat.workspace.path()).is_empty());
    }
}

/// The longest path that a state can hold is one that the kernel takes.
#[test]
fn the_longest_path_comes_and_goes() {
    let mut chat = Chat::new();
    make_deep(chat.workspace.path(), "a", 2045);
    let root = chat.snapshot();
    let stored = chat.stored(&root);
    let longest = stored.keys().next().unwrap();
    assert_eq!(longest.len(), 4094);
    let empty = tree_of_nothing(&mut chat);
    chat.materialise(&empty);
    chat.materialise(&root);
    assert_eq!(chat.snapshot(), root);
    // One byte more would be too much for the kernel, and so it is for us.
    assert!(format!("{longest}bc").parse::<kitbag_model::WorkPath>().is_err());
    assert!(format!("{longest}b").parse::<kitbag_model::WorkPath>().is_ok());
}

#[test]
fn a_doomed_folder_goes_however_deep_and_locked() {
    as_an_ordinary_user(|| {
        let top = super::new_home();
        let home = top.path().join("home");
        fs::create_dir_all(home.join("a/b/c")).unwrap();
        fs::create_dir(top.path().join("other")).unwrap();
        std::os::unix::fs::symlink("../other", home.join("a/out")).unwrap();
        make_deep(&home, "deep", 2000);
        clear::doom(&home).unwrap();
        for (path, mode) in [("a/b/c", 0o000), ("a/b", 0o500), ("a", 0o400), ("deep/deep/deep", 0o000), ("", 0o000)] {
            chmod(home.join(path), mode);
        }
        assert_eq!(clear::doomed(top.path()).unwrap(), std::slice::from_ref(&home));
        clear::remove_doomed(&home).unwrap();
        let left: Vec<_> = fs::read_dir(top.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["other"]);
        clear::remove_doomed(&home).unwrap();
        assert!(clear::doomed(&top.path().join("nowhere")).unwrap().is_empty());
    });
}

#[test]
fn what_may_not_be_read_is_kept_as_it_was_and_named() {
    for watching in [false, true] {
        as_an_ordinary_user(|| {
            let mut chat = if watching { Chat::watching() } else { Chat::new() };
            for path in ["known", "folder/known", "folder/deep/known", "listed/known", "free"] {
                chat.write(path, path);
            }
            let first = chat.snapshot();
            let before = on_disk(chat.workspace.path());
            chat.write("known", "changed and locked");
            chat.write("new", "locked from the start");
            chat.write("new folder/new", "locked from the start");
            chat.write("free", "changed");
            for (path, mode) in [("known", 0), ("new", 0), ("new folder", 0), ("folder", 0), ("listed", 0o400)] {
                chmod(chat.path(path), mode);
            }
            let locked = chat.workspace.snapshot(&chat.nodes).unwrap();
            chat.nodes.add(&locked.tree.new_nodes).unwrap();
            let mut named: Vec<_> = locked.warnings.iter().map(|warning| warning.path.as_str()).collect();
            named.sort_unstable();
            assert_eq!(named, ["folder", "known", "listed", "new", "new folder"]);
            let mut wanted = before.clone();
            wanted.get_mut("free").unwrap().1 = b"changed".to_vec();
            assert_eq!(chat.stored(&locked.tree.root), wanted);
            // Again, and by a process that knows nothing: what is not known cannot be kept.
            assert_eq!(chat.snapshot(), locked.tree.root);

            // The folder becomes what it is to be, whatever is locked.
            chat.materialise(&locked.tree.root);
            assert_eq!(on_disk(chat.workspace.path()), wanted);
            for (path, mode) in [("known", 0), ("folder/deep", 0), ("folder", 0), ("listed", 0o100), ("", 0)] {
                chmod(chat.path(path), mode);
            }
            chat.reopen(false);
            chat.materialise(&first);
            assert_eq!(on_disk(chat.workspace.path()), before);
            // Into folders that are read-only, too.
            let empty = tree_of_nothing(&mut chat);
            chat.materialise(&empty);
            chat.write("folder/other", "x");
            chmod(chat.path("folder"), 0o555);
            chmod(chat.path(""), 0o555);
            chat.materialise(&first);
            assert_eq!(on_disk(chat.workspace.path()), before);
            chmod(chat.path("folder"), 0o555);
            chat.workspace.write_file(&"folder/by hand".parse().unwrap(), b"x").unwrap();
        });
    }
}

#[test]
fn a_workspace_that_somebody_else_has_is_not_waited_for_without_end() {
    let chat = Chat::new();
    let open = |patience| {
        let home = chat.home.path();
        Workspace::open_within(home, Arc::new(LocalBlobs::open(home).unwrap()), Limits::default(), patience)
    };
    for patience in [Duration::ZERO, Duration::from_millis(50)] {
        let error = open(patience).map(drop).unwrap_err();
        assert!(matches!(error, CasError::InUse { .. }), "{error}");
    }
    // One that lets go in time is waited for.
    let (send, opened) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| send.send(open(Duration::from_secs(60)).is_ok()).unwrap());
        drop(chat.workspace);
        assert!(opened.recv().unwrap());
    });
}
