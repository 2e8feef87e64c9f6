//! Everything at once, and all of it breaks: three nodes behind a balancer on a PostgreSQL that crashes and hangs and a bucket that goes away, two
//! machines that run agents, an MCP server whose process is now one node's and now another's, clients that never stop. What was acknowledged is there, once.
//!
//! `KITBAG_STORM_ROUNDS` says how long, `KITBAG_STORM_SEED` repeats the faults of another time.

mod checks;
mod dice;
mod faults;
mod load;
mod machines;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kitbag_testkit::cluster::Cluster;
use kitbag_testkit::{Gate, Server, TestBucket, TestDatabase};
use rustix::process::Signal;
use tokio::sync::{Mutex, RwLock};

use crate::balancer::{Balancer, free_port};
use crate::kit::{Installation, import, new_chat, until};
use crate::servers::{Notes, SERVERS};
use dice::Dice;
use faults::{Parts, Use, start};
use load::{Client, Said};
use machines::Machine;

const NODES: usize = 3;
const CHATS: usize = 3;

/// More than nodes of this size ever need: what grows without an end comes here soon.
const MOST: Use = Use { files: 600, kilobytes: 400 << 10 };

/// More open files than one needs when it is over. Connections that many asked over at once, or that broke, are gone then.
const MOST_AT_REST: usize = 200;

/// Appends a line with its number and its time, which is that of the machine, so that it says whether another was at work.
const TOOL: &str = r#"
import fcntl, time
from pathlib import Path
from covalt_toolset import tool, get_context

@tool
def append(line: str) -> dict:
    with open(Path(get_context().workspace) / "log", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        began = time.monotonic_ns()
        file.seek(0)
        number = len(file.readlines())
        time.sleep(0.01)
        file.write(f"{number} {began} {time.monotonic_ns()} {line}\n")
    return {"number": number}
"#;

const MANIFEST: &str =
    "id: storm\nname: A storm\nversion: \"1.0.0\"\ntools:\n  - {id: append, entrypoint: \"tools.t:append\"}\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_in_a_storm_is_there_and_happened_once() {
    let dice = Dice::throw();
    let rounds = std::env::var("KITBAG_STORM_ROUNDS").map_or(1, |text| text.parse().unwrap());

    let (cluster, bucket) = (Cluster::own().await, TestBucket::new());
    let gate = Gate::before(&bucket);
    let database = TestDatabase::of(cluster.clone()).await.in_bucket(&bucket.through(&gate));
    // One more comes when all is over.
    let installation = Installation::on(database, NODES + 1);
    let ports: Vec<u16> = (0..NODES).map(|_| free_port()).collect();
    let servers: Vec<Server> = (0..NODES).map(|node| start(&installation, node, ports[node])).collect();
    let token = servers[0].token.clone();
    import(&servers[0], MANIFEST, &[("tools/t.py", TOOL)]).await;
    let notes = Notes::new();
    servers[0].post(SERVERS, &notes.launch()).await.expect(201);
    let balancer = Balancer::start(&ports, Duration::from_secs(1));
    balancer.is_there().await;
    let client = Client {
        url: balancer.url.clone(),
        token,
        client: reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().unwrap(),
        over: Arc::new(AtomicBool::new(false)),
        said: Arc::new(Said::default()),
        next: Arc::new(AtomicU64::new(0)),
    };
    let mut machines = Vec::new();
    for _ in 0..2 {
        machines.push(Mutex::new(Machine::new(&servers[0], &balancer.url).await));
    }
    let mut chats = Vec::new();
    for node in 0..CHATS {
        chats.push(new_chat(&servers[node % NODES]).await);
    }
    let name = client.mcp_name(&chats[0]).await;
    let nodes = servers.into_iter().map(Mutex::new).collect();
    let (is_up, said) = (RwLock::new(()), Arc::clone(&client.said));
    let parts = Parts { installation, ports, nodes, machines, cluster, gate, is_up, said };

    let mut working = tokio::task::JoinSet::new();
    for chat in &chats {
        working.spawn(client.clone().append_all(chat.clone(), None));
        working.spawn(client.clone().append_all(chat.clone(), Some(name.clone())));
        working.spawn(client.clone().write_all(chat.clone()));
        working.spawn(client.clone().note_all(chat.clone()));
        working.spawn(client.clone().collect_all(chat.clone()));
    }
    working.spawn(client.clone().run_all());
    let broken = async {
        tokio::join!(parts.break_nodes(dice.of(1), rounds), parts.break_the_rest(dice.of(2), rounds));
        client.over.store(true, Ordering::SeqCst);
    };
    let watched = async {
        let mut most = Use::default();
        while !client.over.load(Ordering::SeqCst) {
            for now in parts.used().await {
                most = Use { files: most.files.max(now.files), kilobytes: most.kilobytes.max(now.kilobytes) };
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        most
    };
    let ((), most) = tokio::join!(broken, watched);
    working.join_all().await;

    checks::enough(&client.said, rounds as usize);
    println!("a node or a machine used {most:?} at the most");
    // It is over, and everybody serves again.
    for node in &parts.nodes {
        let node = node.lock().await;
        until("it is ready", async || (node.get("/readyz").await.status == 200).then_some(())).await;
    }
    for chat in &chats {
        until("the chat can be used", async || client.append(chat, None).await.then_some(())).await;
    }
    checks::runs(&client, &parts).await;
    for chat in &chats {
        for node in &parts.nodes {
            checks::chat(&*node.lock().await, chat, &client.said).await;
        }
        checks::notes(&*parts.nodes[0].lock().await, chat, &client.said, &notes.lines()).await;
    }
    assert!(most.files < MOST.files && most.kilobytes < MOST.kilobytes, "{most:?} is more than {MOST:?}");

    until("open files are closed", async || {
        parts.used().await.iter().all(|one| one.files < MOST_AT_REST).then_some(())
    })
    .await;

    // Everybody goes, and nothing is left. It would be seen.
    assert!(parts.processes().await.len() > NODES + parts.machines.len(), "tools have processes, too");
    for machine in &parts.machines {
        machine.lock().await.kill();
    }
    for node in &parts.nodes {
        let mut node = node.lock().await;
        node.signal(Signal::TERM);
        assert!(node.wait().success());
    }
    is_empty_of_processes(&parts, &notes).await;

    // One that has nothing yet finds all of it where bytes are kept, also what runs left.
    let mut fresh = start(&parts.installation, NODES, free_port());
    for chat in &chats {
        checks::chat(&fresh, chat, &client.said).await;
    }
    for chat in checks::all(&fresh, crate::kit::CHATS).await {
        checks::is_whole(&fresh, chat["id"].as_str().unwrap()).await;
    }
    fresh.signal(Signal::TERM);
    assert!(fresh.wait().success());
    is_empty_of_processes(&parts, &notes).await;
}

/// Waits until nothing runs any more that a node or a machine began.
async fn is_empty_of_processes(parts: &Parts, notes: &Notes) {
    let mut left = Vec::new();
    for _ in 0..100 {
        left = parts.processes().await;
        left.extend(notes.alive().iter().map(|pid| format!("{pid}, an MCP server")));
        if left.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("processes are left: {left:#?}");
}
