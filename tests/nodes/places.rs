//! How many calls an organisation may have at a time, when many come at once and when a node goes with those that it has.

use futures_util::future::join_all;
use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;

use crate::heard::Listener;
use crate::kit::{begin, calls, new_chat, nodes, over, until};

const MOST: usize = 4;

/// So many ask at each node at once.
const AT_ONCE: usize = 12;

/// Asks for a call that goes on until it is ended. Its path, or that there is no place.
async fn ask(server: &Server, chat: &str) -> Option<String> {
    let body = json!({ "toolId": "run_command", "args": { "command": "sleep 600" } });
    let request = server.request(Method::POST, &calls(chat)).header("prefer", "respond-async").json(&body);
    let answer = Answer::of(request).await;
    if answer.status == 429 {
        answer.expect_error(429, "QUOTA_EXCEEDED");
        assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
        return None;
    }
    let call = answer.expect(202);
    Some(format!("{}/{}", calls(chat), call["id"].as_str().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_at_all_nodes_has_a_bound_and_a_killed_node_gives_its_places_back() {
    let (_installation, [mut first, second]) = nodes::<2>().await;
    let mut heard = Listener::new(&second, &second.token).await;
    let limit = json!({ "quotas": { "concurrentCalls": MOST } });
    Answer::of(first.request(Method::PUT, "/v1/orgs/local/settings").json(&limit)).await.expect(200);
    let mut chats = [Vec::new(), Vec::new()];
    for _ in 0..AT_ONCE {
        chats[0].push(new_chat(&first).await);
        chats[1].push(new_chat(&second).await);
    }
    // What is heard after the setting was told after it.
    let last = chats[0].last().unwrap().clone();
    heard.until(|name, data| name == "chat_changed" && data["chatId"] == *last).await;

    let mut running = [Vec::new(), Vec::new()];
    for (node, server) in [&first, &second].into_iter().enumerate() {
        let chat = new_chat(server).await;
        running[node].push(begin(server, &chat, "sleep 600").await);
    }
    let asking = [&first, &second].into_iter().zip(&chats).enumerate().flat_map(|(node, (server, chats))| {
        chats.iter().map(move |chat| async move { (node, ask(server, chat).await) })
    });
    for (node, call) in join_all(asking).await {
        running[node].extend(call);
    }
    let counts = running.each_ref().map(Vec::len);
    println!("{counts:?} calls run at the nodes");
    // Each node knows its own calls for sure, and at least the one of the other that was there before.
    assert!(counts.iter().sum::<usize>() >= MOST && counts.iter().all(|count| *count < MOST), "{counts:?}");
    for server in [&first, &second] {
        assert_eq!(ask(server, &new_chat(server).await).await, None);
    }

    first.signal(Signal::KILL);
    first.wait();
    for call in &running[1] {
        second.post(&format!("{call}/cancel"), &json!({})).await.expect(200);
    }
    for _ in 0..MOST {
        let chat = new_chat(&second).await;
        until("there is a place", async || ask(&second, &chat).await).await;
    }
    assert_eq!(ask(&second, &new_chat(&second).await).await, None);
    for call in &running[0] {
        assert_eq!(over(&second, call).await["error"]["code"], "INTERRUPTED");
    }
}
