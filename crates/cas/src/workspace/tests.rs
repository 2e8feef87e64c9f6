//! A real folder against the plainest model there is: a map in memory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use kitbag_model::{ContentHash, WorkPath};
use proptest::prelude::*;
use tempfile::TempDir;

#[cfg(debug_assertions)]
mod faults;
mod gone;
mod locked;

use super::*;
use crate::blobs::LocalBlobs;
use crate::tree::{NodeMap, entries};

/// In memory where the machine has that: what is shown here does not depend on how long a sync takes.
fn new_home() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

struct Chat {
    home: TempDir,
    workspace: Workspace,
    nodes: NodeMap,
}

impl Chat {
    fn new() -> Self {
        let home = new_home();
        let workspace = open(home.path());
        Self { home, workspace, nodes: NodeMap::default() }
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.workspace.path().join(path)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn snapshot(&mut self) -> ContentHash {
        let snapshot = self.workspace.snapshot(&self.nodes).unwrap();
        self.nodes.add(&snapshot.tree.new_nodes).unwrap();
        snapshot.tree.root
    }

    fn materialise(&mut self, root: &ContentHash) -> Materialised {
        let done = self.workspace.materialise(root, &self.nodes).unwrap();
        self.workspace.settle().unwrap();
        done
    }

    /// As after a restart.
    fn reopen(&mut self, save: bool) {
        if save {
            self.workspace.save().unwrap();
        }
        // The old one is let go first: it holds the folder.
        let elsewhere = tempfile::tempdir().unwrap();
        self.workspace = open(elsewhere.path());
        self.workspace = open(self.home.path());
    }

    /// What a state holds, by looking into the store.
    fn stored(&self, root: &ContentHash) -> Model {
        let read = |(path, entry): (WorkPath, Entry)| {
            let content =
                if entry.kind == Kind::Folder { Vec::new() } else { self.workspace.blobs().read(&entry.hash).unwrap() };
            (path.to_string(), (entry.kind, content))
        };
        entries(root, &self.nodes).unwrap().into_iter().map(read).collect()
    }
}

use crate::tree::{Entry, Kind, NodeError};

type Model = BTreeMap<String, (Kind, Vec<u8>)>;

fn open(home: &Path) -> Workspace {
    Workspace::open(home, Arc::new(LocalBlobs::open(home).unwrap()), Limits::default()).unwrap()
}

impl Chat {
    fn watching() -> Self {
        let mut chat = Self::new();
        chat.workspace.watch();
        chat
    }
}

/// What is on disk, by looking at the disk.
fn on_disk(folder: &Path) -> Model {
    fn look(folder: &Path, top: &Path, model: &mut Model) {
        let listed: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
        let name = |path: &Path| path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        if listed.is_empty() && folder != top {
            model.insert(name(folder), (Kind::Folder, Vec::new()));
        }
        for entry in listed {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                look(&path, top, model);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
                model.insert(name(&path), (Kind::Link, target));
            } else {
                let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
                let kind = if executable { Kind::Executable } else { Kind::File };
                model.insert(name(&path), (kind, fs::read(&path).unwrap()));
            }
        }
    }
    let mut model = Model::new();
    look(folder, folder, &mut model);
    model
}

/// One thing that a tool or a person does.
#[derive(Clone, Debug)]
enum Step {
    Write(u8, u8),
    /// Opens the file and writes over its bytes, so that inode and size stay.
    Overwrite(u8, u8),
    Link(u8, u8),
    Delete(u8),
    Rename(u8, u8),
    Chmod(u8, bool),
    MakeFolder(u8),
    Snapshot,
    Checkout(prop::sample::Index),
    Reopen(bool),
}

