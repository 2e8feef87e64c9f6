//! One node loses the database and the others have it: it is awake, goes on, and does not know that nobody counts on it any more.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use kitbag_testkit::{Answer, Server};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;

use crate::apart::{Apart, State, all_are, all_are_ready, all_say_so, are_there, come_again, knows, until_told};
use crate::heard::Listener;
use crate::kit::{CHATS, calls, command, is_whole, new_chat, output, over, until, until_there};
use crate::servers::{Notes, add, call, lives, other, pid, said, the_only_one};

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_where_nobody_can_be_told_is_not_kept_when_another_has_the_chat() {
    let apart = Apart::new().await;
    let ([first, second], chat) = (&apart.servers, &apart.chats[0]);
    let script = "touch begun; until test -e go; do sleep 0.05; done; touch late; echo first >file";
    let body = json!({ "toolId": "run_command", "args": { "command": script } });
    let (id, hears) = until_told(first, chat, body).await;
    let path = format!("{}/{id}", calls(chat));
    until_there(&apart.workspace(0, chat).join("begun")).await;
    apart.ways[0].is(State::Cut);
    all_say_so(&apart.servers[..1]).await;

    let taken = until("the other has the chat", async || {
        let answer = command(second, chat, "ls; echo second >file; cat file").await;
        match answer.status.as_u16() {
            200 => Some(answer),
            _ => {
                come_again(&answer);
                None
            }
        }
    });
    assert_eq!(output(taken.await), "file\nsecond");
    std::fs::write(apart.workspace(0, chat).join("go"), "").unwrap();
    until("it ended", async || apart.workspace(0, chat).join("late").exists().then_some(())).await;
    // Nobody knows how it ends, least of all the node that ran it.
    come_again(&hears.await.unwrap());
    until("its end is kept", async || first.log().contains("the end of a call").then_some(())).await;

    apart.ways[0].is(State::Open);
    knows(first).await;
    are_there(&apart.installation, 2).await;
    for server in [first, second] {
        let ended = over(server, &path).await;
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{ended}");
        assert_eq!(output(command(server, chat, "ls; cat file").await), "file\nsecond");
        is_whole(server, chat).await;
    }
    let manifests = second.get(&format!("{CHATS}/{chat}/workspace/manifests")).await.expect(200);
    assert_eq!(manifests["items"].as_array().unwrap().len(), 2, "{manifests}");
    // The chat comes back to where that folder still is.
    let Apart { installation: _installation, servers: [first, mut second], chats: [chat, _], ways: _ways } = apart;
    second.signal(Signal::TERM);
    assert!(second.wait().success());
    assert_eq!(output(command(&first, &chat, "ls; cat file").await), "file\nsecond");
    assert_eq!(over(&first, &path).await["error"]["code"], "INTERRUPTED");
    is_whole(&first, &chat).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_of_a_node_that_is_cut_off_says_nothing_any_more() {
    let apart = Apart::new().await;
    let (servers, notes) = (&apart.servers, Notes::new());
    let holder = add(servers, 0, &notes).await;
    let (old, new) = (&servers[holder], &servers[other(servers, holder)]);
    let (ours, theirs) = (&apart.chats[holder], &apart.chats[other(servers, holder)]);
    let first = pid(old, ours).await;
    said(call(new, theirs, "put", json!({ "value": "old" })).await);
    // Both are answered by the process when another one has taken its place.
    let (mark, led, go) = (notes.mark("mark"), notes.mark("led"), notes.mark("go"));
    let waits =
        |mark: &Path| json!({ "toolId": "mcp:keeps~keeps:wait", "args": { "seconds": 0, "mark": mark, "until": go } });
    let (id, hears) = until_told(old, ours, waits(&mark)).await;
    until_there(&mark).await;
    let hears_there = tokio::spawn(Answer::of(new.request(Method::POST, &calls(theirs)).json(&waits(&led))));
    until_there(&led).await;
    apart.ways[holder].is(State::Cut);

    let second = until("the other has it", async || {
        let answer = call(new, theirs, "pid", json!({})).await;
        match answer.body["error"]["code"].as_str() {
            Some("MCP_SERVER_NOT_CONNECTED") => None,
            // As long as nobody can have said that its node is dead, it may answer.
            _ => Some(said(answer).parse::<i32>().unwrap()).filter(|pid| *pid != first),
        }
    })
    .await;
    assert_eq!(said(call(new, theirs, "get", json!({})).await), "None");
    said(call(new, theirs, "put", json!({ "value": "new" })).await);
    std::fs::write(&go, "").unwrap();
    let answers = format!("answers {}", mark.display());
    until("the process has answered", async || notes.lines().contains(&answers).then_some(())).await;
    let told = hears_there.await.unwrap().expect(200);
    assert_eq!(told["error"]["code"], "MCP_SERVER_NOT_CONNECTED", "{told}");

    apart.ways[holder].is(State::Open);
    knows(old).await;
    let told = hears.await.unwrap().expect(200);
    assert_eq!((&told["status"], &told["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{told}");
    until("its process is ended", async || (!lives(first)).then_some(())).await;
    are_there(&apart.installation, 2).await;
    for server in servers {
        let ended = over(server, &format!("{}/{id}", calls(ours))).await;
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{ended}");
    }
    // It asks whoever has it now.
    assert_eq!(pid(old, ours).await, second);
    assert_eq!(said(call(old, ours, "get", json!({})).await), "new");
    assert_eq!((notes.started(), the_only_one(&notes).await), (vec![first, second], second));
}

/// Waits until somebody hears of chats that are made at another node, and says what they heard until then.
async fn hears_of_chats(heard: &mut Listener, made_at: &Server) -> Vec<String> {
    let (mut names, made) = (Vec::new(), Mutex::new(Vec::new()));
    // Those that are made before the node listens again are missed.
    let making = async {
        loop {
            let chat = new_chat(made_at).await;
            made.lock().unwrap().push(chat);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let hearing = async {
        loop {
            let (name, data) = heard.next().await.expect("an event");
            let is_made = |chat: &str| made.lock().unwrap().iter().any(|made| made == chat);
            let is_it = name == "chat_changed" && data["chatId"].as_str().is_some_and(is_made);
            names.push(name);
            if is_it {
                return;
            }
        }
    };
    tokio::select! {
        () = making => {}
        () = hearing => {}
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listened_while_the_database_was_away_is_told_so_and_hears_again() {
    let apart = Apart::new().await;
    let [first, second] = &apart.servers;
    let mut heard = [Listener::new(first, &first.token).await, Listener::new(second, &second.token).await];
    // So that nobody is taken for dead: who begins anew hears again for another reason.
    all_are(&apart.ways, State::Cut);
    for server in &apart.servers {
        until("nobody is heard", async || server.log().contains("the other nodes cannot be heard yet").then_some(()))
            .await;
    }
    all_say_so(&apart.servers).await;
    all_are(&apart.ways, State::Open);
    all_are_ready(&apart.servers).await;
    for (heard, made_at) in heard.iter_mut().zip([second, first]) {
        let names = hears_of_chats(heard, made_at).await;
        assert!(names.contains(&"lagged".to_owned()), "{names:?}");
    }
    for server in &apart.servers {
        assert!(!server.log().contains("took this one for dead"), "all were away: {}", server.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_while_a_node_was_cut_off_holds_there_afterwards() {
    let apart = Apart::new().await;
    let [first, second] = &apart.servers;
    let mut heard = Listener::new(first, &first.token).await;
    // What holds until now is remembered.
    output(command(first, &apart.chats[0], "true").await);
    apart.ways[0].is(State::Cut);
    all_say_so(&apart.servers[..1]).await;
    let limit = json!({ "quotas": { "callsPerMinute": 2 } });
    Answer::of(second.request(Method::PUT, "/v1/orgs/local/settings").json(&limit)).await.expect(200);
    until("it is taken for dead", async || second.log().contains("a node is dead").then_some(())).await;
    apart.ways[0].is(State::Open);
    knows(first).await;
    are_there(&apart.installation, 2).await;
    let names = hears_of_chats(&mut heard, second).await;
    assert!(names.contains(&"lagged".to_owned()), "{names:?}");
    // A chat of its own, so that the other node is not asked.
    let chat = new_chat(first).await;
    let mut made = 0;
    let refused = loop {
        let answer = command(first, &chat, "true").await;
        if answer.status != 200 || made > 9 {
            break answer;
        }
        made += 1;
    };
    refused.expect_error(429, "QUOTA_EXCEEDED");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    // One may have come back meanwhile.
    assert!((2..=3).contains(&made), "{made} calls were made");
}
