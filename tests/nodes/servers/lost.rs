//! Nodes that are killed or paused while they have the process of a server.

use kitbag_testkit::Answer;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;

use super::{Notes, add, begin_to_wait, call, lives, nodes, other, pid, said, the_only_one};
use crate::kit::{calls, new_chat, over, until, until_there};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_needs_the_server_of_a_killed_node_starts_it() {
    let (_installation, mut servers) = nodes::<3>().await;
    let notes = Notes::new();
    let holder = add(&servers, 0, &notes).await;
    let asks = other(&servers, holder);
    let chat = new_chat(&servers[asks]).await;
    said(call(&servers[asks], &chat, "put", json!({ "value": "in its memory" })).await);
    let first = pid(&servers[asks], &chat).await;
    let begun = begin_to_wait(&servers[asks], &chat, &notes, ("begun", 600.0)).await;
    servers[holder].signal(Signal::KILL);
    servers[holder].wait();
    // It may have been heard: nobody repeats it.
    let ended = over(&servers[asks], &begun).await;
    assert_eq!(ended["error"]["code"], "MCP_SERVER_NOT_CONNECTED", "{ended}");
    // Asked for once: who looks for the next holder for longer than a node is patient ends with an error.
    let second = pid(&servers[asks], &chat).await;
    assert_ne!(first, second);
    until("nothing is left of the first", async || (!lives(first)).then_some(())).await;
    let third = (0..3).find(|node| ![holder, asks].contains(node)).unwrap();
    assert_eq!(pid(&servers[third], &chat).await, second);
    assert_eq!(said(call(&servers[third], &chat, "get", json!({})).await), "None", "what was in its memory is gone");
    assert_eq!((notes.started().len(), the_only_one(&notes).await), (2, second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_thought_dead_ends_its_process_and_says_nothing_of_it() {
    let (_installation, servers) = nodes::<2>().await;
    let notes = Notes::new();
    let holder = add(&servers, 1, &notes).await;
    let (old, new) = (&servers[holder], &servers[other(&servers, holder)]);
    let chats = [new_chat(old).await, new_chat(new).await];
    let first = pid(old, &chats[0]).await;
    // The process answers both while the node that has it sleeps.
    let late = begin_to_wait(old, &chats[0], &notes, ("one", 1.0)).await;
    let waiting = begin_to_wait(new, &chats[1], &notes, ("two", 1.0)).await;
    // And one whose answer nobody would look up in the database before it is told.
    let mark = notes.mark("three");
    let body = json!({ "toolId": "mcp:keeps~keeps:wait", "args": { "seconds": 1.0, "mark": mark } });
    let told = old.request(Method::POST, &calls(&chats[0])).json(&body);
    let told = tokio::spawn(Answer::of(told));
    until_there(&mark).await;
    old.signal(Signal::STOP);
    // Until it is known to be dead nobody knows whether a call was heard there.
    let second = until("the other has it", async || {
        let answer = call(new, &chats[1], "pid", json!({})).await;
        match answer.body["error"]["code"].as_str() {
            Some("MCP_SERVER_NOT_CONNECTED") => None,
            _ => Some(answer),
        }
    });
    let second: i32 = said(second.await).parse().unwrap();
    assert_ne!(first, second);
    said(call(new, &chats[1], "put", json!({ "value": "new" })).await);
    let ended = over(new, &waiting).await;
    assert_eq!(ended["error"]["code"], "MCP_SERVER_NOT_CONNECTED", "{ended}");
    old.signal(Signal::CONT);
    let ended = told.await.unwrap().expect(200);
    assert_eq!(ended["status"], "error", "it said what the process had said that was not its own any more: {ended}");
    let ended = over(old, &late).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{ended}");
    until("it knows that it was thought dead", async || old.log().contains("took this one for dead").then_some(()))
        .await;
    until("its process is ended", async || (!lives(first)).then_some(())).await;
    // It asks whoever has it now.
    assert_eq!(pid(old, &chats[0]).await, second);
    assert_eq!(said(call(old, &chats[0], "get", json!({})).await), "new");
    assert_eq!((notes.started().len(), the_only_one(&notes).await), (2, second));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_paused_node_asked_is_given_up_when_it_is_dead() {
    let (_installation, servers) = nodes::<2>().await;
    let notes = Notes::new();
    let holder = add(&servers, 0, &notes).await;
    let asks = &servers[other(&servers, holder)];
    let chat = new_chat(asks).await;
    let begun = begin_to_wait(asks, &chat, &notes, ("begun", 600.0)).await;
    // Its connection stays open, and nobody is there.
    asks.signal(Signal::STOP);
    until("the server was told", async || notes.lines().contains(&"cancelled".to_owned()).then_some(())).await;
    asks.signal(Signal::CONT);
    assert_eq!(over(&servers[holder], &begun).await["error"]["code"], "INTERRUPTED");
    let first = notes.started()[0];
    assert_eq!(pid(asks, &chat).await, first, "it is led there again");
}
