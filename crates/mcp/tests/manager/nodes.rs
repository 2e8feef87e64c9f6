//! Servers that several nodes share: two managers, a pipe between them, and somebody who says whose a server is.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kitbag_mcp::connection::{Answers, Boxed, CallError, Hold, Refusal};
use kitbag_mcp::manager::{
    Change, Configured, Lease, Leases, Manager, ManagerError, NotLent, Place, Sought, Start, Status,
};
use kitbag_model::{OrgId, ServerKey};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::watch;

use crate::kit::{Kit, count, key, known, lives, request};

/// What all nodes know.
struct Town {
    /// Which of them has the server.
    holder: Mutex<Option<usize>>,
    given_back: watch::Sender<usize>,
    given_up: watch::Sender<usize>,
    /// Whether who takes it does not hear that it has it.
    unheard: AtomicBool,
    /// Whether the holder can be sure of it.
    sure: watch::Sender<bool>,
    managers: Mutex<Vec<Manager>>,
}

/// One node's view of it.
struct Resident(Arc<Town>, usize);

struct Held(Arc<Town>);

impl Leases for Resident {
    fn shares(&self) -> bool {
        true
    }

    fn find<'a>(&'a self, server: Sought<'a>, wanted: &'a AtomicBool) -> Boxed<'a, Result<Place, String>> {
        Box::pin(async move {
            loop {
                if self.0.unheard.load(Ordering::SeqCst) {
                    *self.0.holder.lock().unwrap() = Some(self.1);
                    return Err("nobody heard whose it is".to_owned());
                }
                let holder = {
                    let mut holder = self.0.holder.lock().unwrap();
                    if holder.is_none() && wanted.load(Ordering::SeqCst) {
                        *holder = Some(self.1);
                    }
                    *holder
                };
                let Some(holder) = holder else { return Ok(Place::Nowhere) };
                if holder == self.1 {
                    return Ok(Place::Here(Arc::new(Held(self.0.clone()))));
                }
                let other = self.0.managers.lock().unwrap()[holder].clone();
                match other.lend(server.org, server.key, server.mark, wanted.load(Ordering::SeqCst)).await {
                    Ok(lent) => {
                        let (near, far) = tokio::io::duplex(64 << 10);
                        tokio::spawn(lent.serve(Box::new(far)));
                        return Ok(Place::There(Box::new(near)));
                    }
                    Err(NotLent::Manager(error)) => return Err(error.to_string()),
                    Err(NotLent::NotHere | NotLent::Changed) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        })
    }

    fn give_up<'a>(&'a self, _: &'a OrgId, _: &'a ServerKey) -> Boxed<'a, ()> {
        let mut holder = self.0.holder.lock().unwrap();
        *holder = holder.filter(|holder| *holder != self.1);
        self.0.given_up.send_modify(|times| *times += 1);
        Box::pin(std::future::ready(()))
    }
}

impl Hold for Held {
    fn is_sure(&self) -> bool {
        *self.0.sure.borrow()
    }

    fn sure(&self) -> Boxed<'_, ()> {
        let mut sure = self.0.sure.subscribe();
        Box::pin(async move { drop(sure.wait_for(|sure| *sure).await) })
    }
}

impl Lease for Held {
    fn give_back(&self) -> Boxed<'_, ()> {
        *self.0.holder.lock().unwrap() = None;
        self.0.given_back.send_modify(|times| *times += 1);
        Box::pin(std::future::ready(()))
    }
}

/// Two nodes, and what they know.
fn nodes(idle: Option<Duration>) -> (Arc<Town>, Kit, Kit) {
    let town = Arc::new(Town {
        holder: Mutex::default(),
        given_back: watch::Sender::new(0),
        given_up: watch::Sender::new(0),
        unheard: AtomicBool::new(false),
        sure: watch::Sender::new(true),
        managers: Mutex::default(),
    });
    let [one, other] = [0, 1].map(|node| {
        Kit::new(|settings| {
            settings.idle = idle;
            settings.leases = Some(Arc::new(Resident(town.clone(), node)));
        })
    });
    town.managers.lock().unwrap().extend([one.manager.clone(), other.manager.clone()]);
    (town, one, other)
}

