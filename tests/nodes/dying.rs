//! Nodes that are killed, or seem to be.

use kitbag_testkit::{Answer, Behind};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;

use crate::heard::Listener;
use crate::kit::{
    CHATS, Installation, begin, calls, command, is_running, new_chat, nodes, output, over, until, until_there,
};
use crate::servers::SERVERS;

#[tokio::test(flavor = "multi_thread")]
async fn another_node_takes_over_what_a_killed_one_held() {
    let (installation, [mut first, second]) = nodes::<2>().await;
    let chat = new_chat(&first).await;
    output(command(&first, &chat, "true").await);
    let begun = begin(&first, &chat, "sleep 600").await;
    until("the call has its turn", async || {
        let answer = second.post(&format!("{CHATS}/{chat}/workspace/snapshot"), &json!({})).await;
        (answer.status == 409).then_some(())
    })
    .await;
    first.signal(Signal::KILL);
    first.wait();
    // It is waited for until somebody may hold the chat.
    assert_eq!(output(command(&second, &chat, "echo taken over").await), "taken over");
    let ended = over(&second, &begun).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{ended}");
    // It comes back and asks whoever has the chat now.
    let first = installation.start(0, &[]);
    output(command(&second, &chat, "echo kept >file").await);
    assert_eq!(output(command(&first, &chat, "cat file").await), "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_a_yes_ends_in_time_when_the_node_is_gone_that_asked() {
    let installation = Installation::new(2).await;
    let start = |node: usize| installation.start(node, &["--confirmation-timeout", "3"]);
    let (mut first, second) = (start(0), start(1));
    let chat = new_chat(&first).await;
    let body = json!({ "toolId": "run_command", "args": { "command": "true" } });
    let waiting = first.post(&calls(&chat), &body).await.expect(202);
    let mut heard = Listener::new(&second, &second.token).await;
    first.signal(Signal::TERM);
    assert!(first.wait().success());
    // Nobody looks at it, which would end it, too.
    heard.until(|name, data| name == "tool_call" && data["id"] == waiting["id"] && data["status"] == "error").await;
    let ended = over(&second, &format!("{}/{}", calls(&chat), waiting["id"].as_str().unwrap())).await;
    assert_eq!(ended["error"]["code"], "DENIED", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_thought_dead_writes_nothing_when_it_wakes() {
    let (installation, [first, second]) = nodes::<2>().await;
    let chat = new_chat(&first).await;
    let word = format!("1{}.5", std::process::id());
    let script = format!("touch begun; (sleep {word} &) ; sleep 1; echo late >file");
    let begun = begin(&first, &chat, &script).await;
    until_there(&installation.folder(0).join("chats").join(&chat).join("workspace/begun")).await;
    first.signal(Signal::STOP);

    // Whoever asks meanwhile is told to come again: nobody knows whether it was heard.
    let answer = until("the other has the chat", async || {
        let answer = command(&second, &chat, "ls; echo early >file; cat file").await;
        match answer.status.as_u16() {
            503 if answer.headers.contains_key("retry-after") => None,
            _ => Some(answer),
        }
    });
    assert_eq!(output(answer.await), "early");
    first.signal(Signal::CONT);
    let ended = over(&second, &begun).await;
    assert_eq!(ended["error"]["code"], "INTERRUPTED", "{ended}");
    until("it knows that it was thought dead", async || first.log().contains("took this one for dead").then_some(()))
        .await;
    until("nothing runs of it", async || (!is_running(&word)).then_some(())).await;
    // It serves again, by asking who has the chat now, whose states are all that there are.
    assert_eq!(output(command(&first, &chat, "ls; cat file").await), "file\nearly");
    let manifests = second.get(&format!("{CHATS}/{chat}/workspace/manifests")).await.expect(200);
    assert_eq!(manifests["items"].as_array().unwrap().len(), 1, "{manifests}");
    assert_eq!(over(&first, &begun).await["error"]["code"], "INTERRUPTED");
    // And holds what nobody else does.
    let other = new_chat(&first).await;
    assert_eq!(output(command(&first, &other, "echo mine").await), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_on_the_web_answered_a_node_that_was_thought_dead_is_no_success() {
    let (_installation, [first, second]) = nodes::<2>().await;
    let behind = Behind::start(true).await;
    let launch = json!({
        "id": "behind", "serverType": "streamable-http", "url": behind.url(), "requiresConfirmation": false,
    });
    first.post(SERVERS, &launch).await.expect(201);
    until("its tools are known", async || {
        let shown = first.get(&format!("{SERVERS}/behind")).await.expect(200);
        (shown["status"] == "connected" && !shown["toolsSeenAt"].is_null()).then_some(())
    })
    .await;
    let chat = new_chat(&first).await;
    let body = json!({ "toolId": "mcp:behind~behind:echo", "args": { "seconds": 3.0 } });
    let told = tokio::spawn(Answer::of(first.request(Method::POST, &calls(&chat)).json(&body)));
    // Its record is written, and it is at the server.
    let id = until("the other knows of the call", async || {
        let all = second.get(&calls(&chat)).await;
        let call = all.body["items"].as_array()?.first()?.clone();
        (!behind.calls().is_empty()).then(|| call["id"].as_str().unwrap().to_owned())
    })
    .await;
    let answered = behind.answered();
    first.signal(Signal::STOP);
    until("it is answered to who sleeps", async || (behind.answered() > answered).then_some(())).await;
    let ended = over(&second, &format!("{}/{id}", calls(&chat))).await;
    assert_eq!(ended["error"]["code"], "INTERRUPTED", "{ended}");
    first.signal(Signal::CONT);
    let ended = told.await.unwrap().expect(200);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_folder_that_is_served_is_not_served_and_ends_nothing() {
    let (installation, [mut first, second]) = nodes::<2>().await;
    let chat = new_chat(&first).await;
    let begun = begin(&first, &chat, "touch begun; sleep 600").await;
    until_there(&installation.folder(0).join("chats").join(&chat).join("workspace/begun")).await;
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(installation.folder(0).join("node"), copy.path().join("node")).unwrap();
    let url = installation.database.url(kitbag_testkit::cluster::APP);
    let serve = installation.program(0, url.expose()).env("KITBAG_DATA", copy.path().to_str().unwrap());
    let refused = serve.inside(&["timeout", "60"]).run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains(&first.url) && refused.stderr.contains("copy"), "{}", refused.stderr);
    assert_eq!(second.get(&begun).await.expect(200)["status"], "running");

    // Nobody answers for one that was killed: what it had begun is ended at once, by whoever comes next.
    first.signal(Signal::KILL);
    first.wait();
    let again = installation.start(0, &[]);
    assert_eq!(over(&again, &begun).await["error"]["code"], "INTERRUPTED");
}
