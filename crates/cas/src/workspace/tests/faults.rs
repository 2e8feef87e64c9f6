//! The disk fails at every step of every operation, one after another: what was kept before is whole, nothing half-done is
//! taken for something, and doing it again succeeds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kitbag_model::ContentHash;

use super::{Chat, Limits, Model, Workspace, on_disk, tree_of_nothing};
use crate::blobs::LocalBlobs;
use crate::care;
use crate::error::CasError;
use crate::fault::{What, during};
use crate::tree::Kind;

const FAULTS: [What; 3] = [What::Full, What::Broken, What::Half];

/// A chat with states that were kept.
struct Scene {
    chat: Chat,
    kept: Vec<(ContentHash, Model)>,
    /// What the folder was before the operation, and is to be after it.
    before: Model,
    wanted: Option<Model>,
}

/// An operation on a scene.
struct Operation {
    name: &'static str,
    prepare: fn(&mut Scene),
    run: fn(&mut Scene) -> Result<(), CasError>,
    /// What the folder may be beside the old state and the new one.
    between: fn(&Scene) -> bool,
    /// What more must be so once it went well.
    then: fn(&mut Scene),
}

impl Scene {
    /// Two states: one of a few files, one of many, with everything that a state can hold.
    fn new(watching: bool) -> Self {
        let mut chat = if watching { Chat::watching() } else { Chat::new() };
        let mut kept = Vec::new();
        chat.write("few/a", "a");
        chat.write("few/b", "b");
        let root = chat.snapshot();
        kept.push((root, on_disk(chat.workspace.path())));
        for number in 0..12 {
            chat.write(&format!("many/{number}"), &format!("content {number}"));
        }
        fs::remove_file(chat.path("few/a")).unwrap();
        chat.write("large", &"large ".repeat(44_000));
        std::os::unix::fs::symlink("few/b", chat.path("link")).unwrap();
        fs::create_dir(chat.path("empty")).unwrap();
        let root = chat.snapshot();
        kept.push((root, on_disk(chat.workspace.path())));
        Self { chat, kept, before: Model::new(), wanted: None }
    }

    fn folder(&self) -> Model {
        on_disk(self.chat.workspace.path())
    }

