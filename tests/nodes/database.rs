//! A database that goes away, or says nothing any more, and comes back.

use kitbag_testkit::cluster::{SUPERUSER, try_run};
use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::Method;
use serde_json::json;

use crate::apart::{Apart, State, all_are, all_are_ready, all_say_so, until_told};
use crate::kit::{BINARY, ask_nobody, begin, calls, command, is_whole, new_chat, output, over, until, until_there};
use crate::servers::{Notes, SERVERS, connected};

#[tokio::test(flavor = "multi_thread")]
async fn nodes_without_their_database_say_so_and_recover() {
    let apart = Apart::new().await;
    let Apart { servers, chats, ways, .. } = &apart;
    let begun = begin(&servers[0], &chats[0], "touch begun; sleep 3; echo during >file").await;
    until_there(&apart.workspace(0, &chats[0]).join("begun")).await;

    // Longer than a node may be silent.
    all_are(ways, State::Cut);
    all_say_so(servers).await;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    all_are(ways, State::Open);
    all_are_ready(servers).await;
    // Nobody was taken for dead, for all were away: what ran goes on to its end.
    let ended = over(&servers[1], &begun).await;
    assert_eq!(ended["status"], "success", "{ended}");
    for (server, chat) in servers.iter().rev().zip(chats) {
        assert_eq!(
            output(command(server, chat, "cat file").await),
            if *chat == chats[0] { "during" } else { "before" }
        );
        is_whole(server, chat).await;
    }
    for server in servers {
        assert!(!server.log().contains("took this one for dead"), "all were away: {}", server.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_database_says_nothing_say_so_and_recover() {
    let apart = Apart::new().await;
    let Apart { servers, chats, ways, .. } = &apart;
    let begun = begin(&servers[0], &chats[0], "touch begun; sleep 0.5; echo during >file").await;
    until_there(&apart.workspace(0, &chats[0]).join("begun")).await;
    // Nothing is closed, and nothing comes back: longer than a connection is waited for, and than a node may be silent.
    all_are(ways, State::Silent);
    all_say_so(servers).await;
    all_are(ways, State::Open);
    all_are_ready(servers).await;
    for (server, chat) in servers.iter().rev().zip(chats) {
        let file = until("the chat can be used", async || {
            let answer = command(server, chat, "cat file").await;
            (answer.status == 200).then_some(answer)
        });
        assert_eq!(output(file.await), if *chat == chats[0] { "during" } else { "before" });
        is_whole(server, chat).await;
    }
    // What ran while nobody could be told of it was kept as soon as somebody could.
    assert_eq!(over(&servers[1], &begun).await["status"], "success");
    for server in servers {
        assert!(!server.log().contains("took this one for dead"), "all were away: {}", server.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_the_database_was_away_for_longer_than_anybody_waits_is_recorded_when_it_is_back() {
    let apart = Apart::new().await;
    let Apart { servers, chats, ways, .. } = &apart;
    let notes = Notes::new();
    let mut launch = notes.launch();
    launch["strictRecords"] = json!(true);
    servers[0].post(SERVERS, &launch).await.expect(201);
    connected(&servers[0]).await;
    let script = "until test -e go; do sleep 0.05; done; echo during >file";
    let body = json!({ "toolId": "run_command", "args": { "command": script } });
    let (in_workspace, hears_of_it) = until_told(&servers[0], &chats[0], body).await;
    let mark = notes.mark("mark");
    let body = json!({ "toolId": "mcp:keeps~keeps:wait", "args": { "seconds": 1.0, "mark": mark } });
    let (of_server, hears_of_that) = until_told(&servers[0], &chats[1], body).await;
    until_there(&mark).await;

    all_are(ways, State::Cut);
    all_say_so(servers).await;
    std::fs::write(apart.workspace(0, &chats[0]).join("go"), "").unwrap();
    // Nobody waits for as long as that, and nobody is told that it failed.
    for waiting in [hears_of_it, hears_of_that] {
        waiting.await.unwrap().expect_error(503, "UNAVAILABLE");
    }
    all_are(ways, State::Open);
    all_are_ready(servers).await;
    for (chat, id) in [(&chats[0], &in_workspace), (&chats[1], &of_server)] {
        let ended = over(&servers[1], &format!("{}/{id}", calls(chat))).await;
        assert_eq!(ended["status"], "success", "{ended}");
    }
    assert_eq!(output(command(&servers[1], &chats[0], "cat file").await), "during");
}

/// What is written in that moment was kept, or was not, and nobody is told which.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_asked_for_when_the_database_went_away_does_not_stay_running() {
    let apart = Apart::new().await;
    let Apart { servers, chats, ways, .. } = &apart;
    // What is recorded of a call takes its time to be kept, and is kept whoever waits for that.
    apart
        .installation
        .database
        .change(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON tool_calls DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION slowly()",
        )
        .await;
    let body = json!({ "toolId": "run_command", "args": { "command": "touch ran" } });
    let asking = tokio::spawn(Answer::of(servers[0].request(Method::POST, &calls(&chats[0])).json(&body)));
    let mut superuser = apart.installation.database.connect(SUPERUSER).await;
    let kept = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT' AND wait_event = 'PgSleep'";
    until("it is about to be kept", async || (try_run(&mut superuser, kept).await.unwrap() > 0).then_some(())).await;
    all_are(ways, State::Cut);
    asking.await.unwrap().expect_error(503, "UNAVAILABLE");
    until("it is kept", async || (try_run(&mut superuser, kept).await.unwrap() == 0).then_some(())).await;
    all_are(ways, State::Open);
    all_are_ready(servers).await;
    let all = servers[1].get(&calls(&chats[0])).await.expect(200);
    let newest = all["items"].as_array().unwrap().iter().find(|call| call["args"]["command"] == "touch ran");
    let id = newest.unwrap_or_else(|| panic!("it was not kept: {all}"))["id"].as_str().unwrap();
    let ended = over(&servers[1], &format!("{}/{id}", calls(&chats[0]))).await;
    assert_eq!(ended["error"]["code"], "INTERRUPTED", "{ended}");
    let workspace = apart.workspace(0, &chats[0]);
    assert!(!workspace.join("ran").exists(), "nobody was told that it runs");
}

/// Another program that writes for long is all that can keep SQLite from a single server.
#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_sqlite_was_locked_is_recorded_when_it_is_free() {
    let database = TestDatabase::sqlite();
    let server = Server::start(BINARY, &database, &["--node-lease-seconds", "2"]);
    ask_nobody(&server).await;
    let chat = new_chat(&server).await;
    let body = json!({ "toolId": "run_command", "args": { "command": "until test -e go; do sleep 0.05; done; echo it >file" } });
    let (id, waiting) = until_told(&server, &chat, body).await;
    let workspace = database.data().join("chats").join(&chat).join("workspace");
    until("the workspace is there", async || workspace.exists().then_some(())).await;
    let locked = database.locked().await;
    std::fs::write(workspace.join("go"), "").unwrap();
    waiting.await.unwrap().expect_error(503, "UNAVAILABLE");
    drop(locked);
    let ended = over(&server, &format!("{}/{id}", calls(&chat))).await;
    assert_eq!(ended["status"], "success", "{ended}");
    assert_eq!(output(command(&server, &chat, "cat file").await), "it");
}
