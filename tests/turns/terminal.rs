//! `kitbag chat ask`: the same turn in the terminal, with a server and without one.

use std::time::Duration;

use kitbag_testkit::model::{Anthropic, Reply, StandIn};
use kitbag_testkit::{Program, TestDatabase};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::BINARY;
use crate::kit::{CHATS, serve};

fn script(models: &StandIn) {
    models.messages(
        Anthropic::new()
            .text(&["Let me ", "see."])
            .tool_call("toolu_1", "write_file", &[r#"{"path":"a.txt","content":"A"}"#])
            .tool_call("toolu_2", "run_command", &[r#"{"command":"echo hello"}"#])
            .ends("tool_use"),
    );
    models.messages(Anthropic::new().text(&["Done."]).ends("end_turn"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_in_the_terminal() {
    let (database, models) = (TestDatabase::sqlite(), StandIn::start());
    let program = Program::on(BINARY, &database);
    let _server = serve(&database, &models, &[]);
    script(&models);
    let chat = program.run(&["chat", "new"]).stdout.trim().to_owned();
    // Nobody is there to say yes, so the one that asks is denied.
    let said = program.run(&["chat", "ask", "Write A.", "--chat", &chat]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Let me see.\nDone.\n"), "{said:?}");
    assert!(said.stderr.contains("-> write_file") && said.stderr.contains("--yes does"), "{said:?}");
    assert!(said.stderr.contains("<- failed: somebody said no"), "{said:?}");
    script(&models);
    let said = program.run(&["--json", "chat", "ask", "Write A.", "--chat", &chat, "--yes"]).json();
    assert_eq!((&said["done"]["state"], &said["chatId"]), (&json!("done"), &json!(chat)));
    assert!(models.asked().last().unwrap().body["messages"].to_string().contains("hello"));
    // What was said is answered again by its id.
    let shown = program.run(&["--json", "chat", "show", &chat]).json();
    let first = shown["messages"][0]["id"].as_str().unwrap().to_owned();
    models.messages(Anthropic::new().text(&["Again."]).ends("end_turn"));
    assert_eq!(program.run(&["chat", "ask", "--again", &first, "--chat", &chat]).stdout, "Again.\n");
    // What goes wrong is told, with an exit code.
    models.messages(Reply::json(
        400,
        &json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "too long" } }),
    ));
    let failed = program.run(&["chat", "ask", "Hm?", "--chat", &chat]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("too long"), "{failed:?}");
    let wrong = program.run(&["chat", "ask", "Hm?", "--chat", &chat, "--model", "claude"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("anthropic/<model>"), "{wrong:?}");
    assert_eq!(program.run(&["chat", "ask", "--chat", &chat]).code, Some(2));
    let blank = program.run(&["chat", "ask", " ", "--chat", &chat]);
    assert!(blank.code == Some(2) && blank.stderr.contains("say something"), "{blank:?}");
}

/// Whoever ends the program ends its turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_ended_takes_its_turn_with_it() {
    let (database, models) = (TestDatabase::sqlite(), StandIn::start());
    let program = Program::on(BINARY, &database);
    let server = serve(&database, &models, &[]);
    for sent in [Signal::TERM, Signal::INT] {
        models.messages(Anthropic::new().text(&["Let me "]).as_it_is().hang());
        let chat = program.run(&["chat", "new"]).stdout.trim().to_owned();
        let mut child = program.start(&["chat", "ask", "Think.", "--chat", &chat]);
        let turns = format!("{CHATS}/{chat}/turns");
        let is_running = async || server.get(&turns).await.expect(200)["items"] != json!([]);
        while !is_running().await {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was asked to");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        kill_process(Pid::from_child(&child), sent).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1));
        assert!(!is_running().await, "{sent:?}");
    }
}

/// One person needs no server.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_server() {
    let (database, models) = (TestDatabase::sqlite(), StandIn::start());
    script(&models);
    std::fs::write(
        database.data().join("kitbag.toml"),
        format!("anthropic_url = \"{}\"\nmodel = \"anthropic/claude-test\"\n", models.url()),
    )
    .unwrap();
    let program = Program::on(BINARY, &database);
    let chat = program.run(&["chat", "new"]).stdout.trim().to_owned();
    let said = program.run(&["chat", "ask", "Write A.", "--chat", &chat, "--yes"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Let me see.\nDone.\n"), "{said:?}");
}
