//! `kitbag run` and `kitbag runs`. How a run is followed to its end, with agents that really work, is for `tests/runs`.

use kitbag_testkit::{Program, Server, TestDatabase};
use serde_json::json;

use crate::{BINARY, assert_failed};

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_asked_for_looked_at_and_ended() {
    let database = TestDatabase::sqlite();
    let program = Program::on(BINARY, &database);
    assert_failed(&program.run(&["run", "Say hello"]), 1, "kitbag serve");
    let _server = Server::start(BINARY, &database, &[]);
    assert_eq!(program.run(&["--json", "runs", "list"]).json(), json!({ "items": [] }));
    assert_eq!(program.run(&["runs", "list"]).stdout.trim(), "There are no runs.");
    let invited = program.run(&["runs", "executors", "invite", "--label", "gpu"]).stdout;
    assert!(
        invited.contains("kitbag executor pair kitbagpair_local.") && invited.contains("--server http://"),
        "{invited}"
    );
    assert!(program.run(&["runs", "executors", "list"]).stdout.contains("There are no executors"));
    assert_failed(&program.run(&["runs", "executors", "revoke", "nope"]), 1, "nope");

    let asked = program.run(&["run", "Say hello", "--engine", "codex", "--name", "Greeting", "--detach"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let id = asked.stdout.trim();
    let shown = program.run(&["runs", "show", id]).stdout;
    assert!(shown.contains("queued") && shown.contains("gateway.codex.v2") && shown.contains("pair one"), "{shown}");
    let listed = program.run(&["runs", "list", "--state", "queued"]).stdout;
    assert!(listed.starts_with("RUN ") && listed.contains(id) && listed.contains("Greeting"), "{listed}");
    assert_eq!(program.run(&["runs", "cancel", id]).stdout.trim(), "cancelled");
    assert_failed(&program.run(&["runs", "cancel", id]), 1, "over");
    // What is over is followed to its end at once, and says by its exit code that it has no answer.
    assert_failed(&program.run(&["runs", "follow", id]), 1, "cancelled");
    let again = program.run(&["--json", "runs", "retry", id]).json();
    assert_eq!((&again["retryOf"], &again["state"]), (&json!(id), &json!("queued")));
    assert_failed(&program.run(&["runs", "apply", id]), 1, "left no files");

    assert_failed(&program.run(&["run", "x", "--engine", "gpt"]), 2, "engine.id");
    assert_failed(&program.run(&["run", "@/nowhere/at/all"]), 1, "/nowhere/at/all");
    assert_failed(&program.run(&["run", "x", "--toolset", "nobodys"]), 1, "nobodys");
    assert_failed(&program.run(&["runs", "list", "--state", "asleep"]), 2, "state");
    assert_failed(&program.run(&["runs", "show", "nope"]), 1, "nope");
}