/// Waits until a server was asked to sleep so often.
async fn sleeping(methods: &std::path::Path, calls: usize) {
    let asked = || std::fs::read_to_string(methods).unwrap_or_default().matches("tools/call").count();
    while asked() < calls {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn lazy(server: Configured) -> Configured {
    Configured { start: Start::Lazily, known: vec![known("echo"), known("pid")], ..server }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_for_both_which_is_given_back_when_neither_uses_it() {
    let (town, mut one, mut other) = nodes(Some(Duration::from_millis(500)));
    let starts = one.starts("starts");
    let server = lazy(one.twin("app~a", &["--starts", starts.to_str().unwrap()]));
    for node in [&one, &other] {
        node.configure(&[&server]);
    }
    let pid = one.pid("app~a").await;
    assert_eq!(other.pid("app~a").await, pid);
    assert_eq!((count(&starts), *town.holder.lock().unwrap()), (1, Some(0)));
    other.until("app~a", Status::Connected).await;
    // The one that has it sees that nobody uses it; the other starts nothing because of it.
    one.until("app~a", Status::Connected).await;
    one.until("app~a", Status::Disconnected).await;
    other.until("app~a", Status::Disconnected).await;
    let given_back = async { town.given_back.subscribe().wait_for(|times| *times > 0).await.map(|times| *times) };
    assert_eq!(tokio::time::timeout(crate::kit::NEVER, given_back).await.unwrap().unwrap(), 1);
    assert!(!lives(pid) && town.holder.lock().unwrap().is_none(), "it is given back when it has ended");
    assert_eq!(count(&starts), 1);
    // Whoever needs it next has it.
    let next = other.pid("app~a").await;
    assert_eq!((one.pid("app~a").await, *town.holder.lock().unwrap()), (next, Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_not_sure_nothing_is_asked_and_no_answer_counts() {
    let (town, one, other) = nodes(None);
    let methods = one.starts("methods");
    let server = lazy(one.twin("app~a", &["--methods", methods.to_str().unwrap()]));
    for node in [&one, &other] {
        node.configure(&[&server]);
    }
    let pid = one.pid("app~a").await;
    assert_eq!(other.pid("app~a").await, pid);
    let calls: Vec<_> = [&one, &other]
        .map(|node| {
            let (manager, org) = (node.manager.clone(), node.org.clone());
            tokio::spawn(
                async move { crate::kit::call(&manager, &org, "app~a", "sleep", json!({ "seconds": 0.3 })).await },
            )
        })
        .into_iter()
        .collect();
    sleeping(&methods, 4).await;
    town.sure.send_replace(false);
    // The server has answered by now, to nobody's knowledge.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    let mut asked = Box::pin(one.pid("app~a"));
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut asked).await.is_err());
    town.sure.send_replace(true);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "slept");
    }
    assert_eq!(asked.await, pid);

    // It was another's meanwhile: nobody hears what it said, and it is gone.
    let late = {
        let (manager, org) = (other.manager.clone(), other.org.clone());
        tokio::spawn(async move { crate::kit::call(&manager, &org, "app~a", "sleep", json!({ "seconds": 0.1 })).await })
    };
    sleeping(&methods, 6).await;
    town.sure.send_replace(false);
    tokio::time::sleep(Duration::from_millis(300)).await;
    one.manager.release_all(Duration::ZERO).await;
    assert!(!lives(pid));
    let ended = late.await.unwrap();
    assert!(matches!(ended, Err(ManagerError::Call(CallError::Disconnected(_)))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn handing_over_waits_for_what_is_under_way_and_fails_nothing() {
    let (town, one, other) = nodes(None);
    let methods = one.starts("methods");
    let server = lazy(one.twin("app~a", &["--methods", methods.to_str().unwrap()]));
    for node in [&one, &other] {
        node.configure(&[&server]);
    }
    let pid = one.pid("app~a").await;
    assert_eq!(other.pid("app~a").await, pid);
    let called = |node: &Kit, tool: &'static str| {
        let (manager, org) = (node.manager.clone(), node.org.clone());
        let args = if tool == "sleep" { json!({ "seconds": 0.5 }) } else { json!({}) };
        tokio::spawn(async move { crate::kit::call(&manager, &org, "app~a", tool, args).await })
    };
    let slow = [called(&one, "sleep"), called(&other, "sleep")];
    sleeping(&methods, 4).await;
    let handed = tokio::spawn(one.manager.release_all(Duration::from_secs(30)));
    while one.state("app~a").status == Status::Connected {
        tokio::task::yield_now().await;
    }
    let load: Vec<_> = (0..40).map(|_| called(&other, "pid")).collect();
    for call in slow {
        assert_eq!(call.await.unwrap().unwrap(), "slept", "what was under way goes on to its end");
    }
    handed.await.unwrap();
    let pids: Vec<String> = futures(load).await;
    assert!(!lives(pid));
    assert_eq!(pids.iter().filter(|said| **said == pid.to_string()).count(), 0, "nothing new began at the old one");
    assert_eq!(*town.given_back.borrow(), 1);
    assert_eq!(one.pid("app~a").await, other.pid("app~a").await);
}

async fn futures(calls: Vec<tokio::task::JoinHandle<Result<String, ManagerError>>>) -> Vec<String> {
    let mut all = Vec::new();
    for call in calls {
        all.push(call.await.unwrap().unwrap());
    }
    all
}

/// Says yes to everything.
struct Somebody;

impl Answers for Somebody {
    fn capabilities(&self, _stateless: bool) -> Map<String, Value> {
        Map::from_iter([("elicitation".to_owned(), json!({}))])
    }

    fn answer(&self, _method: &str, params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        let answer = json!({ "action": "accept", "content": { "asked": params["message"] } });
        Some(Box::pin(std::future::ready(Ok(answer))))
    }

    fn who(&self) -> &str {
        "somebody"
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_the_server_goes_to_whoever_called_it_at_the_other_node() {
    let (_town, one, other) = nodes(None);
    let server = lazy(one.twin("app~a", &[]));
    for node in [&one, &other] {
        node.configure(&[&server]);
    }
    let pid = one.pid("app~a").await;
    let ask = async |text: &str| {
        let mut call = request("ask", Map::from_iter([("text".to_owned(), json!(text))]));
        call.beside = Some(Arc::new(Somebody));
        let answer = other.manager.call(&other.org, &key("app~a") as &ServerKey, call).await.unwrap();
        let answer: Value = serde_json::from_str(answer.get()).unwrap();
        serde_json::from_str::<Value>(answer["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    assert_eq!(ask("first").await, json!({ "action": "accept", "content": { "asked": "first" } }));
    // From now on whoever can be asked has a process of their own, where they are; all others still share.
    assert_eq!(ask("second").await["content"]["asked"], "second");
    assert_eq!(other.pid("app~a").await, pid);
    // An error of the server is an error of the server, and one of nobody's is told as what it is.
    let refused = other.call("app~a", "refuse", json!({ "text": "not today" })).await;
    let Err(ManagerError::Call(CallError::Refused { code, message, data })) = refused else { panic!("{refused:?}") };
    assert_eq!((code, &*message, data), (-32000, "not today", Some(json!({ "said": "not today" }))));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_knows_it_as_another_is_not_led_to_it() {
    let (_town, one, _other) = nodes(None);
    one.configure(&[&Configured { mark: "new".to_owned(), ..lazy(one.twin("app~a", &[])) }]);
    let lend = async |mark: &str, wakes| one.manager.lend(&one.org, &key("app~a"), mark, wakes).await.err();
    assert!(matches!(lend("old", true).await, Some(NotLent::Changed)));
    assert!(matches!(lend("new", false).await, Some(NotLent::NotHere)), "it is not started for that");
    assert!(lend("new", true).await.is_none());
    let unknown = one.manager.lend(&one.org, &key("app~b"), "new", true).await.err();
    assert!(matches!(unknown, Some(NotLent::Manager(ManagerError::NotFound))));
}

/// Says of every server that it cannot be known where it is.
struct Nobody;

impl Leases for Nobody {
    fn shares(&self) -> bool {
        true
    }

    fn find<'a>(&'a self, _: Sought<'a>, _: &'a AtomicBool) -> Boxed<'a, Result<Place, String>> {
        Box::pin(std::future::ready(Err("nobody knows".to_owned())))
    }

    fn give_up<'a>(&'a self, _: &'a OrgId, _: &'a ServerKey) -> Boxed<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn each_server_is_looked_for_from_the_start() {
    let mut kit = Kit::new(|settings| {
        settings.leases = Some(Arc::new(Nobody));
        settings.backoff.tries = 1;
    });
    let servers: Vec<Configured> = (0..2000)
        .map(|number| Configured { start: Start::Lazily, ..kit.twin(&format!("app~s{number}"), &[]) })
        .collect();
    kit.configure(&servers.iter().collect::<Vec<_>>());
    // None goes to sleep because its life began before anybody wanted it.
    let mut waited_for: BTreeSet<ServerKey> = servers.into_iter().map(|server| server.key).collect();
    while !waited_for.is_empty() {
        if let Change::Status { key, status: Status::Error, .. } = kit.next().await {
            waited_for.remove(&key);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_may_hold_without_knowing_it_is_free_when_it_lets_go() {
    let (town, one, other) = nodes(None);
    let server = one.twin("app~a", &[]);
    town.unheard.store(true, Ordering::SeqCst);
    let mut one = one;
    one.configure(&[&server]);
    one.until("app~a", Status::Error).await;
    assert_eq!(*town.holder.lock().unwrap(), Some(0), "it has it, and does not know");
    town.unheard.store(false, Ordering::SeqCst);
    one.configure(&[]);
    let given_up = async { town.given_up.subscribe().wait_for(|times| *times > 0).await.map(|times| *times) };
    tokio::time::timeout(crate::kit::NEVER, given_up).await.unwrap().unwrap();
    assert_eq!(*town.holder.lock().unwrap(), None);
    other.configure(&[&server]);
    other.pid("app~a").await;
    assert_eq!(*town.holder.lock().unwrap(), Some(1));
}

/// Leads everybody to a node that has heard of nothing. How often it was asked.
struct Deaf(Arc<AtomicUsize>);

impl Leases for Deaf {
    fn shares(&self) -> bool {
        true
    }

    fn find<'a>(&'a self, _: Sought<'a>, _: &'a AtomicBool) -> Boxed<'a, Result<Place, String>> {
        let (near, far) = tokio::io::duplex(64 << 10);
        let asked = Arc::clone(&self.0);
        tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(far);
            let hello = json!({ "version": "2025-11-25", "stateless": false, "serverInfo": {}, "instructions": null, "capabilities": { "tools": {} } });
            writer.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let answer = match message["method"].as_str() {
                    Some("tools/call") => {
                        asked.fetch_add(1, Ordering::SeqCst);
                        let error = json!({ "code": -32097, "message": "moved", "data": { "kind": "unheard" } });
                        json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })
                    }
                    _ => json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "tools": [] } }),
                };
                if !message["id"].is_null() && writer.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        Box::pin(std::future::ready(Ok(Place::There(Box::new(near)))))
    }

    fn give_up<'a>(&'a self, _: &'a OrgId, _: &'a ServerKey) -> Boxed<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_nobody_hears_of_is_asked_again_with_pauses_and_not_for_ever() {
    let asked = Arc::new(AtomicUsize::new(0));
    let deaf = Arc::new(Deaf(Arc::clone(&asked)));
    let kit = Kit::new(|settings| settings.leases = Some(deaf.clone()));
    kit.configure(&[&lazy(kit.twin("app~a", &[]))]);
    let mut call = request("pid", Map::new());
    call.deadline = Duration::from_secs(2);
    let answer = kit.manager.call(&kit.org, &key("app~a"), call).await;
    assert!(matches!(answer, Err(ManagerError::Call(CallError::Unheard(_)))), "{answer:?}");
    // Its pauses double: without them it would be thousands.
    let asked = asked.load(Ordering::SeqCst);
    assert!((2..20).contains(&asked), "{asked}");
}
