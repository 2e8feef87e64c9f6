//! A node that stops hands its servers over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Notes, add, lives, other, pid, the_only_one};
use crate::kit::{Installation, calls, new_chat, until};

/// Calls the server again and again. What went wrong, and which processes answered.
async fn load(url: String, token: String, over: Arc<AtomicBool>, done: Arc<AtomicUsize>) -> (Vec<String>, Vec<String>) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let (mut failed, mut pids) = (Vec::new(), Vec::new());
    while !over.load(Ordering::SeqCst) {
        let asked = client.post(&url).bearer_auth(&token).json(&json!({ "toolId": "mcp:keeps~keeps:pid", "args": {} }));
        let answer: Value = match asked.send().await {
            Ok(answer) => answer.json().await.unwrap_or_default(),
            Err(error) => json!(error.to_string()),
        };
        match answer["result"]["content"][0]["text"].as_str() {
            Some(pid) if pids.last().is_some_and(|last| last == pid) => {}
            Some(pid) => pids.push(pid.to_owned()),
            None => failed.push(answer.to_string()),
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    (failed, pids)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_when_the_node_stops_that_has_the_process() {
    let installation = Installation::new(2).await;
    let mut servers: Vec<_> = (0..2).map(|node| installation.start(node, &["--drain-delay-seconds", "3"])).collect();
    let notes = Notes::new();
    let holder = add(&servers, 0, &notes).await;
    let asks = other(&servers, holder);
    let chat = new_chat(&servers[asks]).await;
    let first = pid(&servers[asks], &chat).await;
    let token = servers[asks].token.clone();
    let url = |node: usize| format!("{}{}", servers[node].url, calls(&chat));
    let start = |node: usize| {
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let running = tokio::spawn(load(url(node), token.clone(), over.clone(), done.clone()));
        (running, over, done)
    };
    // Two clients of the node that stays, and one of the node that stops, which is a while yet.
    let clients = [start(asks), start(asks), start(holder)];
    let busy = async |done: &Arc<AtomicUsize>| {
        let before = done.load(Ordering::SeqCst);
        until("there is load", async || (done.load(Ordering::SeqCst) > before + 10).then_some(())).await;
    };
    for (_, _, done) in &clients {
        busy(done).await;
    }
    servers[holder].signal(Signal::TERM);
    until("the process is ended", async || (!lives(first)).then_some(())).await;
    let [one, two, (running, over, done)] = clients;
    busy(&done).await;
    over.store(true, Ordering::SeqCst);
    let mut all = vec![running.await.unwrap()];
    assert!(servers[holder].wait().success(), "{}", servers[holder].log());
    for (running, over, done) in [one, two] {
        busy(&done).await;
        over.store(true, Ordering::SeqCst);
        all.push(running.await.unwrap());
    }
    let second = the_only_one(&notes).await;
    assert_eq!(notes.started(), [first, second]);
    for (failed, pids) in all {
        assert_eq!(failed, Vec::<String>::new());
        assert_eq!(pids, [first.to_string(), second.to_string()], "one process after the other");
    }
}
