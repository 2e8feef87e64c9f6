//! Workspaces against git, the plain way (clear and copy everything, walk and hash everything) and `cp -r`, side by side
//! in one run. Prints ratios to git; absolute times vary by the hour and are only there to judge the ratios by.
//!
//! Every state is durable before the clock stops on our side: blobs and tree nodes are synced.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kitbag_cas::blobs::LocalBlobs;
use kitbag_cas::tree::NodeMap;
use kitbag_cas::workspace::{Limits, Workspace};
use kitbag_model::ContentHash;
use tempfile::TempDir;

/// All folders of a run, removed at its end: ext4 looks for a free inode for a long time after many were freed, and
/// whoever creates files next would pay for it.
static HOMES: Mutex<Vec<TempDir>> = Mutex::new(Vec::new());

fn home() -> PathBuf {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_owned();
    HOMES.lock().unwrap().push(home);
    path
}

struct Shape {
    name: &'static str,
    files: usize,
    folders: usize,
    size: usize,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "A 1,000 x 4 kB", files: 1000, folders: 20, size: 4096 },
    Shape { name: "B 10,000 x 4 kB", files: 10_000, folders: 100, size: 4096 },
    Shape { name: "C 50,000 x 4 kB", files: 50_000, folders: 2000, size: 4096 },
    Shape { name: "D 20 x 50 MB", files: 20, folders: 1, size: 50 << 20 },
];

/// The four operations, in milliseconds.
#[derive(Clone, Copy, Default)]
struct Times {
    full: f64,
    one: f64,
    materialise: f64,
    switch: f64,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let mut json = Vec::new();
    println!(
        "{:18} {:10} {:>18} {:>18} {:>18} {:>18}",
        "", "", "first snapshot", "one change", "materialise", "switch"
    );
    for shape in SHAPES
        .iter()
        .filter(|shape| wanted.is_empty() || wanted.iter().any(|name| shape.name.starts_with(name.as_str())))
    {
        let git = best(|| git(shape));
        for (who, times) in [
            ("git", git),
            ("kitbag", best(|| kitbag(shape, false))),
            ("+ watch", best(|| kitbag(shape, true))),
            ("plain way", best(|| plain(shape))),
            ("cp -r", best(|| copy(shape))),
        ] {
            let cell =
                |ms: f64, git: f64| if ms == 0.0 { String::new() } else { format!("{ms:.1} ms {:6.3}", ms / git) };
            println!(
                "{:18} {who:10} {:>18} {:>18} {:>18} {:>18}",
                shape.name,
                cell(times.full, git.full),
                cell(times.one, git.one),
                cell(times.materialise, git.materialise),
                cell(times.switch, git.switch)
            );
            json.push(format!(
                r#"{{"shape":"{}","who":"{who}","full":{:.3},"one":{:.3},"materialise":{:.3},"switch":{:.3}}}"#,
                shape.name, times.full, times.one, times.materialise, times.switch
            ));
        }
    }
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-workspace.json");
    fs::create_dir_all(out.parent().unwrap()).unwrap();
    fs::write(out, format!("[{}]\n", json.join(",\n"))).unwrap();
    HOMES.lock().unwrap().clear();
}

/// The best of three of each operation: what else the machine does only ever adds.
fn best(run: impl Fn() -> Times) -> Times {
    let runs: Vec<Times> = (0..3).map(|_| run()).collect();
    let least = |pick: fn(&Times) -> f64| runs.iter().map(pick).fold(f64::INFINITY, f64::min);
    Times {
        full: least(|t| t.full),
        one: least(|t| t.one),
        materialise: least(|t| t.materialise),
        switch: least(|t| t.switch),
    }
}

fn timed<T>(into: &mut f64, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    *into = began.elapsed().as_secs_f64() * 1e3;
    done
}

fn name(shape: &Shape, number: usize) -> String {
    format!("folder-{:04}/file-{number:05}.txt", number % shape.folders)
}

/// Content that is different in every file and does not compress to nothing.
fn content(shape: &Shape, number: usize, version: u64) -> Vec<u8> {
    let mut state = number as u64 * 0x9e37_79b9_7f4a_7c15 + version;
    let mut bytes = Vec::with_capacity(shape.size);
    while bytes.len() < shape.size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend((state >> 32).to_string().bytes());
    }
    bytes.truncate(shape.size);
    bytes
}

fn fill(folder: &Path, shape: &Shape) {
    for number in 0..shape.files {
        let path = folder.join(name(shape, number));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content(shape, number, 0)).unwrap();
    }
    // What was just written must not be synced on somebody's clock, nor look as if it could change unseen.
    rustix::fs::sync();
    std::thread::sleep(std::time::Duration::from_millis(30));
}