/// Few names, some inside others, so that files and folders get into each other's way.
fn place(number: u8) -> String {
    const NAMES: [&str; 10] = ["a", "b", "a/x", "a/y", "b/x/deep", "c/d/e/f", "c", "x y/ü", ".hidden", "c/d"];
    NAMES[usize::from(number) % NAMES.len()].to_owned()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), any::<u8>()).prop_map(|(p, c)| Step::Write(p, c)),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(p, c)| Step::Overwrite(p, c)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(p, t)| Step::Link(p, t)),
        2 => any::<u8>().prop_map(Step::Delete),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Rename(a, b)),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(p, x)| Step::Chmod(p, x)),
        1 => any::<u8>().prop_map(Step::MakeFolder),
        4 => Just(Step::Snapshot),
        3 => any::<prop::sample::Index>().prop_map(Step::Checkout),
        1 => any::<bool>().prop_map(Step::Reopen),
    ]
}

fn do_step(chat: &mut Chat, step: &Step, states: &mut Vec<(ContentHash, Model)>) {
    let folder = chat.workspace.path().to_owned();
    let at = |number: &u8| folder.join(place(*number));
    // What does not work on a real disk (a file below a file) does nothing here either.
    match step {
        Step::Write(p, content) => {
            let _ = fs::create_dir_all(at(p).parent().unwrap());
            let _ = fs::write(at(p), [*content; 4]);
        }
        Step::Overwrite(p, content) => {
            use std::os::unix::fs::FileExt;
            if let Ok(file) = fs::File::options().write(true).open(at(p)) {
                file.write_all_at(&[*content; 4], 0).unwrap();
            }
        }
        Step::Link(p, target) => {
            let _ = symlink(format!("../{target}"), at(p));
        }
        Step::Delete(p) => {
            let _ = fs::remove_file(at(p)).or_else(|_| fs::remove_dir_all(at(p)));
        }
        Step::Rename(a, b) => {
            let _ = fs::rename(at(a), at(b));
        }
        Step::Chmod(p, executable) => {
            if at(p).is_file() && !at(p).is_symlink() {
                fs::set_permissions(at(p), fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 }))
                    .unwrap();
            }
        }
        Step::MakeFolder(p) => {
            let _ = fs::create_dir_all(at(p));
        }
        Step::Snapshot => {
            let root = chat.snapshot();
            let model = on_disk(&folder);
            assert_eq!(chat.stored(&root), model, "the state is not what is on disk");
            states.push((root, model));
        }
        Step::Checkout(index) => {
            if !states.is_empty() {
                let (root, model) = index.get(states).clone();
                chat.materialise(&root);
                assert_eq!(on_disk(&folder), model, "the folder is not the state");
                assert!(!chat.workspace.is_torn().unwrap());
            }
        }
        Step::Reopen(save) => chat.reopen(*save),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_sequence_of_steps_equals_the_model(steps in proptest::collection::vec(step(), 1..40), watching in any::<bool>()) {
        let mut chat = if watching { Chat::watching() } else { Chat::new() };
        let mut states = Vec::new();
        for step in &steps {
            do_step(&mut chat, step, &mut states);
        }
        // At the end every state that was ever taken can be brought back.
        for (root, model) in states {
            chat.materialise(&root);
            prop_assert_eq!(on_disk(chat.workspace.path()), model);
        }
    }
}

#[test]
fn what_did_not_change_is_neither_read_nor_written() {
    let mut chat = Chat::new();
    for number in 0..50 {
        chat.write(&format!("f{number}"), &format!("content {number}"));
    }
    let first = chat.snapshot();
    chat.write("f7", "changed");
    let again = chat.workspace.snapshot(&chat.nodes).unwrap();
    chat.nodes.add(&again.tree.new_nodes).unwrap();
    assert_eq!(again.edits.keys().map(WorkPath::as_str).collect::<Vec<_>>(), ["f7"]);
    assert_eq!(chat.materialise(&first), Materialised { written: 1, removed: 0 });
    assert_eq!(chat.materialise(&first), Materialised::default());
    assert_eq!(chat.snapshot(), first);
}

