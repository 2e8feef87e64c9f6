//! Nodes that are told to stop while they cannot say anything to the database.

use rustix::process::Signal;
use serde_json::json;

use crate::apart::{Apart, State, all_are, all_say_so, are_there, until_told};
use crate::kit::{begin, calls, command, is_running, is_whole, output, over, until, until_there};

/// A node without its database has a call that runs and one whose end is kept when it is told to stop.
async fn a_node_stops_while_its_database_is(state: State) {
    let mut apart = Apart::with(&["--drain-seconds", "1"]).await;
    let word = format!("6{}.25", std::process::id());
    let runs = begin(&apart.servers[0], &apart.chats[0], &format!("touch begun; sleep {word}")).await;
    until_there(&apart.workspace(0, &apart.chats[0]).join("begun")).await;
    let chat = crate::kit::new_chat(&apart.servers[0]).await;
    let script = "touch begun; until test -e go; do sleep 0.05; done; touch late";
    let body = json!({ "toolId": "run_command", "args": { "command": script } });
    let (id, hears) = until_told(&apart.servers[0], &chat, body).await;
    let workspace = apart.workspace(0, &chat);
    until_there(&workspace.join("begun")).await;
    // Both of them, so that nobody takes it for dead before it stops.
    all_are(&apart.ways, state);
    all_say_so(&apart.servers).await;
    std::fs::write(workspace.join("go"), "").unwrap();
    let [first, second] = &mut apart.servers;
    until("its end is kept", async || first.log().contains("the end of a call").then_some(())).await;
    first.signal(Signal::TERM);
    assert!(first.wait().success(), "{}", first.log());
    until("nothing runs of it", async || (!is_running(&word)).then_some(())).await;
    // Whoever waits is told that it is not known, or hears nothing: nobody is told an end that nobody keeps.
    if let Ok(answer) = hears.await {
        assert_eq!(answer.status, 503, "{answer:?}");
    }
    for way in &apart.ways {
        way.is(State::Open);
    }
    for path in [runs, format!("{}/{id}", calls(&chat))] {
        let ended = over(second, &path).await;
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{ended}");
    }
    are_there(&apart.installation, 1).await;
    let second = &apart.servers[1];
    assert_eq!(output(command(second, &apart.chats[0], "ls; cat file").await), "file\nbefore");
    assert_eq!(output(command(second, &chat, "ls; echo there").await), "there");
    for chat in [&apart.chats[0], &chat] {
        is_whole(second, chat).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_stops_while_its_database_is_away() {
    a_node_stops_while_its_database_is(State::Cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_stops_while_its_database_says_nothing() {
    a_node_stops_while_its_database_is(State::Silent).await;
}
