//! Which toolset a run has, and that it stays what it was.

use kitbag_model::run::{Application, Profile, ToolsetFrom};
use kitbag_testkit::{Answer, Server, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{RUNS, ask, config, pair, serve, show};

const TOOLSETS: &str = "/v1/orgs/local/toolsets";
const SKILL: &str = "---\nname: greet\ndescription: How to greet people politely in writing.\n---\nSay hello first.\n";

/// A toolset with a server, one that is off, and a skill.
async fn toolset(server: &Server, id: &str) -> Value {
    let body = json!({
        "id": id, "name": "Greeter", "visibility": "org",
        "mcpServers": [
            { "id": "every", "serverType": "stdio", "command": "npx", "args": ["-y", "a-server"], "env": { "TOKEN": "${ENV:MY_TOKEN}" } },
            { "id": "off", "serverType": "stdio", "command": "nothing", "enabled": false, "env": { "OTHER": "${ENV:OTHER}" } },
        ],
        "agentSkills": [{ "format": "agentskills-v1", "id": "greet", "name": "greet", "entry": "SKILL.md", "files": [
            { "path": "SKILL.md", "content": SKILL }, { "path": "scripts/hello.sh", "content": "echo hello\n" } ] }],
    });
    server.post(TOOLSETS, &body).await.expect(201)
}

/// A bundle that declares a server, installed as it came: nobody said yes to what it starts.
async fn import(server: &Server) {
    let manifest = "id: stranger\nname: S\nversion: \"1.0.0\"\nmcp_servers:\n  - id: every\n    command: npx\n";
    let mut archive = kitbag_formats::archive::ArchiveWriter::new(Vec::new());
    archive.file(&"toolset.yaml".parse().unwrap(), false, &mut manifest.as_bytes()).unwrap();
    let request = server.request(Method::POST, &format!("{TOOLSETS}/import"));
    let request = request.header("content-type", "application/zip").body(archive.finish().unwrap());
    assert!(Answer::of(request).await.status.is_success());
}

fn with_toolset(engine: &str, id: &str) -> Value {
    let mut config = config(engine);
    config["toolsetId"] = json!(id);
    json!({ "config": config })
}

on_both! {
    async fn what_a_run_has_stays_what_it_was(database: TestDatabase) {
        let server = serve(&database);
        import(&server).await;
        let refused = server.post(RUNS, &with_toolset("gateway.claude.v2", "stranger")).await;
        refused.expect_error(409, "NEEDS_TRUST");
        assert_eq!(refused.body["details"]["serverKeys"], json!(["stranger~every"]));
        toolset(&server, "greeter").await;
        let run = ask(&server, &with_toolset("gateway.claude.v2", "greeter")).await;
        let shown = show(&server, run).await;
        assert_eq!((&shown["toolset"]["applied"], &shown["toolset"]["from"], &shown["toolset"]["profile"]), (&json!(true), &json!("config"), &json!("gateway")));
        assert_eq!(shown["toolset"]["mcpServers"][0]["envNames"], json!(["TOKEN"]));
        // It is gone before anybody took the run.
        server.delete(&format!("{TOOLSETS}/greeter")).await.expect(204);
        let chat = shown["chatId"].as_str().unwrap();
        server.post(&format!("/v1/orgs/local/chats/{chat}/workspace/gc?graceSeconds=0"), &json!({})).await;
        let paired = pair(&server, &json!({})).await;
        let job = paired.connect(1, &[]).await.given().await;
        let toolset = job.toolset.as_ref().unwrap();
        assert!(matches!(&job.application, Application::Toolset { from: ToolsetFrom::Config, profile: Profile::Gateway, .. }));
        let servers: Vec<(&str, bool)> = toolset.mcp_servers.iter().map(|one| (one.id.as_str(), one.enabled)).collect();
        assert_eq!(servers, [("every", true), ("off", false)]);
        assert_eq!(toolset.mcp_servers[0].env["TOKEN"], "${ENV:MY_TOKEN}");
        let skill = &toolset.agent_skills[0];
        assert_eq!((skill.id.as_str(), skill.files.len()), ("greet", 2));
        for (path, content) in [("SKILL.md", SKILL), ("scripts/hello.sh", "echo hello\n")] {
            let hash = skill.files[path].sha256;
            let read = paired.request(&server, Method::GET, job.id, &format!("blobs/{hash}")).send().await.unwrap();
            assert_eq!((read.status().as_u16(), read.text().await.unwrap().as_str()), (200, content));
        }
    }

    async fn whose_toolset_it_is_and_when_none_applies(database: TestDatabase) {
        let server = serve(&database);
        for id in ["house", "mine"] {
            toolset(&server, id).await;
        }
        let settings = |id: Value| json!({ "toolsets": { "defaultToolsetId": id } });
        Answer::of(server.request(Method::PUT, "/v1/orgs/local/settings").json(&settings(json!("house")))).await.expect(200);
        let applied = async |body: &Value| {
            let run = ask(&server, body).await;
            show(&server, run).await["toolset"].clone()
        };
        let house = applied(&json!({ "config": config("gateway.codex.v2") })).await;
        assert_eq!((&house["toolsetId"], &house["from"]), (&json!("house"), &json!("organization")));
        let mine = applied(&with_toolset("gateway.codex.v2", "mine")).await;
        assert_eq!((&mine["toolsetId"], &mine["from"]), (&json!("mine"), &json!("config")));
        let mut elsewhere = with_toolset("gateway.codex.v2", "mine");
        elsewhere["config"]["tools"] = json!({ "execution": "cloud" });
        let none = applied(&elsewhere).await;
        assert_eq!((&none["applied"], &none["mcpServers"]), (&json!(false), &json!([])));
        assert!(none["reason"].as_str().unwrap().contains("tools.execution"), "{none}");
        let mut node = with_toolset("claude.agent-sdk.v1", "mine");
        node["config"]["execution"] = json!({ "mode": "node" });
        assert_eq!(applied(&node).await["profile"], "node");
        server.post(RUNS, &with_toolset("gateway.codex.v2", "nobodys")).await.expect_error(404, "TOOLSET_NOT_FOUND");
        server.post(&format!("{TOOLSETS}/mine/enable"), &json!({ "enabled": false })).await.expect(200);
        server.post(RUNS, &with_toolset("gateway.codex.v2", "mine")).await.expect_error(409, "CONFLICT");
    }
}