fn change_one(folder: &Path, shape: &Shape) {
    fs::write(folder.join(name(shape, shape.files / 2)), content(shape, shape.files / 2, 1)).unwrap();
}

fn kitbag(shape: &Shape, watching: bool) -> Times {
    let home = home();
    let mut times = Times::default();
    let nodes = NodeMap::default();
    let mut log = File::create(home.join("nodes")).unwrap();
    let open = || {
        let blobs = Arc::new(LocalBlobs::open(&home).unwrap());
        Workspace::open(&home, blobs, Limits::default()).unwrap()
    };
    let mut workspace = open();
    if watching {
        workspace.watch();
    }
    fill(workspace.path(), shape);
    let mut snapshot = |workspace: &mut Workspace| {
        let tree = workspace.snapshot(&nodes).unwrap().tree;
        // In place of the database: the nodes are written and synced.
        tree.new_nodes.iter().for_each(|(_, bytes)| log.write_all(bytes).unwrap());
        log.sync_data().unwrap();
        nodes.add(&tree.new_nodes).unwrap();
        tree.root
    };
    let first = timed(&mut times.full, || snapshot(&mut workspace));
    change_one(workspace.path(), shape);
    let second = timed(&mut times.one, || snapshot(&mut workspace));
    timed(&mut times.switch, || workspace.materialise(&first, &nodes).and_then(|_| workspace.settle()).unwrap());
    // Another folder for the same blobs.
    let mut other = Workspace::open(&self::home(), Arc::clone(workspace.blobs()), Limits::default()).unwrap();
    rustix::fs::sync();
    timed(&mut times.materialise, || other.materialise(&second, &nodes).and_then(|_| other.settle()).unwrap());
    times
}

fn git(shape: &Shape) -> Times {
    let home = home();
    let (work, out) = (home.join("work"), home.join("out"));
    fs::create_dir_all(&work).unwrap();
    fs::create_dir_all(&out).unwrap();
    let run = |args: &[&str]| {
        let done =
            Command::new("git").args(args).current_dir(&work).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    run(&["init", "-q", "."]);
    run(&["config", "gc.auto", "0"]);
    fill(&work, shape);
    let mut times = Times::default();
    let state = || {
        run(&["add", "-A"]);
        run(&["write-tree"])
    };
    let commit = |tree: &str| run(&["-c", "user.name=x", "-c", "user.email=x", "commit-tree", "-m", "x", tree]);
    let first = commit(&timed(&mut times.full, state));
    change_one(&work, shape);
    let second = commit(&timed(&mut times.one, state));
    run(&["checkout", "-q", &second]);
    timed(&mut times.switch, || run(&["checkout", "-q", &first]));
    rustix::fs::sync();
    let prefix = format!("{}/", out.display());
    timed(&mut times.materialise, || run(&["checkout-index", "-a", "-f", &format!("--prefix={prefix}")]));
    times
}

/// As the source document has it: every blob a file, everything hashed, everything cleared and copied.
fn plain(shape: &Shape) -> Times {
    let home = home();
    let (work, blobs) = (home.join("work"), home.join("blobs"));
    fs::create_dir_all(&work).unwrap();
    fill(&work, shape);
    let path_of = |hash: &ContentHash| blobs.join(&hash.to_string()[..2]).join(hash.to_string());
    let snapshot = || {
        let mut manifest: BTreeMap<PathBuf, ContentHash> = BTreeMap::new();
        let mut folders = vec![work.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                let bytes = fs::read(entry.path()).unwrap();
                let hash = ContentHash::of(&bytes);
                let target = path_of(&hash);
                if !target.exists() {
                    fs::create_dir_all(target.parent().unwrap()).unwrap();
                    fs::write(target, bytes).unwrap();
                }
                manifest.insert(entry.path().strip_prefix(&work).unwrap().to_owned(), hash);
            }
        }
        manifest
    };
    let materialise = |manifest: &BTreeMap<PathBuf, ContentHash>| {
        fs::remove_dir_all(&work).unwrap();
        for (path, hash) in manifest {
            let target = work.join(path);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(path_of(hash), target).unwrap();
        }
    };
    let mut times = Times::default();
    let first = timed(&mut times.full, snapshot);
    change_one(&work, shape);
    let second = timed(&mut times.one, snapshot);
    timed(&mut times.switch, || materialise(&first));
    fs::remove_dir_all(&work).unwrap();
    fs::create_dir_all(&work).unwrap();
    timed(&mut times.materialise, || materialise(&second));
    times
}

fn copy(shape: &Shape) -> Times {
    let home = home();
    fill(&home.join("work"), shape);
    let mut times = Times::default();
    timed(&mut times.materialise, || {
        assert!(Command::new("cp").args(["-r", "work", "copy"]).current_dir(&home).status().unwrap().success());
    });
    times
}
