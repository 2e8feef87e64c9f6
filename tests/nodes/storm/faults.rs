//! What breaks: nodes and machines are killed and paused, the database crashes or says nothing, the bucket is out of reach.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kitbag_testkit::cluster::Cluster;
use kitbag_testkit::{Gate, Server};
use rustix::process::Signal;
use tokio::sync::{Mutex, RwLock};
use tokio::time::sleep;

use super::dice::Dice;
use super::load::Said;
use super::machines::Machine;
use crate::kit::{Installation, until};

/// All that can break, and how it is started again.
pub(crate) struct Parts {
    // First: what they logged is below the folders of the installation, and is shown when a test fails.
    pub(crate) nodes: Vec<Mutex<Server>>,
    pub(crate) machines: Vec<Mutex<Machine>>,
    pub(crate) installation: Installation,
    pub(crate) ports: Vec<u16>,
    pub(crate) cluster: Cluster,
    pub(crate) gate: Gate,
    /// Nobody is started while the database or the bucket is away: a server that finds neither says so and ends.
    pub(crate) is_up: RwLock<()>,
    /// What clients were told.
    pub(crate) said: Arc<Said>,
}

/// What happens to a node.
#[derive(Clone, Copy)]
enum Fault {
    Kill,
    /// It sleeps until another has said that it is dead.
    LongPause,
    /// It sleeps for about as long as its lease. Whatever else breaks meanwhile may keep the others from saying so.
    Pause,
}

/// What one process was seen to use at the most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    pub(crate) files: usize,
    pub(crate) kilobytes: u64,
}

/// If a process has so many open files, it is told which.
const MANY: usize = 200;