    /// Nothing that was kept is lost, nothing in the store is half there, and nothing is left over.
    fn check_store(&self, what: &str) {
        let home = self.chat.home.path();
        let left: Vec<_> = fs::read_dir(home.join("tmp")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{what}: {left:?} was left over");
        let roots: Vec<ContentHash> = self.kept.iter().map(|(root, _)| *root).collect();
        let needed = care::needed(&roots, &self.chat.nodes);
        assert!(needed.problems.is_empty(), "{what}: {:?}", needed.problems);
        let fresh = LocalBlobs::open(home).unwrap();
        for blobs in [&**self.chat.workspace.blobs(), &fresh] {
            // Also those that nobody needs: what has a name is whole.
            let all: BTreeSet<ContentHash> = needed.blobs.iter().copied().chain(blobs.list().unwrap()).collect();
            let bad = care::check_blobs(&all, blobs).unwrap();
            assert!(bad.is_empty(), "{what}: {bad:?} is not whole");
        }
        check_packs(home, what);
    }
}

/// Every file in the folder of packs is a pack.
fn check_packs(home: &Path, what: &str) {
    for entry in fs::read_dir(home.join("packs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.ends_with(".pack"), "{what}: {name}");
    }
}

/// Lets the disk fail at every step of an operation, in every way.
fn at_every_step(operation: &Operation) -> usize {
    let name = operation.name;
    let scene = |watching| {
        let mut scene = Scene::new(watching);
        (operation.prepare)(&mut scene);
        scene.before = scene.folder();
        scene
    };
    let mut well = scene(true);
    let (steps, done) = during(What::Count, 0, || (operation.run)(&mut well));
    done.unwrap();
    (operation.then)(&mut well);
    assert!(steps > 0, "{name} has no steps");
    let mut failures = 0;
    for at in 1..=steps {
        for (which, fault) in FAULTS.into_iter().enumerate() {
            let what = format!("{name}, {fault:?} at step {at} of {steps}");
            let mut scene = scene((at + which) % 2 == 0);
            let (_, done) = during(fault, at, || (operation.run)(&mut scene));
            failures += usize::from(done.is_err());
            let now = scene.folder();
            let torn = scene.chat.workspace.is_torn().unwrap();
            let is_a_state = now == scene.before || scene.wanted.as_ref() == Some(&now);
            assert!(
                is_a_state || (operation.between)(&scene),
                "{what}: the folder is neither the old state nor the new one"
            );
            // Then it is done again: at once, or by the next process.
            if (at + which / 2) % 2 == 0 {
                scene.chat.reopen(false);
                assert_eq!(scene.chat.workspace.is_torn().unwrap(), torn, "{what}: a restart changes nothing");
            }
            if name != "mend" {
                scene.check_store(&what);
            }
            (operation.run)(&mut scene).unwrap_or_else(|error| panic!("{what}: again: {error}"));
            (operation.then)(&mut scene);
            scene.check_store(&what);
            if let Some(wanted) = &scene.wanted {
                assert_eq!(&scene.folder(), wanted, "{what}: done again");
            }
            // And every state can still be had.
            for (root, model) in scene.kept.clone() {
                scene.chat.materialise(&root);
                assert_eq!(scene.folder(), model, "{what}: a state that was kept");
            }
        }
    }
    assert!(failures >= steps, "{name}: only {failures} failures in {steps} steps");
    steps
}

/// Takes a state and keeps it, as one who keeps the books would.
fn snapshot(scene: &mut Scene) -> Result<(), CasError> {
    let taken = scene.chat.workspace.snapshot(&scene.chat.nodes)?;
    scene.chat.nodes.add(&taken.tree.new_nodes).unwrap();
    let model = scene.chat.stored(&taken.tree.root);
    scene.kept.push((taken.tree.root, model));
    Ok(())
}

fn last_state_is_the_folder(scene: &mut Scene) {
    assert_eq!(scene.kept.last().unwrap().1, scene.folder());
}

fn materialise_last(scene: &mut Scene) -> Result<(), CasError> {
    let (root, _) = scene.kept[1];
    scene.chat.workspace.materialise(&root, &scene.chat.nodes)?;
    scene.chat.workspace.settle()
}

fn is_settled(scene: &mut Scene) {
    assert!(!scene.chat.workspace.is_torn().unwrap());
}

fn nothing(_: &mut Scene) {}

#[test]
fn snapshot_of_a_few_files() {
    at_every_step(&Operation {
        name: "snapshot of a few",
        prepare: |scene| {
            scene.chat.write("few/new", "new");
            scene.chat.write("few/b", "changed");
        },
        run: snapshot,
        between: |_| false,
        then: last_state_is_the_folder,
    });
}

#[test]
fn snapshot_of_many_and_large_files() {
    at_every_step(&Operation {
        name: "snapshot of many",
        prepare: |scene| {
            for number in 0..10 {
                scene.chat.write(&format!("many/{number}"), &format!("changed {number}"));
            }
            scene.chat.write("large", &"larger ".repeat(44_000));
        },
        run: snapshot,
        between: |_| false,
        then: last_state_is_the_folder,
    });
}

#[test]
fn materialise_into_an_empty_folder() {
    at_every_step(&Operation {
        name: "materialise into nothing",
        prepare: |scene| {
            let empty = tree_of_nothing(&mut scene.chat);
            scene.chat.materialise(&empty);
            scene.wanted = Some(scene.kept[1].1.clone());
        },
        run: materialise_last,
        between: |scene| scene.chat.workspace.is_torn().unwrap(),
        then: is_settled,
    });
}

#[test]
fn materialise_over_other_files() {
    at_every_step(&Operation {
        name: "materialise over others",
        prepare: |scene| {
            let (root, _) = scene.kept[0];
            scene.chat.materialise(&root);
            scene.chat.write("few/stray", "nobody keeps me");
            // Files where folders are wanted, and the other way round.
            scene.chat.write("many", "in the way");
            scene.chat.write("large/in/the/way", "x");
            scene.wanted = Some(scene.kept[1].1.clone());
        },
        run: materialise_last,
        between: |scene| scene.chat.workspace.is_torn().unwrap(),
        then: is_settled,
    });
}

#[test]
fn write_file() {
    at_every_step(&Operation {
        name: "write_file",
        prepare: |scene| {
            let mut wanted = scene.folder();
            wanted.insert("new/deep/file".to_owned(), (Kind::File, b"written".to_vec()));
            scene.wanted = Some(wanted);
        },
        run: |scene| scene.chat.workspace.write_file(&"new/deep/file".parse().unwrap(), b"written"),
        // The folders above it may be there already, and empty.
        between: |scene| {
            let mut now = scene.folder();
            now.retain(|path, (kind, _)| *kind != Kind::Folder || scene.before.contains_key(path));
            now == scene.before
        },
        then: nothing,
    });
}

#[test]
fn sweep() {
    let steps = at_every_step(&Operation {
        name: "sweep",
        prepare: |scene| {
            // A loose blob and most of a pack that nobody wants.
            scene.chat.write("few/b", "forgotten");
            for number in 0..20 {
                scene.chat.write(&format!("forgotten/{number}"), &format!("forgotten {number}"));
            }
            scene.chat.write("forgotten/kept", "kept");
            scene.chat.snapshot();
            fs::remove_dir_all(scene.chat.path("forgotten")).unwrap();
            scene.chat.write("forgotten/kept", "kept");
            snapshot(scene).unwrap();
            fs::remove_file(scene.chat.path("few/b")).unwrap();
            snapshot(scene).unwrap();
            scene.wanted = Some(scene.folder());
        },
        run: |scene| {
            let roots: Vec<ContentHash> = scene.kept.iter().map(|(root, _)| *root).collect();
            let needed = care::needed(&roots, &scene.chat.nodes).blobs;
            scene.chat.workspace.sweep(&|hash| needed.contains(hash), Duration::ZERO).map(drop)
        },
        between: |_| false,
        then: |scene| {
            let left: BTreeSet<_> = scene.chat.workspace.blobs().list().unwrap().into_iter().collect();
            assert!(!left.contains(&ContentHash::of(b"forgotten 3")));
            assert!(left.contains(&ContentHash::of(b"kept")));
        },
    });
    assert!(steps > 5, "the pack was not written anew");
}

#[test]
fn mend() {
    at_every_step(&Operation {
        name: "mend",
        prepare: |scene| {
            for content in ["content 3", &"large ".repeat(44_000)] {
                damage(scene.chat.home.path(), content.as_bytes());
            }
        },
        run: |scene| {
            // The files must be known, also after a restart.
            scene.chat.workspace.snapshot(&scene.chat.nodes)?;
            let roots: Vec<ContentHash> = scene.kept.iter().map(|(root, _)| *root).collect();
            let needed = care::needed(&roots, &scene.chat.nodes).blobs;
            for hash in care::check_blobs(&needed, &**scene.chat.workspace.blobs())? {
                assert!(scene.chat.workspace.mend(&hash)?, "{hash} cannot be mended");
            }
            Ok(())
        },
        between: |_| false,
        then: nothing,
    });
}

/// Flips a bit of a blob, wherever it is.
fn damage(home: &Path, content: &[u8]) {
    use std::os::unix::fs::PermissionsExt;
    let hash = ContentHash::of(content);
    let loose = home.join("blobs").join(&hash.to_string()[..2]).join(hash.to_string());
    let packs = fs::read_dir(home.join("packs")).unwrap().map(|entry| entry.unwrap().path());
    for path in packs.chain(loose.exists().then_some(loose)) {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(content.len()).position(|part| part == content) {
            bytes[at] ^= 1;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            fs::write(&path, bytes).unwrap();
            return;
        }
    }
    panic!("{hash} is not in the store");
}

#[test]
fn save() {
    at_every_step(&Operation {
        name: "save",
        prepare: |scene| scene.wanted = Some(scene.folder()),
        run: |scene| scene.chat.workspace.save(),
        between: |_| false,
        then: |scene| {
            scene.chat.reopen(false);
            let root = scene.kept[1].0;
            assert!(scene.chat.workspace.known_state().is_none_or(|known| known == root));
            assert_eq!(scene.chat.snapshot(), root);
        },
    });
}

/// Opening makes folders and marks, and uses up what was saved.
#[test]
fn open() {
    for is_new in [true, false] {
        let scene = || {
            let mut scene = Scene::new(false);
            scene.chat.workspace.save().unwrap();
            if is_new {
                scene.chat = Chat::new();
            }
            // It is let go: only one can have it.
            let elsewhere = tempfile::tempdir().unwrap();
            scene.chat.workspace = super::open(elsewhere.path());
            if is_new {
                fs::remove_dir_all(scene.chat.home.path()).unwrap();
            }
            scene
        };
        let open = |home: &Path| Workspace::open(home, Arc::new(LocalBlobs::open(home)?), Limits::default());
        let well = scene();
        let (steps, opened) = during(What::Count, 0, || open(well.chat.home.path()));
        opened.unwrap();
        for at in 1..=steps {
            for fault in FAULTS {
                let what = format!("open, {fault:?} at step {at} of {steps}");
                let mut scene = scene();
                let failed = during(fault, at, || open(scene.chat.home.path()).map(drop)).1;
                scene.chat.workspace = open(scene.chat.home.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(failed.is_err() || fault == What::Full, "{what}: went well");
                assert!(!scene.chat.workspace.is_torn().unwrap());
                let root = scene.chat.snapshot();
                if !is_new {
                    assert_eq!(root, scene.kept[1].0);
                    scene.check_store(&what);
                }
                assert_eq!(scene.chat.stored(&root), scene.folder());
            }
        }
    }
}
