//! Everything at once: the real server, the real executor, and the agents that people install, with a stand-in for the model alone.

use kitbag_testkit::{Server, TestDatabase, on_both};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{EXECUTORS, RUNS, ask, config, events, serve, serve_impatiently, until};
use crate::machine::{Agent, Machine, Model, Network, installed};

const SECRET: &str = "s3cr3t-value-of-a-variable";
const ABOUT: &str = "How to greet a zebra properly.";

/// A toolset with a server that others wrote, one that is off, and a skill.
async fn toolset(server: &Server) {
    let node = installed("KITBAG_TEST_NODE_MODULES", ".bin/node");
    let script = installed("KITBAG_TEST_NODE_MODULES", "@modelcontextprotocol/server-everything/dist/index.js");
    let skill = format!("---\nname: greet\ndescription: {ABOUT}\n---\nGreet it last.\n");
    let body = json!({
        "id": "zoo", "name": "Zoo",
        "mcpServers": [
            { "id": "every", "serverType": "stdio", "command": node, "args": [script, "stdio"], "env": { "TOKEN": "${ENV:ZOO_TOKEN}" } },
            { "id": "off", "serverType": "stdio", "command": "nothing", "enabled": false, "env": { "OTHER": "${ENV:NEVER_SET}" } },
        ],
        "agentSkills": [
            { "format": "agentskills-v1", "id": "greet", "name": "greet", "entry": "SKILL.md", "files": [{ "path": "SKILL.md", "content": skill }] },
            { "format": "agentskills-v1", "id": "unused", "name": "unused", "entry": "SKILL.md", "enabled": false,
              "files": [{ "path": "SKILL.md", "content": "---\nname: unused\ndescription: Nobody is to see this at all.\n---\n" }] },
        ],
    });
    server.post("/v1/orgs/local/toolsets", &body).await.expect(201);
}

fn agents() -> Vec<std::path::PathBuf> {
    vec![installed("KITBAG_TEST_CLIENTS", "node_modules/.bin"), installed("KITBAG_TEST_NODE_MODULES", ".bin")]
}

fn asked_of(engine: &str) -> Value {
    let mode = if engine == "claude.agent-sdk.v1" { "node" } else { "gateway" };
    let mut config = json!({
        "prompt": { "instructions": "Greet the zebra." }, "toolsetId": "zoo", "engine": { "id": engine },
        "execution": { "mode": mode }, "limits": { "timeoutMs": 180_000 }, "tools": { "allow": ["kitbag:write_file"] },
    });
    if engine == "gateway.opencode.v2" {
        config["engine"]["model"] = json!("local/a-model");
    }
    json!({ "config": config })
}

