//! A request that is sent again under its key is one call, whichever node it comes to.

use futures_util::future::join_all;
use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::apart::come_again;
use crate::kit::{Installation, ask_nobody, calls, command, new_chat, nodes, output, until, until_there};
use crate::servers::{Notes, SERVERS, connected};

/// Asks for a call under a key.
async fn ask(server: &Server, chat: &str, key: &str, body: &Value) -> Answer {
    let request = server.request(Method::POST, &calls(chat)).header("idempotency-key", key);
    Answer::of(request.json(body)).await
}

/// The calls of a chat that were asked for with these arguments.
async fn of(server: &Server, chat: &str, args: &Value) -> Vec<Value> {
    let all = server.get(&calls(chat)).await.expect(200);
    all["items"].as_array().unwrap().iter().filter(|call| call["args"] == *args).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_node_was_killed_is_not_made_again_under_its_key() {
    let installation = Installation::in_bucket(2).await;
    let mut first = installation.start(0, &[]);
    ask_nobody(&first).await;
    let notes = Notes::new();
    first.post(SERVERS, &notes.launch()).await.expect(201);
    // Its process is this node's, which is the only one yet.
    connected(&first).await;
    let second = installation.start(1, &[]);
    connected(&second).await;
    let chats = [new_chat(&first).await, new_chat(&first).await];
    for chat in &chats {
        output(command(&first, chat, "touch held").await);
    }
    let workspace = |node: usize| installation.folder(node).join("chats").join(&chats[0]).join("workspace");
    let mark = notes.mark("mark");
    let bodies = [
        json!({ "toolId": "run_command", "args": { "command": "echo once >>did; sleep 600" } }),
        json!({ "toolId": "mcp:keeps~keeps:wait", "args": { "seconds": 600, "mark": mark, "line": "once" } }),
    ];
    let mut ids = Vec::new();
    for (chat, body) in chats.iter().zip(&bodies) {
        let path = calls(chat);
        let asking = first.request(Method::POST, &path).header("idempotency-key", "the-key").json(body);
        // It is cut off with its node.
        tokio::spawn(asking.send());
        let id = until("the call is there", async || {
            Some(of(&second, chat, &body["args"]).await.first()?["id"].as_str()?.to_owned())
        });
        ids.push(id.await);
    }
    until_there(&workspace(0).join("did")).await;
    until_there(&mark).await;
    // From when the chats can be had until it is said how their calls ended takes a moment, which is none to be told that they run.
    installation
        .database
        .change(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$;
             CREATE TRIGGER slowly BEFORE UPDATE ON tool_calls FOR EACH ROW WHEN (OLD.status = 'running') EXECUTE FUNCTION slowly()",
        )
        .await;
    first.signal(Signal::KILL);
    first.wait();
    for ((chat, body), id) in chats.iter().zip(&bodies).zip(&ids) {
        let ended = until("it is known how it ended", async || {
            let answer = ask(&second, chat, "the-key", body).await;
            if answer.status == 503 {
                come_again(&answer);
                return None;
            }
            Some(answer.expect(200))
        })
        .await;
        assert_eq!((&ended["id"], &ended["error"]["code"]), (&json!(id), &json!("INTERRUPTED")), "{ended}");
        assert_eq!(of(&second, chat, &body["args"]).await.len(), 1);
        // With anything else it is another's key.
        let other = json!({ "toolId": "run_command", "args": { "command": "true" } });
        ask(&second, chat, "the-key", &other).await.expect_error(409, "CONFLICT");
    }
    // It happened there and nowhere else.
    assert_eq!(output(command(&second, &chats[0], "ls").await), "held");
    assert_eq!(std::fs::read_to_string(workspace(0).join("did")).unwrap(), "once\n");
    assert_eq!(notes.lines().iter().filter(|line| *line == "once").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_one_call_for_all_nodes_that_are_asked_at_the_same_moment() {
    let (_installation, servers) = nodes::<2>().await;
    let notes = Notes::new();
    servers[0].post(SERVERS, &notes.launch()).await.expect(201);
    for server in &servers {
        connected(server).await;
    }
    for round in 0..6 {
        // Nobody holds it yet: all of them want to.
        let chat = new_chat(&servers[round % 2]).await;
        let line = format!("round {round}");
        for (key, body) in [
            ("one", json!({ "toolId": "run_command", "args": { "command": "echo once >>did; sleep 0.1" } })),
            ("other", json!({ "toolId": "mcp:keeps~keeps:wait", "args": { "seconds": 0.1, "line": line } })),
        ] {
            let all = join_all((0..6).map(|n| ask(&servers[n % 2], &chat, key, &body))).await;
            let ids: Vec<Value> = all
                .into_iter()
                .map(|answer| {
                    let call = answer.expect(200);
                    assert_eq!(call["status"], "success", "{call}");
                    call["id"].clone()
                })
                .collect();
            assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
            for server in &servers {
                assert_eq!(of(server, &chat, &body["args"]).await.len(), 1);
            }
        }
        assert_eq!(output(command(&servers[0], &chat, "cat did").await), "once");
        assert_eq!(notes.lines().iter().filter(|noted| **noted == line).count(), 1);
    }
}