/// The times of a file can stay the same when its content changes within one tick of the clock.
#[test]
fn a_change_within_one_tick_is_seen() {
    let mut chat = Chat::new();
    for round in 0..200_u32 {
        chat.write("f", &format!("{round:08}"));
        let before = chat.snapshot();
        chat.write("f", &format!("{:08}", round + 1_000_000));
        assert_ne!(chat.snapshot(), before, "in round {round}");
    }
}

#[test]
fn a_link_that_leads_out_is_kept_and_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let mut chat = Chat::new();
    symlink(outside.path(), chat.path("out")).unwrap();
    symlink("/etc/passwd", chat.path("passwd")).unwrap();
    chat.write("in", "x");
    let with = chat.snapshot();
    let stored = chat.stored(&with);
    assert_eq!(stored.keys().collect::<Vec<_>>(), ["in", "out", "passwd"]);
    assert_eq!(stored["passwd"], (Kind::Link, b"/etc/passwd".to_vec()));
    // A state that has a folder where the link is now must not be written through it.
    fs::remove_file(chat.path("out")).unwrap();
    chat.write("out/secret", "mine");
    let folder = chat.snapshot();
    chat.materialise(&with);
    chat.materialise(&folder);
    assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_to_string(chat.path("out/secret")).unwrap(), "mine");
}

