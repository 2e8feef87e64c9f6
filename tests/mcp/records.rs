//! Records of calls that nobody has to decide about are written behind. Nobody can tell, unless the server is killed: then the last
//! moment may be missing, and nothing else.

use std::collections::HashSet;
use std::time::Duration;

use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::kit::{CHATS, Listener, SERVERS, ask, asking, connect, done, new_chat, node, place, put, twin, with};
use crate::{BINARY, serve};

const ECHO: &str = "mcp:everything~everything:echo";

async fn connect_everything(server: &Server) {
    connect(server, "everything", node("server-everything", &["stdio"])).await;
}

async fn echo(server: &Server, chat: &str, text: &str) -> Value {
    done(server, chat, ECHO, json!({ "message": text })).await
}

/// All items of a list.
async fn all(server: &Server, path: &str) -> Vec<Value> {
    let (mut items, mut query) = (Vec::new(), "?limit=100".to_owned());
    loop {
        let part = server.get(&format!("{path}{query}")).await.expect(200);
        items.extend(part["items"].as_array().unwrap().iter().cloned());
        let Some(cursor) = part["nextCursor"].as_str() else { return items };
        query = format!("?limit=100&cursor={cursor}");
    }
}

/// The calls of a chat, of which each has its message, in one line, and the chat stands at its end.
async fn whole(server: &Server, chat: &str) -> Vec<Value> {
    let calls = all(server, &format!("{CHATS}/{chat}/tool-calls")).await;
    let messages = all(server, &format!("{CHATS}/{chat}/messages")).await;
    let of_calls: HashSet<_> = calls.iter().map(|call| call["messageId"].clone()).collect();
    let of_messages: HashSet<_> = messages.iter().map(|message| message["id"].clone()).collect();
    assert_eq!(of_calls, of_messages, "each call has a message and each message a call");
    let mut parent = Value::Null;
    for message in &messages {
        assert_eq!(message["parentId"], parent, "{message}");
        parent = message["id"].clone();
    }
    assert_eq!(server.get(&format!("{CHATS}/{chat}")).await.expect(200)["activeLeafMessageId"], parent);
    calls
}

/// Many at once. The calls as they were answered.
async fn many(server: &Server, chat: &str, count: usize) -> Vec<Value> {
    let (mut running, mut answers) = (JoinSet::new(), Vec::new());
    for n in 0..count {
        let request = asking(server, chat, ECHO, &json!({ "message": format!("{n}") }));
        running.spawn(async move { Answer::of(request).await.expect(200) });
        if running.len() == 16 {
            answers.extend(running.join_next().await.map(Result::unwrap));
        }
    }
    answers.extend(running.join_all().await);
    assert!(answers.iter().all(|call| call["status"] == "success"), "{answers:?}");
    answers
}

async fn kill(server: &mut Server) {
    server.signal(Signal::KILL);
    server.wait();
}

/// Many calls are answered, and the server is killed at that very moment.
async fn all_are_there_after_a_kill(database: &TestDatabase, mut server: Server, more: &[&str]) {
    let chat = new_chat(&server).await;
    let answered = many(&server, &chat, 100).await;
    kill(&mut server).await;
    let server = Server::start(BINARY, database, more);
    let kept = whole(&server, &chat).await;
    for call in &answered {
        assert!(kept.contains(call), "{call} was answered and is gone");
    }
}

