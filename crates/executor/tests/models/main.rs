//! The same as with a stand-in, with the models themselves. It costs money and needs keys, so it is not part of the tests that every
//! change must pass: `make test-models` runs it.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../engines/kit.rs"]
#[allow(dead_code, reason = "the tests with a stand-in need more of it")]
mod kit;
#[path = "../engines/stand_in.rs"]
#[allow(dead_code, reason = "the tests with a stand-in need more of it")]
mod stand_in;

use kitbag_model::run::{EngineId, RunEventKind};
use serde_json::{Value, json};

use crate::kit::{Kit, SECRET, path_of_programs, with_values};

/// A word that no model says by itself.
const WORD: &str = "quagga-4711";

/// A key of this machine. Without it there is nothing to test, which is a failure and not a success.
fn key(name: &str) -> String {
    std::env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| {
        panic!("{name} is not set: these tests ask the real models, with keys of yours from the environment")
    })
}

async fn works(engine: EngineId) {
    let keys = match engine {
        EngineId::Codex => ["OPENAI_API_KEY", "OPENAI_BASE_URL", "KITBAG_TEST_OPENAI_MODEL"],
        _ => ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "KITBAG_TEST_ANTHROPIC_MODEL"],
    };
    let key = key(keys[0]);
    let mut kit = Kit::new(engine, &json!([]));
    let other = |name: &str| std::env::var(name).unwrap_or_default();
    let values = [
        ("PATH".to_owned(), path_of_programs()),
        ("HOME".to_owned(), kit.root.path().display().to_string()),
        ("ZOO_TOKEN".to_owned(), SECRET.to_owned()),
        (keys[0].to_owned(), key.clone()),
        (keys[1].to_owned(), other(keys[1])),
    ];
    kit.machine = with_values(&kit.root, kit.machine.programs.clone(), values);
    let model = other(keys[2]);
    kit.job.config["engine"] = match (model.is_empty(), engine) {
        (true, _) => json!({ "id": engine }),
        (false, EngineId::OpenCode) => json!({ "id": engine, "model": format!("anthropic/{model}") }),
        (false, _) => json!({ "id": engine, "model": model }),
    };
    let prompt = format!(
        "Call the tool `echo` of the MCP server `every` with the message {WORD:?}. Then call its tool `get-sum` with 19 and 23. \
         Answer with what echo returned, the sum, and the names of the skills that you have."
    );
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["echo", "sum", "skills"],
        "properties": {
            "echo": { "type": "string" }, "sum": { "type": "integer" },
            "skills": { "type": "array", "items": { "type": "string" } },
        },
    });
    let kit = kit.with("prompt", json!(prompt)).with("output", json!({ "mode": "json", "jsonSchema": schema }));
    let over = kit.run().await;
    let answer = over.says(WORD).outcome.output.clone().unwrap();
    assert_eq!(answer["sum"], 42, "{answer}");
    assert!(answer["skills"].to_string().contains("greet"), "{answer}");
    let called: Vec<String> = over.calls().into_iter().map(|(tool, _)| tool).collect();
    assert!(called.iter().any(|tool| tool == "mcp__every__echo"), "{called:?}");
    assert!(over.events.iter().any(|event| matches!(event, RunEventKind::Usage { input_tokens: 1.., .. })));
    assert!(!over.told().contains(&key) && !over.told().contains(SECRET));
    assert_eq!(kit.model.asked(), Vec::<Value>::new(), "the stand-in was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code() {
    works(EngineId::Claude).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex() {
    works(EngineId::Codex).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode() {
    works(EngineId::OpenCode).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_claude_agent_sdk() {
    works(EngineId::ClaudeAgentSdk).await;
}