/// A run of an engine, from the request to the files it left.
async fn works(engine: &str) {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    toolset(&server).await;
    let steps = json!([
        { "tool": "mcp__every__echo", "arguments": { "message": "hello" } },
        { "tool": "mcp__kitbag__write_file", "arguments": { "path": "plan.md", "content": "# Plan" } },
    ]);
    let model = Model::new(&steps).await;
    let v1 = format!("{}/v1", model.url);
    let variables = [
        ("ZOO_TOKEN", SECRET),
        ("ANTHROPIC_API_KEY", "stub"),
        ("ANTHROPIC_BASE_URL", model.url.as_str()),
        ("OPENAI_API_KEY", "stub"),
        ("OPENAI_BASE_URL", v1.as_str()),
    ];
    let mut machine = Machine::pair(&server, &server.url, &agents(), &variables).await;
    machine.start();
    let run = ask(&server, &asked_of(engine)).await;
    let over = loop {
        let shown = crate::kit::show(&server, run).await;
        if shown["finishedAt"].is_string() {
            break shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let told = events(&server, run, "").await;
    assert_eq!(over["state"], "succeeded", "{over}\n{told:#?}\n{}", machine.log());
    assert!(over["output"].as_str().unwrap().contains("plan.md"), "{over}");
    let named = |name: &str| {
        told.iter().filter(|(_, event, _)| event == name).map(|(.., data)| data.clone()).collect::<Vec<_>>()
    };
    let applied = &named("agent_toolset_applied")[0];
    assert_eq!((&applied["servers"], &applied["skills"]), (&json!(["every", "kitbag"]), &json!(["greet"])));
    let calls: Vec<Value> = named("tool_call").iter().map(|call| call["tool"].clone()).collect();
    assert_eq!(calls, ["mcp__every__echo", "mcp__kitbag__write_file"]);
    assert!(named("tool_result")[0]["output"].to_string().contains("Echo: hello"), "{told:#?}");
    assert_eq!(named("tool_result").iter().filter(|result| result["isError"] == true).count(), 0, "{told:#?}");
    let states: Vec<Value> = named("state").iter().map(|data| data["state"].clone()).collect();
    assert_eq!(states, ["queued", "leased", "running", "succeeded"]);
    // What it left, and nothing of what was put there for it.
    let files = server.get(&format!("{RUNS}/{run}/workspace")).await.expect(200);
    let changed: Vec<&str> =
        files["changes"].as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap()).collect();
    assert_eq!(changed, ["plan.md"]);
    assert!(files["changes"][0]["patch"].as_str().unwrap().contains("+# Plan"));
    // What the model saw: the tools under their names, the skill that is on, and no other.
    let asked = model.asked();
    assert!(asked.contains("echo") && asked.contains(ABOUT) && !asked.contains("Nobody is to see this"), "{asked}");
    let everything = format!("{over}{told:?}{}{}", server.log(), machine.log());
    assert!(!everything.contains(SECRET), "a value of a variable was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_works() {
    works("gateway.claude.v2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_works() {
    works("gateway.codex.v2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_works() {
    works("gateway.opencode.v2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_sdk_works() {
    works("claude.agent-sdk.v1").await;
}

/// A variable that is missing is told before any model is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_variable_ends_it_before_the_model_is_asked() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    toolset(&server).await;
    let model = Model::new(&json!([])).await;
    let variables = [("ANTHROPIC_API_KEY", "stub"), ("ANTHROPIC_BASE_URL", model.url.as_str())];
    let mut machine = Machine::pair(&server, &server.url, &agents(), &variables).await;
    machine.start();
    let run = ask(&server, &asked_of("gateway.claude.v2")).await;
    let over = until(&server, run, "failed").await;
    assert_eq!(over["error"]["code"], "MCP_ENV_NOT_SET:ZOO_TOKEN");
    assert_eq!(over["attempt"], 1, "trying again would not help");
    assert_eq!(model.asked(), "");
}

/// Waits until the agent has said something.
async fn at_it(server: &Server, run: kitbag_model::RunId) {
    until(server, run, "running").await;
    while !events(server, run, "?follow=false").await.iter().any(|(_, name, _)| name == "text") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// What a run says that ended once, in this attempt.
async fn ended_once(server: &Server, run: kitbag_model::RunId, attempt: u32) {
    let over = until(server, run, "succeeded").await;
    assert_eq!((&over["output"], &over["attempt"]), (&json!("Done."), &json!(attempt)));
    let told = events(server, run, "").await;
    let last: Vec<Value> = told
        .iter()
        .filter(|(_, name, data)| name == "text" && data["attempt"] == attempt)
        .map(|(.., data)| data["text"].clone())
        .collect();
    assert_eq!(last, ["At it.", "Done."], "each once, in order: {told:#?}");
    let ends = told.iter().filter(|(_, name, data)| name == "state" && data["state"] == "succeeded").count();
    assert_eq!(ends, 1);
    let files = server.get(&format!("{RUNS}/{run}/workspace")).await.expect(200);
    assert_eq!(files["changes"][0]["path"], "left.txt");
}

on_both! {
    async fn the_network_is_cut_and_mended(database: TestDatabase) {
        let server = serve(&database);
        let (network, agent) = (Network::to(&server).await, Agent::new());
        let mut machine = Machine::pair(&server, &network.url, &agent.programs(), &[]).await;
        machine.start();
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        at_it(&server, run).await;
        network.cut();
        // It ends while nobody can hear of it, and nobody can for half a minute.
        agent.go();
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        while server.get(EXECUTORS).await.expect(200)["items"][0]["connected"] == true {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        network.mend(&server);
        ended_once(&server, run, 1).await;
        assert_eq!(agent.starts(), 1);
    }

    async fn the_server_is_killed_in_the_middle(database: TestDatabase) {
        let mut server = serve(&database);
        let (network, agent) = (Network::to(&server).await, Agent::new());
        let mut machine = Machine::pair(&server, &network.url, &agent.programs(), &[]).await;
        machine.start();
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        at_it(&server, run).await;
        server.signal(Signal::KILL);
        server.wait();
        agent.go();
        let server = serve(&database);
        network.mend(&server);
        ended_once(&server, run, 1).await;
        assert_eq!(agent.starts(), 1);
    }

    async fn the_executor_is_killed_in_the_middle(database: TestDatabase) {
        let server = serve(&database);
        let agent = Agent::new();
        let mut machine = Machine::pair(&server, &server.url, &agent.programs(), &[]).await;
        machine.start();
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        at_it(&server, run).await;
        machine.kill();
        agent.go();
        // It cannot go on with what it had begun, and says so: it is begun anew.
        machine.start();
        ended_once(&server, run, 2).await;
        assert_eq!(agent.starts(), 2);
    }

    async fn an_executor_that_is_gone_for_good_is_replaced(database: TestDatabase) {
        let server = serve_impatiently(&database);
        let (first, second) = (Agent::new(), Agent::new());
        let mut gone = Machine::pair(&server, &server.url, &first.programs(), &[]).await;
        gone.start();
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        at_it(&server, run).await;
        gone.kill();
        let mut other = Machine::pair(&server, &server.url, &second.programs(), &[]).await;
        other.start();
        second.go();
        ended_once(&server, run, 2).await;
        assert_eq!((first.starts(), second.starts()), (1, 1));
    }
}