on_both! {
    async fn whoever_heard_of_a_call_finds_it(database: TestDatabase) {
        let server = serve(&database);
        connect_everything(&server).await;
        let chat = new_chat(&server).await;
        let (calls, messages) = (format!("{CHATS}/{chat}/tool-calls"), format!("{CHATS}/{chat}/messages"));
        for n in 0..5 {
            let call = echo(&server, &chat, &format!("{n}")).await;
            match n {
                0 => assert_eq!(server.get(&place(&call)).await.expect(200), call),
                1 => assert_eq!(all(&server, &calls).await.last(), Some(&call)),
                2 => assert_eq!(all(&server, &messages).await.last().unwrap()["id"], call["messageId"]),
                3 => assert_eq!(server.get(&format!("{CHATS}/{chat}")).await.expect(200)["activeLeafMessageId"], call["messageId"]),
                _ => assert_eq!(all(&server, &format!("{CHATS}/{chat}/tool-calls")).await.len(), 5),
            }
        }
        assert_eq!(whole(&server, &chat).await.len(), 5);
        // What comes next is below it, whoever it is from.
        let call = echo(&server, &chat, "before").await;
        let said = server.post(&messages, &json!({ "role": "user", "content": "after" })).await.expect(201);
        assert_eq!(said["parentId"], call["messageId"]);
        let call = echo(&server, &chat, "before").await;
        let ran = done(&server, &chat, "write_file", json!({ "path": "a", "content": "1" })).await;
        let parents = all(&server, &messages).await;
        assert_eq!(parents.iter().find(|one| one["id"] == ran["messageId"]).unwrap()["parentId"], call["messageId"]);
        // The state that the workspace is at now.
        let call = echo(&server, &chat, "with a state").await;
        assert_eq!((&call["preManifestId"], &call["postManifestId"]), (&ran["postManifestId"], &ran["postManifestId"]));
        assert_eq!(server.get(&place(&call)).await.expect(200), call);
        // Back to the first message, and on from there.
        let first = all(&server, &messages).await[0]["id"].clone();
        echo(&server, &chat, "somewhere").await;
        server.post(&format!("{CHATS}/{chat}/active-leaf"), &json!({ "messageId": first })).await.expect(200);
        let call = echo(&server, &chat, "a branch").await;
        assert_eq!(all(&server, &messages).await.last().unwrap()["parentId"], first);
        assert_eq!(server.get(&place(&call)).await.expect(200)["preManifestId"], Value::Null);
        // With its chat it goes.
        let call = echo(&server, &chat, "last").await;
        server.delete(&format!("{CHATS}/{chat}")).await.expect(204);
        server.get(&place(&call)).await.expect_error(404, "NOT_FOUND");
        ask(&server, &chat, ECHO, json!({ "message": "too late" })).await.expect_error(404, "NOT_FOUND");
    }

    async fn one_that_runs_is_seen_told_and_cancelled(database: TestDatabase) {
        let server = serve(&database);
        connect(&server, "twin", twin(&[])).await;
        let chat = new_chat(&server).await;
        let mut heard = Listener::new(&server).await;
        let slow = asking(&server, &chat, "mcp:twin~twin:sleep", &json!({ "seconds": 600 }));
        let slow = tokio::spawn(Answer::of(slow));
        let told = heard.until("tool_call", |told| told["status"] == "running").await;
        let quick = done(&server, &chat, "mcp:twin~twin:echo", json!({ "text": "quick" })).await;
        heard.until("tool_call", |told| told["id"] == quick["id"] && told["status"] == "running").await;
        heard.until("tool_call", |told| told["id"] == quick["id"] && told["status"] == "success").await;
        let listed = all(&server, &format!("{CHATS}/{chat}/tool-calls")).await;
        let seen: Vec<_> = listed.iter().map(|call| (&call["id"], &call["status"])).collect();
        assert_eq!(seen, [(&told["id"], &json!("running")), (&quick["id"], &json!("success"))]);
        let stopped = server.post(&format!("{}/cancel", place(&told)), &json!({})).await.expect(200);
        assert_eq!(stopped["error"]["code"], "CANCELLED", "{stopped}");
        assert_eq!(slow.await.unwrap().expect(200), stopped);
        assert_eq!(server.get(&place(&told)).await.expect(200), stopped);
        // The order is that of asking, not of ending.
        assert_eq!(whole(&server, &chat).await[0]["id"], told["id"]);
        let messages = all(&server, &format!("{CHATS}/{chat}/messages")).await;
        assert_eq!((&messages[0]["id"], &messages[1]["id"]), (&stopped["messageId"], &quick["messageId"]));
    }

    async fn a_clean_stop_loses_none(database: TestDatabase) {
        let mut server = serve(&database);
        connect_everything(&server).await;
        let chat = new_chat(&server).await;
        let answered = many(&server, &chat, 200).await;
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        let server = serve(&database);
        let kept = whole(&server, &chat).await;
        assert_eq!(kept.len(), 200);
        for call in &answered {
            assert!(kept.contains(call), "{call} was answered and is gone");
        }
    }

    async fn a_kill_loses_the_last_moment_and_leaves_nothing_half(database: TestDatabase) {
        for round in 0..2 {
            let mut server = serve(&database);
            if round == 0 {
                connect_everything(&server).await;
            }
            let chat = new_chat(&server).await;
            let answered = many(&server, &chat, 100).await;
            // What was answered a second ago is kept, whatever happens from now on.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut running = JoinSet::new();
            for n in 0..16 {
                let request = asking(&server, &chat, ECHO, &json!({ "message": format!("{n}") }));
                running.spawn(async move {
                    while let Ok(answer) = request.try_clone().unwrap().send().await {
                        if !answer.status().is_success() || answer.bytes().await.is_err() {
                            return;
                        }
                    }
                });
            }
            many(&server, &chat, 50).await;
            kill(&mut server).await;
            running.join_all().await;
            let server = serve(&database);
            let kept = whole(&server, &chat).await;
            for call in &answered {
                assert!(kept.contains(call), "{call} was answered long ago and is gone");
            }
            for call in &kept {
                let is_whole = match call["status"].as_str().unwrap() {
                    "success" => call["result"]["content"][0]["text"].is_string() && call["finishedAt"].is_string(),
                    "error" => call["error"]["code"] == "INTERRUPTED",
                    _ => false,
                };
                assert!(is_whole, "{call}");
            }
        }
    }

    async fn what_is_to_be_strict_is_there_whenever_it_was_answered(database: TestDatabase) {
        let server = serve(&database);
        let launch = with(node("server-everything", &["stdio"]), json!({ "strictRecords": true }));
        connect(&server, "everything", launch).await;
        let shown = server.get(&crate::kit::at("everything")).await.expect(200);
        assert_eq!(shown["strictRecords"], true);
        all_are_there_after_a_kill(&database, server, &[]).await;

        // The same for all servers.
        let strict = ["--strict-records"];
        let server = Server::start(BINARY, &database, &strict);
        let changed = put(&server, &crate::kit::at("everything"), json!({ "strictRecords": false })).await.expect(200);
        assert_eq!(changed["strictRecords"], false);
        all_are_there_after_a_kill(&database, server, &strict).await;
    }

    async fn what_is_asked_under_a_key_is_one_call_after_a_kill(database: TestDatabase) {
        let mut server = serve(&database);
        connect_everything(&server).await;
        let chat = new_chat(&server).await;
        let keyed = |server: &Server| asking(server, &chat, ECHO, &json!({ "message": "once" })).header("Idempotency-Key", "k");
        let call = Answer::of(keyed(&server)).await.expect(200);
        kill(&mut server).await;
        let server = serve(&database);
        assert_eq!(Answer::of(keyed(&server)).await.expect(200), call);
    }
}

#[tokio::test]
async fn the_mark_stays_when_other_things_change() {
    let server = serve(&TestDatabase::sqlite());
    let body = json!({ "id": "a", "command": "x", "enabled": false, "strictRecords": true });
    assert_eq!(server.post(SERVERS, &body).await.expect(201)["strictRecords"], true);
    let renamed = put(&server, &crate::kit::at("a"), json!({ "id": "b", "command": "y" })).await.expect(200);
    assert_eq!((&renamed["id"], &renamed["strictRecords"]), (&json!("b~b"), &json!(true)));
    let body = json!({ "strictRecords": "yes" });
    Answer::of(server.request(Method::PUT, &crate::kit::at("b")).json(&body)).await.expect_error(400, "BAD_REQUEST");
}
