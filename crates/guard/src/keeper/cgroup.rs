//! A limit for everything inside together: however many processes a tool makes, the machine keeps room for the server.
//!
//! Each process has its own limits, and each chat a number of processes; this is for all of them at once. Where the machine
//! has no control groups, or does not let us make one, there is none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// The most processes inside.
const PROCESSES: u64 = 8192;

/// Groups that were made. They go when this is dropped and they are empty.
pub(super) struct Groups(Vec<PathBuf>);

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.0 {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Puts a process, and all that come from it, into groups of their own. None if memory cannot be limited.
pub(super) fn confine(pid: Pid) -> Option<Groups> {
    let memory = total_memory()? / 4 * 3;
    let limits = [("memory", memory), ("pids", PROCESSES)];
    let mut groups = Groups(Vec::new());
    for (controller, most) in limits {
        let (parent, file) = place(controller)?;
        clear(&parent);
        let folder = parent.join(format!("kitbag-{}", std::process::id()));
        fs::create_dir(&folder).or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) }).ok()?;
        if !groups.0.contains(&folder) {
            groups.0.push(folder.clone());
        }
        fs::write(folder.join(file), most.to_string()).ok()?;
        fs::write(folder.join("cgroup.procs"), pid.as_raw_nonzero().to_string()).ok()?;
    }
    Some(groups)
}

/// Where groups of a controller are made, and the file that limits one.
fn place(controller: &str) -> Option<(PathBuf, &'static str)> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path_of = |line: &str| line.splitn(3, ':').nth(2).map(|path| path.trim_start_matches('/').to_owned());
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").exists() {
        let own = own.lines().find(|line| line.starts_with("0::")).and_then(path_of)?;
        return Some((root.join(own), if controller == "memory" { "memory.max" } else { "pids.max" }));
    }
    let has = |line: &&str| line.split(':').nth(1).is_some_and(|names| names.split(',').any(|name| name == controller));
    let own = own.lines().find(has).and_then(path_of)?;
    let file = if controller == "memory" { "memory.limit_in_bytes" } else { "pids.max" };
    Some((root.join(controller).join(own), file))
}

/// Removes the groups of keepers that were killed. One that is in use cannot be removed.
fn clear(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("kitbag-")) {
        let _: io::Result<()> = fs::remove_dir(entry.path());
    }
}

fn total_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