/// How many there are of which kind: `socket`, `pipe`, or what a path ends with.
fn kinds(open: &[PathBuf]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for path in open {
        let text = path.to_string_lossy();
        let kind = text.split_once(':').map_or_else(|| text.rsplit('/').next().unwrap_or_default(), |(kind, _)| kind);
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

/// Starts a node behind its port.
pub(crate) fn start(installation: &Installation, node: usize, port: u16) -> Server {
    let listen = format!("127.0.0.1:{port}");
    installation.start(node, &["--listen", &listen, "--executor-lease-seconds", "4", "--strict-records"])
}

impl Parts {
    /// Nodes are killed, and paused for longer than their lease: each once a round and one of them twice, one at a time.
    pub(crate) async fn break_nodes(&self, mut dice: Dice, rounds: u64) {
        for _ in 0..rounds {
            let third = if dice.within(0..2) == 0 { Fault::Kill } else { Fault::Pause };
            let mut faults = [Fault::Kill, Fault::LongPause, third];
            dice.shuffle(&mut faults);
            for fault in faults {
                sleep(Duration::from_millis(dice.within(300..1500))).await;
                self.work().await;
                let which = dice.within(0..self.nodes.len() as u64) as usize;
                let pause = Duration::from_millis(dice.within(0..1000));
                let mut node = self.nodes[which].lock().await;
                match fault {
                    Fault::Kill => {
                        println!("node {which} is killed");
                        node.signal(Signal::KILL);
                        node.wait();
                        sleep(pause).await;
                        let _up = self.is_up.read().await;
                        *node = tokio::task::block_in_place(|| start(&self.installation, which, self.ports[which]));
                    }
                    Fault::LongPause => {
                        println!("node {which} is paused until it is dead");
                        let _up = self.is_up.read().await;
                        let database = &self.installation.database;
                        let id = until("it is a node", async || database.node_at(self.ports[which]).await).await;
                        node.signal(Signal::STOP);
                        let is_dead = async || (!database.has_node(&id).await).then_some(());
                        until("the others say that it is dead", is_dead).await;
                        sleep(pause).await;
                        node.signal(Signal::CONT);
                    }
                    Fault::Pause => {
                        println!("node {which} is paused");
                        node.signal(Signal::STOP);
                        sleep(Duration::from_millis(2500) + 2 * pause).await;
                        node.signal(Signal::CONT);
                    }
                }
                println!("node {which} is back");
            }
        }
    }

    /// Waits until clients were told again that something was done: only then there is something to lose.
    async fn work(&self) {
        let before = self.said.done.load(Ordering::SeqCst);
        until("there is work", async || (self.said.done.load(Ordering::SeqCst) > before + 5).then_some(())).await;
    }

    /// Everything else breaks once a round, in another order each time.
    pub(crate) async fn break_the_rest(&self, mut dice: Dice, rounds: u64) {
        for _ in 0..rounds {
            let mut faults = ["machine", "silent machine", "database", "silent database", "bucket"];
            dice.shuffle(&mut faults);
            for fault in faults {
                sleep(Duration::from_millis(dice.within(500..2500))).await;
                self.work().await;
                let away = Duration::from_millis(dice.within(300..3000));
                println!("{fault} is broken for {away:?}");
                match fault {
                    "machine" => {
                        let mut machine = self.machines[dice.within(0..2) as usize].lock().await;
                        machine.kill();
                        sleep(away).await;
                        machine.start();
                    }
                    "silent machine" => {
                        let machine = self.machines[dice.within(0..2) as usize].lock().await;
                        machine.signal(Signal::STOP);
                        // Long enough to be given up, most times.
                        sleep(Duration::from_secs(2) + away).await;
                        machine.signal(Signal::CONT);
                    }
                    "silent database" => {
                        let _down = self.is_up.write().await;
                        let paused = tokio::task::block_in_place(|| self.cluster.pause());
                        sleep(Duration::from_secs(2) + away).await;
                        drop(paused);
                    }
                    "database" => {
                        let _down = self.is_up.write().await;
                        tokio::task::block_in_place(|| self.cluster.kill());
                        sleep(away).await;
                        tokio::task::block_in_place(|| self.cluster.revive());
                    }
                    _ => {
                        let _down = self.is_up.write().await;
                        self.gate.shut();
                        sleep(away).await;
                        self.gate.open();
                    }
                }
            }
        }
    }

    /// What each node and each machine uses now.
    pub(crate) async fn used(&self) -> Vec<Use> {
        let (mut all, mut pids) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            pids.push(node.lock().await.pid());
        }
        for machine in &self.machines {
            pids.extend(machine.lock().await.pid());
        }
        for pid in pids {
            let home = std::path::PathBuf::from(format!("/proc/{pid}"));
            let open = std::fs::read_dir(home.join("fd")).into_iter().flatten().flatten();
            let open: Vec<_> = open.filter_map(|file| std::fs::read_link(file.path()).ok()).collect();
            let files = open.len();
            if files > MANY {
                println!("{pid} has {files} open files: {:?}", kinds(&open));
            }
            let status = std::fs::read_to_string(home.join("status")).unwrap_or_default();
            let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let memory = memory.and_then(|text| text.split_whitespace().next()?.parse().ok());
            all.push(Use { files, kilobytes: memory.unwrap_or(0) });
        }
        all
    }

    /// Processes that have to do with a node or a machine, by their arguments, their mounts or the folder that they are in.
    pub(crate) async fn processes(&self) -> Vec<String> {
        let mut folders: Vec<String> =
            (0..self.installation.nodes()).map(|node| self.installation.folder(node).display().to_string()).collect();
        for machine in &self.machines {
            folders.push(machine.lock().await.path().display().to_string());
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let path = entry.path();
            if entry.file_name().to_string_lossy().parse().is_ok_and(|pid: u32| pid != std::process::id()) {
                let text = |name: &str| {
                    String::from_utf8_lossy(&std::fs::read(path.join(name)).unwrap_or_default()).replace('\0', " ")
                };
                let at = std::fs::read_link(path.join("cwd")).unwrap_or_default();
                let all = format!("{} {} {} {}", text("cmdline"), text("environ"), text("mountinfo"), at.display());
                if folders.iter().any(|folder| all.contains(folder)) {
                    found.push(format!("{} {}", entry.file_name().display(), text("cmdline")));
                }
            }
        }
        found
    }
}
