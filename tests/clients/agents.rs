//! Agents with a stand-in for their model: configured by `kitbag mcp config --install`, they call a tool of Kitbag.

use kitbag_testkit::{Program, TestDatabase};
use serde_json::{Value, json};

use crate::drive::{drive, names};
use crate::kit::{node, with};
use crate::{BINARY, calls, ends, served};

/// The agent uses what Kitbag wrote into its file, in the home folder of nobody.
async fn by_its_own_configuration(agent: &str, more: &[&str]) {
    let database = TestDatabase::sqlite();
    let (server, chat) = served(&database).await;
    let home = tempfile::tempdir().unwrap();
    let program = Program::on(BINARY, &database).env("HOME", home.path().to_str().unwrap());
    let words = ["--json", "mcp", "config", agent, "--install", "--toolsets", "words", "--chat", &chat];
    let installed = program.run(&[words.as_slice(), more].concat()).json();
    assert_eq!(installed["installed"], true, "{installed}");
    let call = json!({ "name": "words__shout", "arguments": { "text": "hello" } });
    let seen = drive("agents.py", &json!({ "agent": agent, "home": home.path(), "call": call })).await;
    assert_eq!(seen["failure"], Value::Null, "{seen}");
    assert_eq!(names(&seen), ["words__count", "words__shout"], "{seen}");
    assert!(seen["heard"].to_string().contains("HELLO") && seen["said"].as_str().unwrap().contains("HELLO"), "{seen}");
    let called = calls(&server, &chat, 1).await;
    assert_eq!(ends(&called), [("words:shout", "success")]);
    assert_eq!((&called[0]["args"], &called[0]["chatId"]), (&json!({ "text": "hello" }), &json!(chat)));
}

/// The agent and the stand-in, with a server of somebody else's: if this fails, it says nothing about Kitbag.
async fn without_kitbag(agent: &str) {
    let home = tempfile::tempdir().unwrap();
    let call = json!({ "name": "echo", "arguments": { "message": "hello" } });
    let job = json!({ "agent": agent, "home": home.path(), "call": call });
    let seen = drive("agents.py", &with(job, node("server-everything", &["stdio"]))).await;
    assert_eq!(seen["failure"], Value::Null, "{seen}");
    assert!(seen["heard"].to_string().contains("Echo: hello"), "{seen}");
}

macro_rules! each {
    ($($name:ident $agent:literal)+) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn dials() {
                super::by_its_own_configuration($agent, &[]).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn starts_a_process() {
                super::by_its_own_configuration($agent, &["--stdio"]).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn without_kitbag() {
                super::without_kitbag($agent).await;
            }
        })+
    };
}

each! {
    claude_code "claude-code"
    codex "codex"
    opencode "opencode"
}
