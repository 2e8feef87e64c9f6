//! What ends before any model is asked, and what is not there because it is off.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use kitbag_model::run::{EngineId, RunEventKind, RunState};
use serde_json::{Value, json};

use crate::kit::{Kit, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_is_missing() {
    for (variable, why) in [("ZOO_ABSENT", "is not set"), ("DATABASE_URL", "not on the list")] {
        let mut kit = Kit::new(EngineId::Claude, &json!([]));
        let env = [("KEY", format!("${{ENV:{variable}}}"))];
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
        kit.toolset().mcp_servers.push(server("other", "node", &[], &env));
        let over = kit.run().await;
        over.fails(&format!("MCP_ENV_NOT_SET:{variable}"));
        assert!(over.outcome.error.as_ref().unwrap().message.contains(why), "{:?}", over.outcome);
        assert_eq!(kit.model.asked(), Vec::<Value>::new());
        assert_eq!(kit.alive(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_off_is_not_there() {
    let mut kit = Kit::new(EngineId::Claude, &json!([{ "text": "Done." }]));
    let mut off = server("other", "/bin/false", &[], &[("KEY", "${ENV:ZOO_ABSENT}")]);
    off.enabled = false;
    kit.toolset().mcp_servers.push(off);
    kit.toolset().agent_skills[0].enabled = false;
    let over = kit.run_and(|_, work| assert!(!work.join("skills").exists() && !work.join(".claude").exists())).await;
    over.says("Done.");
    let offered = kit.model.offered();
    assert!(!offered.is_empty() && offered.iter().all(|name| name.starts_with("mcp__every__")), "{offered:?}");
    assert!(!kit.model.asked()[0].to_string().contains(crate::kit::ABOUT));
    let RunEventKind::AgentToolsetApplied { servers, skills, .. } = &over.events[0] else {
        panic!("{:?}", over.events)
    };
    assert_eq!((servers.len(), skills.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_toolset_no_tools() {
    use kitbag_model::run::{Application, NotApplied};
    let mut kit = Kit::new(EngineId::Claude, &json!([{ "text": "Done." }]));
    kit.job.application = Application::Nothing(NotApplied::NoToolset);
    kit.job.toolset = None;
    let over = kit.run().await;
    over.says("Done.");
    assert!(matches!(&over.events[0], RunEventKind::ToolsetNotApplied { reason } if reason.contains("neither")));
    assert_eq!(kit.model.offered(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_is_missing_or_too_old() {
    for engine in EngineId::ALL {
        let mut kit = Kit::new(*engine, &json!([]));
        let folder = kit.root.path().join("bin");
        std::fs::create_dir(&folder).unwrap();
        kit.machine.programs = vec![folder.clone()];
        let over = kit.run().await;
        over.fails("EXECUTOR_CLI_NOT_FOUND");
        assert!(over.outcome.error.as_ref().unwrap().message.contains(engine.as_str()), "{:?}", over.outcome);
        let name = match engine {
            EngineId::Claude => "claude",
            EngineId::Codex => "codex",
            EngineId::OpenCode => "opencode",
            EngineId::ClaudeAgentSdk => "node",
        };
        put(folder.join(name), "echo 0.9.9");
        let over = kit.run().await;
        over.fails("EXECUTOR_CLI_TOO_OLD");
        assert!(over.outcome.error.as_ref().unwrap().message.contains("or later is needed"), "{:?}", over.outcome);
        assert_eq!(kit.model.asked(), Vec::<Value>::new());
    }
}

/// Node is there, and the SDK is not, or is too old.
#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_is_missing_or_too_old() {
    let mut kit = Kit::new(EngineId::ClaudeAgentSdk, &json!([]));
    let folder = kit.root.path().join("bin");
    std::fs::create_dir(&folder).unwrap();
    put(folder.join("node"), "echo v22.0.0");
    kit.machine.programs = vec![folder];
    let over = kit.run().await;
    over.fails("EXECUTOR_CLI_NOT_FOUND");
    assert!(over.outcome.error.as_ref().unwrap().message.contains("@anthropic-ai/claude-agent-sdk"));
    let package = kit.root.path().join("lib/node_modules/@anthropic-ai/claude-agent-sdk");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("package.json"), json!({ "version": "0.1.77" }).to_string()).unwrap();
    kit.run().await.fails("EXECUTOR_CLI_TOO_OLD");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_none() {
    let kit = Kit::new(EngineId::Claude, &json!([]));
    let kit = kit.with("output", json!({ "mode": "json", "jsonSchema": { "type": "nonsense" } }));
    kit.run().await.fails("INVALID_AGENT_RUN_PAYLOAD");
    assert_eq!(kit.model.asked(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_long_and_a_run_that_is() {
    let kit = Kit::new(EngineId::Claude, &json!([{ "text": "x".repeat(300) }]));
    kit.with("limits", json!({ "maxOutputChars": 256 })).run().await.fails("OUTPUT_TOO_LARGE");
    let kit = Kit::new(EngineId::Claude, &json!([{ "hang": true }])).with("limits", json!({ "timeoutMs": 5000 }));
    let over = kit.run().await;
    over.fails("NODE_EXECUTION_TIMEOUT");
    assert_eq!(over.outcome.state, RunState::TimedOut);
    assert_eq!(kit.alive(), Vec::<String>::new());
}

pub(crate) fn put(path: PathBuf, script: &str) {
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