#[test]
fn what_cannot_be_kept_is_named_and_never_opened() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut chat = Chat::new();
    chat.write("good", "x");
    let pipe = chat.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fs::write(chat.path("").join(OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    fs::create_dir(chat.path("").join(OsStr::from_bytes(b"folder\xfe"))).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(chat.path("socket")).unwrap();
    let snapshot = chat.workspace.snapshot(&chat.nodes).unwrap();
    chat.nodes.add(&snapshot.tree.new_nodes).unwrap();
    let mut named: Vec<_> = snapshot.warnings.iter().map(|warning| warning.path.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["bad\\xff", "folder\\xfe", "pipe", "socket"]);
    assert_eq!(chat.stored(&snapshot.tree.root).len(), 1);
    chat.materialise(&snapshot.tree.root);
    assert_eq!(on_disk(chat.workspace.path()).len(), 1, "the folder is the state and nothing else");
}

#[test]
fn large_files_and_many_files() {
    let mut chat = Chat::new();
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(chat.path("large"), &large).unwrap();
    for number in 0..1500 {
        chat.write(&format!("folder/{number}"), &format!("content {}", number % 100));
    }
    let root = chat.snapshot();
    assert_eq!(chat.workspace.blobs().list().unwrap().len(), 101, "equal files are one blob");
    let empty = tree_of_nothing(&mut chat);
    chat.materialise(&empty);
    assert!(on_disk(chat.workspace.path()).is_empty());
    chat.reopen(false);
    chat.materialise(&root);
    assert_eq!(fs::read(chat.path("large")).unwrap(), large);
    assert_eq!(on_disk(chat.workspace.path()).len(), 1501);
}

fn tree_of_nothing(chat: &mut Chat) -> ContentHash {
    let empty = crate::tree::build(&BTreeMap::new());
    chat.nodes.add(&empty.new_nodes).unwrap();
    empty.root
}

#[test]
fn a_damaged_blob_is_never_given_out() {
    let mut chat = Chat::new();
    chat.write("f", "content");
    let root = chat.snapshot();
    let hash = ContentHash::of(b"content").to_string();
    let blob = chat.home.path().join("blobs").join(&hash[..2]).join(&hash);
    assert_eq!(fs::metadata(&blob).unwrap().permissions().mode() & 0o777, 0o400, "blobs are read-only");
    fs::remove_file(&blob).unwrap();
    fs::write(&blob, "cantent").unwrap();
    let empty = tree_of_nothing(&mut chat);
    chat.materialise(&empty);
    let error = chat.workspace.materialise(&root, &chat.nodes).unwrap_err();
    assert!(matches!(error, CasError::Corrupt { .. }), "{error}");
    assert!(chat.workspace.is_torn().unwrap(), "the folder says that it is between two states");
    fs::remove_file(&blob).unwrap();
    let error = chat.workspace.materialise(&root, &chat.nodes).unwrap_err();
    assert!(matches!(error, CasError::Missing { .. }), "{error}");
    chat.materialise(&empty);
    assert!(!chat.workspace.is_torn().unwrap());
}

#[test]
fn a_workspace_that_is_too_large_is_refused() {
    let mut chat = Chat::new();
    chat.workspace.limits = Limits { entries: 2, bytes: 100 };
    chat.write("a", "x");
    chat.write("b", "x");
    chat.snapshot();
    chat.write("c", "x");
    let error = chat.workspace.snapshot(&chat.nodes).unwrap_err();
    assert!(matches!(error, CasError::Limit { what: "files", has: 3, most: 2 }), "{error}");
    fs::remove_file(chat.path("c")).unwrap();
    chat.write("b", &"x".repeat(200));
    assert!(matches!(chat.workspace.snapshot(&chat.nodes).unwrap_err(), CasError::Limit { what: "bytes", .. }));
    // What is too much already may become less.
    chat.workspace.limits = Limits { entries: 1, bytes: 1000 };
    chat.snapshot();
    fs::remove_file(chat.path("b")).unwrap();
    chat.snapshot();
}

#[test]
fn a_sweep_takes_what_nobody_wants_and_nothing_else() {
    let mut chat = Chat::new();
    for number in 0..40 {
        chat.write(&format!("f{number}"), &format!("old {number}"));
    }
    let old = chat.snapshot();
    for number in 0..30 {
        chat.write(&format!("f{number}"), &format!("new {number}"));
    }
    chat.write("single", "alone");
    let new = chat.snapshot();
    let live: std::collections::HashSet<ContentHash> =
        entries(&new, &chat.nodes).unwrap().iter().map(|(_, entry)| entry.hash).collect();
    let blobs = Arc::clone(chat.workspace.blobs());
    let swept = blobs.sweep(&|hash| live.contains(hash), std::time::Duration::from_secs(3600)).unwrap();
    assert_eq!(swept.blobs, 0, "what is young stays");
    let swept = blobs.sweep(&|hash| live.contains(hash), std::time::Duration::ZERO).unwrap();
    assert_eq!(swept.blobs, 30);
    let model = chat.stored(&new);
    chat.reopen(true);
    assert_eq!(chat.stored(&new), model);
    let error = chat.workspace.materialise(&old, &chat.nodes).unwrap_err();
    assert!(matches!(error, CasError::Missing { .. }), "{error}");
    chat.materialise(&new);
}

#[test]
fn care_finds_and_mends() {
    let mut chat = Chat::new();
    for number in 0..20 {
        chat.write(&format!("f{number}"), &format!("content {number}"));
    }
    let old = chat.snapshot();
    fs::remove_file(chat.path("f0")).unwrap();
    chat.write("large", &"x".repeat(300_000));
    let new = chat.snapshot();
    let needed = crate::care::needed(&[old, new], &chat.nodes);
    assert_eq!((needed.blobs.len(), needed.problems.len()), (21, 0));
    let blobs = Arc::clone(chat.workspace.blobs());
    assert!(crate::care::check_blobs(&needed.blobs, &*blobs).unwrap().is_empty());

    // One flipped bit in a loose blob, one in the pack.
    let large = ContentHash::of("x".repeat(300_000).as_bytes());
    let loose = chat.home.path().join("blobs").join(&large.to_string()[..2]).join(large.to_string());
    let flip = |path: &Path, at: usize| {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(path, bytes).unwrap();
    };
    flip(&loose, 1000);
    let pack = fs::read_dir(chat.home.path().join("packs")).unwrap().next().unwrap().unwrap().path();
    flip(&pack, 3);
    let bad = crate::care::check_blobs(&needed.blobs, &*blobs).unwrap();
    assert_eq!(bad.len(), 2);
    for hash in &bad {
        // The folder still has both files, unless the flipped one is the file that was deleted.
        let mended = chat.workspace.mend(hash).unwrap();
        assert_eq!(mended, *hash != ContentHash::of(b"content 0"));
    }
    chat.reopen(true);
    let blobs = Arc::clone(chat.workspace.blobs());
    let left = crate::care::check_blobs(&needed.blobs, &*blobs).unwrap();
    assert!(left.iter().all(|hash| *hash == ContentHash::of(b"content 0")));

    let half = NodeMap::default();
    let needed = crate::care::needed(&[old], &half);
    assert_eq!(needed.problems, [NodeError::Missing { hash: old }]);
}

/// With a watch, only what was touched is looked at: a file that was changed behind its back is not seen, which proves that
/// nobody looked.
#[test]
fn a_watch_spares_the_walk() {
    let mut chat = Chat::watching();
    for number in 0..30 {
        chat.write(&format!("folder/f{number}"), "x");
    }
    let first = chat.snapshot();
    chat.write("folder/f3", "changed");
    chat.write("new/deep/file", "new");
    fs::remove_file(chat.path("folder/f4")).unwrap();
    let changed = chat.workspace.look().unwrap().regions.expect("the watch is trusted");
    assert_eq!(changed.keys().map(String::as_str).collect::<Vec<_>>(), ["folder", "folder/f3", "folder/f4", "new"]);
    // What was heard is heard once; without a snapshot that used it, the next look must be a walk.
    chat.workspace.watch = None;
    let second = chat.snapshot();
    assert_eq!(chat.stored(&second), on_disk(chat.workspace.path()));
    chat.materialise(&first);
    assert_eq!(chat.snapshot(), first);
    chat.materialise(&second);
    assert_eq!(chat.stored(&second), on_disk(chat.workspace.path()));
}

/// A state that nobody kept must not be built on.
#[test]
fn a_forgotten_state_is_made_whole_again() {
    for mut chat in [Chat::new(), Chat::watching()] {
        for number in 0..100 {
            chat.write(&format!("f{number}"), &format!("{number}"));
        }
        let kept = chat.snapshot();
        chat.write("f1", "changed");
        let lost = chat.workspace.snapshot(&chat.nodes).unwrap().tree;
        chat.workspace.forget();
        chat.write("f2", "changed too");
        let root = chat.snapshot();
        assert!(root != kept && root != lost.root);
        assert_eq!(chat.stored(&root), on_disk(chat.workspace.path()));
        // An error on the way forgets by itself: the limit here comes after the events were heard.
        chat.write("f3", "changed as well");
        chat.write("one more", "");
        chat.workspace.limits.entries = 5;
        chat.workspace.snapshot(&chat.nodes).unwrap_err();
        chat.workspace.limits.entries = 1000;
        let root = chat.snapshot();
        assert_eq!(chat.stored(&root), on_disk(chat.workspace.path()));
    }
}

#[test]
fn what_is_ignored_is_neither_kept_nor_touched() {
    for mut chat in [Chat::new(), Chat::watching()] {
        chat.write(".kitbagignore", "*.log\n/build/\n!keep.log\n");
        for path in ["a.txt", "a.log", "keep.log", "build/x", "deep/build/x", "deep/b.log"] {
            chat.write(path, "x");
        }
        let first = chat.snapshot();
        let kept = |chat: &Chat, root| chat.stored(root).into_keys().collect::<Vec<_>>();
        assert_eq!(kept(&chat, &first), [".kitbagignore", "a.txt", "deep/build/x", "keep.log"]);
        chat.write("build/more/y", "x");
        chat.write("new.log", "x");
        assert_eq!(chat.snapshot(), first, "only ignored files changed");
        let empty = tree_of_nothing(&mut chat);
        chat.materialise(&empty);
        let left = on_disk(chat.workspace.path()).into_keys().collect::<Vec<_>>();
        assert_eq!(left, ["a.log", "build/more/y", "build/x", "deep/b.log", "new.log"]);
        // Without the file everything counts.
        let all = chat.snapshot();
        assert_eq!(chat.stored(&all), on_disk(chat.workspace.path()));
        // A state that has a file where an ignored one is.
        chat.write(".kitbagignore", "*.log\n");
        chat.write("a.log", "mine");
        let without = chat.snapshot();
        assert!(!chat.stored(&without).contains_key("a.log"));
        chat.materialise(&all);
        assert_eq!(fs::read_to_string(chat.path("a.log")).unwrap(), "x");
    }
}

/// Both names of a file change when one is written to, and only one of them is heard of.
#[test]
fn a_file_with_two_names_is_seen_under_both() {
    use std::os::unix::fs::FileExt;
    let mut chat = Chat::watching();
    chat.write("a", "one");
    fs::create_dir(chat.path("d")).unwrap();
    fs::hard_link(chat.path("a"), chat.path("d/b")).unwrap();
    chat.snapshot();
    fs::File::options().write(true).open(chat.path("a")).unwrap().write_all_at(b"two", 0).unwrap();
    let root = chat.snapshot();
    assert_eq!(chat.stored(&root), on_disk(chat.workspace.path()));
}

/// A killed process leaves no old knowledge behind.
#[test]
fn what_was_saved_is_used_once() {
    let mut chat = Chat::new();
    chat.write("f", "one");
    let first = chat.snapshot();
    chat.reopen(true);
    assert_eq!(chat.workspace.known_state(), Some(first));
    chat.write("f", "two");
    chat.snapshot();
    chat.reopen(false);
    assert_eq!(chat.workspace.known_state(), None);
}

/// A state that was taken and not kept has blobs that no manifest names; the next state relies on them.
#[test]
fn a_sweep_spares_what_the_next_state_relies_on() {
    let mut chat = Chat::new();
    chat.write("f", "content");
    std::thread::sleep(std::time::Duration::from_millis(30));
    chat.workspace.snapshot(&chat.nodes).unwrap();
    chat.workspace.forget();
    chat.workspace.sweep(&|_| false, std::time::Duration::ZERO).unwrap();
    let root = chat.snapshot();
    assert_eq!(chat.stored(&root), on_disk(chat.workspace.path()));
}

/// Whatever goes wrong on the way to another state, the folder is not taken for one that somebody made.
#[test]
fn a_change_of_state_that_fails_leaves_its_sign() {
    let mut chat = Chat::new();
    chat.write("f", "one");
    let here = chat.snapshot();
    let nowhere = ContentHash::of(b"a tree that nobody has");
    chat.workspace.materialise(&nowhere, &chat.nodes).unwrap_err();
    assert!(chat.workspace.is_torn().unwrap());
    chat.materialise(&here);
    assert!(!chat.workspace.is_torn().unwrap());
    assert_eq!(on_disk(chat.workspace.path()), chat.stored(&here));
}

/// After a power cut the folder may hold files that never reached the disk; the books decide.
#[test]
fn a_folder_that_was_in_use_when_the_machine_stopped_is_torn() {
    let mut chat = Chat::new();
    chat.write("f", "one");
    chat.snapshot();
    chat.reopen(false);
    assert!(!chat.workspace.is_torn().unwrap(), "a killed process is no power cut");
    fs::write(chat.home.path().join("in-use"), "another start of the machine").unwrap();
    chat.reopen(false);
    assert!(chat.workspace.is_torn().unwrap());
    let mut clean = Chat::new();
    clean.write("f", "one");
    clean.snapshot();
    clean.reopen(true);
    assert!(!clean.workspace.is_torn().unwrap());
}
