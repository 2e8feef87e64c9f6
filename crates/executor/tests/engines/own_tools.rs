//! Kitbag's own tools: the engine uses them on the run's own folder, in the sandbox.

use kitbag_model::PythonNeeds;
use kitbag_model::run::EngineId;
use kitbag_model::run::wire::{ProgramSnapshot, ToolSnapshot};
use serde_json::{Value, json};

use crate::kit::{Kit, path};

const WORDS: &str = "
import os
from pathlib import Path
from covalt_toolset import tool, get_context

@tool
def shout(path: str) -> dict:
    \"\"\"Says the text of a file louder.\"\"\"
    workspace = get_context().workspace
    text = (workspace / path).read_text().upper()
    (workspace / 'loud.txt').write_text(text)
    return {'text': text, 'sees': sorted(p.name for p in workspace.iterdir())}

@tool
def look(path: str) -> str:
    \"\"\"Reads a file of the machine.\"\"\"
    return Path(path).read_text()
";

fn tool(id: &str, requires_confirmation: bool) -> ToolSnapshot {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
    ToolSnapshot {
        id: id.parse().unwrap(),
        entrypoint: format!("words:{}", if id == "shout" { "shout" } else { "look" }).parse().unwrap(),
        title: id.to_owned(),
        description: format!("What {id} does."),
        input_schema: schema.as_object().unwrap().clone(),
        output_schema: None,
        requires_confirmation,
    }
}

/// A toolset with code and nothing else.
fn with_code(engine: EngineId, steps: &Value) -> Kit {
    let mut kit = Kit::new(engine, steps);
    let file = kit.contents.add(WORDS);
    kit.toolset().program = Some(ProgramSnapshot {
        generation: "1".into(),
        files: [(path("tools/words.py"), file)].into(),
        tools: vec![tool("shout", false), tool("look", false), tool("remove", true)],
        needs: PythonNeeds::default(),
        network: false,
        trusted: false,
    });
    kit.toolset().mcp_servers.clear();
    kit.toolset().agent_skills.clear();
    kit
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "tool": format!("mcp__kitbag__{tool}"), "arguments": arguments })
}

async fn are_used(engine: EngineId) {
    let steps = json!([
        call("write_file", &json!({ "path": "notes/a.txt", "content": "hello" })),
        call("shout", &json!({ "path": "notes/a.txt" })),
        call("shout", &json!({ "path": 7 })),
        call("shout", &json!({ "path": "absent.txt" })),
    ]);
    let kit = with_code(engine, &steps).with("tools", json!({ "allow": ["kitbag:write_file"] }));
    let over = kit.run().await;
    over.says("The tool said");
    let work = over.folder.work();
    assert_eq!(std::fs::read_to_string(work.join("notes/a.txt")).unwrap(), "hello", "{:#?}", over.events);
    assert_eq!(std::fs::read_to_string(work.join("loud.txt")).unwrap(), "HELLO");
    let failed: Vec<bool> = over.calls().iter().map(|(_, failed)| *failed).collect();
    // OpenCode shows a failed call of a server as one that worked.
    let told =
        if engine == EngineId::OpenCode { over.calls().len() == 4 } else { failed == [false, false, true, true] };
    assert!(told, "{:#?}", over.events);
    let asked = kit.model.asked().last().unwrap().to_string();
    assert!(asked.contains("HELLO") && asked.contains("given.txt"), "{asked}");
    assert!(asked.contains("absent.txt") && asked.contains("do not fit"), "{asked}");
    // Those that ask somebody are not there, nor those that nobody named.
    let mut offered = kit.model.offered();
    offered.retain(|name| name.starts_with("mcp__"));
    offered.sort();
    assert_eq!(offered, ["mcp__kitbag__look", "mcp__kitbag__shout", "mcp__kitbag__write_file"]);
    assert_eq!(kit.alive(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn by_claude_code() {
    are_used(EngineId::Claude).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_codex() {
    are_used(EngineId::Codex).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_opencode() {
    are_used(EngineId::OpenCode).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_the_claude_agent_sdk() {
    are_used(EngineId::ClaudeAgentSdk).await;
}

/// The code of a toolset sees the run's folder and nothing of the run's home, where the values of variables are.
#[tokio::test(flavor = "multi_thread")]
async fn they_are_confined() {
    let mut kit = with_code(EngineId::Claude, &json!([]));
    let id = kit.job.id;
    let home = kit.root.path().join(format!("runs/acme/{}/1/home", id.run_id));
    let steps = json!([
        call("look", &json!({ "path": home.join("tools.json") })),
        call("look", &json!({ "path": home.join("mcp.json") })),
        call("look", &json!({ "path": "/proc/1/environ" })),
    ]);
    kit.model = crate::stand_in::StandIn::new(&steps);
    kit.machine = crate::kit::machine(&kit.root, kit.machine.programs.clone(), &kit.model.url);
    let over = kit.run().await;
    over.says("The tool said");
    let asked = kit.model.asked().last().unwrap().to_string();
    assert!(over.calls().iter().take(2).all(|(_, failed)| *failed), "{:#?}", over.events);
    assert!(
        !asked.contains("timeoutMs") && !asked.contains("mcpServers") && !asked.contains(crate::kit::KEY),
        "{asked}"
    );
}

/// A run without a toolset has what it names.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_toolset() {
    use kitbag_model::run::{Application, NotApplied};
    let steps = json!([call("run_command", &json!({ "command": "cat given.txt; echo made > made.txt" }))]);
    let mut kit = Kit::new(EngineId::Claude, &steps).with("tools", json!({ "allow": ["mcp__kitbag__run_command"] }));
    kit.job.application = Application::Nothing(NotApplied::NoToolset);
    kit.job.toolset = None;
    let over = kit.run().await;
    over.says("given");
    assert_eq!(std::fs::read_to_string(over.folder.work().join("made.txt")).unwrap(), "made\n");
    assert_eq!(kit.model.offered(), ["mcp__kitbag__run_command"]);
}
