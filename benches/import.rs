//! Importing a large bundle against `unzip`, in one run: a ratio, and how much memory the server needed.
//!
//! `unzip` writes files and is done. An import checks the archive twice over, hashes every file, writes them, makes them
//! durable (`syncfs`), writes a row for each and answers: what it costs beside is what is measured. `unzip` followed by
//! `sync` stands beside it, so that durability can be told from the rest.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use kitbag_formats::archive::ArchiveWriter;

const FILES: usize = 10_000;
const SIZE: usize = 4096;
const ROUNDS: usize = 5;

/// A bundle of 10,000 files of 4 kB that pack to about half.
fn bundle(version: usize) -> Vec<u8> {
    let mut archive = ArchiveWriter::new(Vec::new());
    for number in 0..FILES {
        let mut seed = (number * 31 + version) as u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 59) as u8 + b'a'
        };
        let content: Vec<u8> = (0..SIZE).map(|_| next()).collect();
        let path = format!("assets/{:03}/{number:05}.txt", number / 100).parse().unwrap();
        archive.file(&path, false, &mut content.as_slice()).unwrap();
    }
    let manifest = format!("id: large\nname: Large\nversion: \"1.0.{version}\"\n");
    archive.file(&"toolset.yaml".parse().unwrap(), false, &mut manifest.as_bytes()).unwrap();
    archive.finish().unwrap()
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1000.0
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn serve(data: &Path) -> (Child, u64) {
    let binary = env!("CARGO_BIN_EXE_kitbag");
    let server = Command::new(binary)
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data"])
        .arg(data)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !data.join("server.json").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let idle = memory(&server);
    (server, idle)
}

/// The most memory that it ever used, in bytes.
fn memory(server: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (mut server, idle) = serve(&data);
    let (mut import, mut unzip, mut durable) = (Vec::new(), Vec::new(), Vec::new());
    let mut packed = 0;
    for round in 0..ROUNDS {
        let zip = folder.path().join(format!("{round}.zip"));
        let bytes = bundle(round);
        packed = bytes.len();
        fs::File::create(&zip).unwrap().write_all(&bytes).unwrap();
        let target = folder.path().join(format!("unzipped-{round}"));
        let mut unpack = Command::new("unzip");
        unpack.arg("-q").arg(&zip).arg("-d").arg(&target);
        let written = timed(|| assert!(unpack.status().expect("unzip is installed").success()));
        let synced = timed(|| assert!(Command::new("sync").arg("-f").arg(&target).status().unwrap().success()));
        unzip.push(written);
        durable.push(written + synced);
        import.push(timed(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kitbag"));
            command.args(["--json", "toolset", "import"]).arg(&zip).arg("--data").arg(&data).stdout(Stdio::null());
            assert!(command.status().unwrap().success());
        }));
    }
    let grown = memory(&server) - idle;
    server.kill().unwrap();
    server.wait().unwrap();
    let (import, unzip, durable) = (median(import), median(unzip), median(durable));
    println!("import of {FILES} files of {SIZE} bytes ({:.1} MB packed), median of {ROUNDS}", packed as f64 / 1e6);
    println!("  unzip            {unzip:8.0} ms");
    println!("  unzip, durable   {durable:8.0} ms");
    println!("  kitbag           {import:8.0} ms   {:.2} x unzip, {:.2} x durable", import / unzip, import / durable);
    println!("  memory           {:8.1} MB more than idle", grown as f64 / 1e6);
    let json = format!(
        "{{\"importMs\":{import:.1},\"unzipMs\":{unzip:.1},\"unzipDurableMs\":{durable:.1},\"ratioToUnzip\":{:.3},\"ratioToDurable\":{:.3},\"memoryBytes\":{grown}}}",
        import / unzip,
        import / durable
    );
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-import.json"), json).unwrap();
}
