//! Finding a child's descendants in `/proc`, wherever they hid.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How often orphans are looked for before we give up.
const ORPHAN_ROUNDS: usize = 100;

/// A child and all that it started.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub leader: Pid,
    /// `NAME=value`, as it is in their environment.
    pub mark: Vec<u8>,
}

/// What is known of one process.
struct Known {
    pid: i32,
    parent: i32,
    session: i32,
    dead: bool,
}

impl Family {
    /// All that are alive, the leader included.
    pub async fn members(&self) -> Vec<Pid> {
        let family = self.clone();
        // Some hundred small files: not for a thread that serves others.
        tokio::task::spawn_blocking(move || family.members_now()).await.unwrap_or_default()
    }

    /// Sends all of them a signal; says how many there were.
    pub async fn signal(&self, signal: Signal) -> usize {
        let members = self.members().await;
        send(&members, signal);
        members.len()
    }

    /// The same, at once.
    pub fn signal_now(&self, signal: Signal) {
        send(&self.members_now(), signal);
    }

    fn members_now(&self) -> Vec<Pid> {
        let (us, leader) = (std::process::id().cast_signed(), self.leader.as_raw_pid());
        let all: Vec<Known> = processes().filter(|process| process.pid != us).collect();
        // When the leader is gone its number may be another's; a new session with that number is then not our affair.
        let replaced = all.iter().any(|process| process.pid == leader && !process.dead && !self.marks(leader));
        let mut found: HashSet<i32> = all
            .iter()
            .filter(|process| (process.session == leader && !replaced) || self.marks(process.pid))
            .map(|process| process.pid)
            .collect();
        loop {
            let before = found.len();
            let children = all.iter().filter(|process| found.contains(&process.parent));
            let more: Vec<i32> = children.map(|process| process.pid).collect();
            found.extend(more);
            if found.len() == before {
                break;
            }
        }
        let alive = all.iter().filter(|process| !process.dead && found.contains(&process.pid));
        alive.filter_map(|process| Pid::from_raw(process.pid)).collect()
    }

    fn marks(&self, pid: i32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == self.mark)
    }
}

/// Kills whatever a process of ours that was killed left alive below a folder: it has our mark, and its home or its working folder is
/// there. How many there were.
pub(super) fn end_orphans(mark: &str, below: &Path) -> usize {
    let us = std::process::id().cast_signed();
    let mark = format!("{mark}=").into_bytes();
    let is_left = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let home = || environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"HOME="));
        variables.any(|variable| variable.starts_with(&mark))
            && (home().is_some_and(|home| Path::new(OsStr::from_bytes(home)).starts_with(below))
                || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder.starts_with(below)))
    };
    let mut ended = HashSet::new();
    for _ in 0..ORPHAN_ROUNDS {
        let left: Vec<Pid> = processes()
            .filter(|process| process.pid != us && !process.dead && is_left(process.pid))
            .filter_map(|process| Pid::from_raw(process.pid))
            .collect();
        if left.is_empty() {
            break;
        }
        send(&left, Signal::KILL);
        ended.extend(left);
        // Each round catches what was forked during the one before.
        std::thread::sleep(Duration::from_millis(10));
    }
    ended.len()
}

fn send(members: &[Pid], signal: Signal) {
    for pid in members {
        // One that is gone already is as good as one that goes now.
        let _ = kill_process(*pid, signal);
    }
}

fn processes() -> impl Iterator<Item = Known> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold anything, so the fields are counted from its last parenthesis: state, parent, group, session.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let dead = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        Some(Known { pid, parent, session, dead })
    })
}
