//! A database that goes away between the work of a call and its end, at a node that remembers nothing of the chat's tree.

use kitbag_testkit::cluster::{APP, SUPERUSER, run, try_run};
use rustix::process::Signal;
use serde_json::json;

use crate::apart::{State, Way, all_are_ready, all_say_so, socket_of, until_told};
use crate::kit::{Installation, ask_nobody, calls, command, new_chat, output, over, until, until_there};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_left_is_kept_though_the_tree_could_not_be_read_when_it_ended() {
    let installation = Installation::new(1).await;
    let url = installation.database.url(APP);
    let way = Way::to(socket_of(url.expose()));
    let start = || installation.start_on(0, &way.url(url.expose()), &[]);
    let mut server = start();
    ask_nobody(&server).await;
    let chat = new_chat(&server).await;
    output(command(&server, &chat, "for i in $(seq 3000); do echo before >$i.txt; done").await);
    // After a start it knows at which state the folder is, and of what that consists only the top, which each call looks at first.
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let server = [start()];
    let script = "touch begun; until test -e go; do sleep 0.05; done; rm go begun; echo during >1500.txt";
    let body = json!({ "toolId": "run_command", "args": { "command": script } });
    let (id, waiting) = until_told(&server[0], &chat, body).await;
    let workspace = installation.folder(0).join("chats").join(&chat).join("workspace");
    until_there(&workspace.join("begun")).await;
    // It goes away when a node of the tree is asked for, and not before.
    let (mut holding, mut looking) =
        (installation.database.connect(SUPERUSER).await, installation.database.connect(SUPERUSER).await);
    run(&mut holding, "BEGIN").await;
    run(&mut holding, "LOCK TABLE workspace_nodes IN ACCESS EXCLUSIVE MODE").await;
    std::fs::write(workspace.join("go"), "").unwrap();
    let asked = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'SELECT bytes FROM workspace_nodes%'";
    until("a node is asked for", async || (try_run(&mut looking, asked).await.unwrap() > 0).then_some(())).await;
    way.is(State::Cut);
    run(&mut holding, "ROLLBACK").await;
    all_say_so(&server).await;
    // It is over when nobody waits for it any more, and is not recorded.
    waiting.await.unwrap().expect_error(503, "UNAVAILABLE");
    way.is(State::Open);
    all_are_ready(&server).await;
    let ended = over(&server[0], &format!("{}/{id}", calls(&chat))).await;
    assert_eq!(ended["status"], "success", "{ended}");
    assert_eq!(output(command(&server[0], &chat, "cat 1500.txt 1501.txt").await), "during\nbefore");
}
