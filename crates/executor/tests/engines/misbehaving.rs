//! Engines that do not behave: each is a script with the name of one. None of them outlives its attempt, and none costs more than it.

use kitbag_model::run::{EngineId, RunEventKind, RunState};
use serde_json::{Value, json};

use crate::kit::{Kit, Over, SECRET};
use crate::refused::put;

/// What the scripts say to be understood.
const SAY: &str = r#"
begin() { echo '{"type":"turn.started"}'; }
answer() { echo '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"Done."}}'; echo '{"type":"turn.completed","usage":{}}'; }
"#;

async fn run(script: &str, limits: Value) -> (Kit, Over) {
    let mut kit = Kit::new(EngineId::Codex, &json!([])).with("limits", limits);
    kit.toolset().mcp_servers.clear();
    let folder = kit.root.path().join("bin");
    std::fs::create_dir(&folder).unwrap();
    put(folder.join("codex"), &format!("[ \"$1\" = --version ] && {{ echo codex-cli 9.9.9; exit; }}\n{SAY}\n{script}"));
    kit.machine.programs = vec![folder];
    let over = kit.run().await;
    assert_eq!(kit.alive(), Vec::<String>::new(), "{script}");
    (kit, over)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_floods() {
    // What is not for anybody is bounded by what may be told; the answer comes all the same.
    let (_, over) = run("begin; yes flood | head -n 300000; answer", json!({ "maxRuntimeChars": 5000 })).await;
    over.says("Done.");
    assert!(over.told().len() < 20_000, "{}", over.told().len());
    assert!(over.events.iter().any(|event| matches!(event, RunEventKind::Log { level, .. } if level == "warn")));
    // Beside, and for ever.
    let (_, over) = run("begin; yes flood >&2", json!({ "timeoutMs": 3000 })).await;
    assert!(matches!(over.outcome.state, RunState::TimedOut | RunState::Failed), "{:?}", over.outcome);
    // One line without an end.
    let (_, over) = run("begin; tr '\\0' x < /dev/zero", json!({ "timeoutMs": 60_000 })).await;
    over.fails("EXECUTOR_CLI_FAILED");
    assert!(over.outcome.error.unwrap().message.contains("a line of more than"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_hangs_and_does_not_want_to_end() {
    let (_, over) = run("trap '' TERM INT HUP; begin; while :; do sleep 1; done", json!({ "timeoutMs": 1000 })).await;
    assert_eq!(over.outcome.state, RunState::TimedOut);
    // It has answered, and stays.
    let (_, over) = run("trap '' TERM; begin; answer; while :; do sleep 1; done", json!({})).await;
    over.says("Done.");
    // It closes everything, and stays.
    let (_, over) = run("begin; answer; exec >&- 2>&-; sleep 1000", json!({})).await;
    over.says("Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_half_a_line() {
    let (_, over) = run("begin; printf '{\"type\":\"item.compl'; sleep 1000", json!({ "timeoutMs": 1000 })).await;
    assert_eq!(over.outcome.state, RunState::TimedOut);
    let (_, over) = run("begin; printf '{\"type\":\"item.compl'; exit 0", json!({})).await;
    over.fails("EXECUTOR_CLI_FAILED");
    let (_, over) = run("begin; printf '\\377\\376 no text\\n[1]\\n\"a\"\\nnull\\n'; answer", json!({})).await;
    over.says("Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_leaves_somebody_behind() {
    // Who holds its output open, in a session of its own, and ignores what it is asked.
    let stays = "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &";
    let (_, over) = run(&format!("begin; {stays}\nanswer; exit 0"), json!({})).await;
    over.says("Done.");
    let (_, over) = run(&format!("begin; {stays}\nexit 3"), json!({})).await;
    over.fails("EXECUTOR_CLI_FAILED");
    // A process that was forked twice.
    let (_, over) = run("begin; (setsid sh -c 'sleep 1000' &) &\nanswer", json!({})).await;
    over.says("Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tells_a_secret_when_it_fails() {
    let mut kit = Kit::new(EngineId::Codex, &json!([]));
    let folder = kit.root.path().join("bin");
    std::fs::create_dir(&folder).unwrap();
    let lines = format!("i=0; while [ $i -lt 2000 ]; do echo {SECRET}; echo {SECRET} >&2; i=$((i+1)); done; exit 3");
    put(folder.join("codex"), &format!("[ \"$1\" = --version ] && {{ echo codex-cli 9.9.9; exit; }}\n{lines}"));
    kit.machine.programs = vec![folder];
    let over = kit.run().await;
    over.fails("EXECUTOR_CLI_FAILED");
    let told = over.told();
    // Not even the end of one that was cut in two.
    assert!(!told.contains("variable\\n") && !told.contains(SECRET) && !told.contains(&SECRET[8..]), "{told}");
}
