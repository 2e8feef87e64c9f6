//! Workspaces with blobs in a bucket against blobs in the folder, side by side in one run: the first snapshot, one change, and laying a state out with
//! copies here (warm) and without (cold). Prints ratios to the folder; the S3 server is a real one on this machine, so that the network between is not in them.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kitbag_cas::blobs::{Blobs, Cache, Depot, DistantBlobs, LocalBlobs};
use kitbag_cas::tree::NodeMap;
use kitbag_cas::workspace::{Limits, Workspace};
use kitbag_model::ContentHash;
use kitbag_testkit::TestBucket;

const SHAPES: [(&str, usize, usize); 3] =
    [("1,000 x 4 kB", 1000, 4096), ("10,000 x 4 kB", 10_000, 4096), ("10 x 20 MB", 10, 20 << 20)];

/// In milliseconds.
#[derive(Clone, Copy)]
struct Times {
    full: f64,
    one: f64,
    warm: f64,
    cold: f64,
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    let done = work();
    (done, began.elapsed().as_secs_f64() * 1e3)
}

fn fill(folder: &Path, files: usize, size: usize) {
    for number in 0..files {
        let path = folder.join(format!("folder-{:03}", number % 100));
        fs::create_dir_all(&path).unwrap();
        let mut state = number as u64;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33).to_le_bytes()
        })
        .flatten()
        .take(size)
        .collect();
        fs::write(path.join(format!("{number}.bin")), bytes).unwrap();
    }
    rustix::fs::sync();
    std::thread::sleep(std::time::Duration::from_millis(30));
}

fn measure(files: usize, size: usize, open: &dyn Fn(&Path) -> Arc<dyn Blobs>) -> Times {
    let (home, nodes) = (tempfile::tempdir().unwrap(), NodeMap::default());
    let mut workspace = Workspace::open(home.path(), open(home.path()), Limits::default()).unwrap();
    fill(workspace.path(), files, size);
    let keep = |workspace: &mut Workspace| -> ContentHash {
        let tree = workspace.snapshot(&nodes).unwrap().tree;
        nodes.add(&tree.new_nodes).unwrap();
        tree.root
    };
    let (_, full) = timed(|| keep(&mut workspace));
    fs::write(workspace.path().join("one-more.txt"), "one more").unwrap();
    let (root, one) = timed(|| keep(&mut workspace));
    let lay_out = |blobs: Arc<dyn Blobs>| {
        let elsewhere = tempfile::tempdir().unwrap();
        let mut other = Workspace::open(elsewhere.path(), blobs, Limits::default()).unwrap();
        timed(|| other.materialise(&root, &nodes).and_then(|_| other.settle()).unwrap()).1
    };
    let warm = lay_out(Arc::clone(workspace.blobs()));
    let bare = tempfile::tempdir().unwrap();
    // A folder has no other place that the bytes could come from.
    let distant = open(bare.path());
    let cold = if distant.generation().is_some() { lay_out(distant) } else { lay_out(open(home.path())) };
    Times { full, one, warm, cold }
}

/// The best of three: what else the machine does only ever adds.
fn best(run: impl Fn() -> Times) -> Times {
    let runs: Vec<Times> = (0..3).map(|_| run()).collect();
    let least = |pick: fn(&Times) -> f64| runs.iter().map(pick).fold(f64::INFINITY, f64::min);
    Times { full: least(|t| t.full), one: least(|t| t.one), warm: least(|t| t.warm), cold: least(|t| t.cold) }
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bucket = {
        let _inside = runtime.enter();
        TestBucket::new().open()
    };
    println!(
        "{:16} {:8} {:>20} {:>20} {:>20} {:>20}",
        "", "", "first snapshot", "one change", "laid out, warm", "laid out, cold"
    );
    let mut json = Vec::new();
    for (name, files, size) in SHAPES {
        let local = best(|| measure(files, size, &|home| Arc::new(LocalBlobs::open(home).unwrap())));
        let distant = best(|| {
            let place = Arc::new(bucket.folder(&format!(
                "orgs/bench/chats/{}",
                tempfile::tempdir().unwrap().path().file_name().unwrap().display()
            )));
            measure(files, size, &|home| {
                let cache = Arc::new(Cache::new(home.to_owned(), 100 << 30));
                Arc::new(DistantBlobs::open(home, Arc::clone(&place) as Arc<dyn Depot>, cache, 0).unwrap())
            })
        });
        for (who, times) in [("folder", local), ("bucket", distant)] {
            let cell = |ms: f64, to: f64| format!("{ms:.1} ms {:6.2}", ms / to);
            println!(
                "{name:16} {who:8} {:>20} {:>20} {:>20} {:>20}",
                cell(times.full, local.full),
                cell(times.one, local.one),
                cell(times.warm, local.warm),
                cell(times.cold, local.cold)
            );
            json.push(format!(
                r#"{{"shape":"{name}","who":"{who}","full":{:.3},"one":{:.3},"warm":{:.3},"cold":{:.3}}}"#,
                times.full, times.one, times.warm, times.cold
            ));
        }
    }
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-bucket.json");
    fs::create_dir_all(out.parent().unwrap()).unwrap();
    fs::write(out, format!("[{}]\n", json.join(",\n"))).unwrap();
}
