//! A container's tools from their import to their going: trust, calls, files, renderers, questions, overrides, export, MCP.

use kitbag_testkit::{Answer, Podman, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{
    CHATS, TOOLS, TOOLSETS, ask, bundle, call, engine, file, import, manifest, new_chat, put_file, serve,
};

const CONTAINER: &str = "    env: {GREETING: \"${MY_API_TOKEN}\"}\n    limits: {memory: 64m, pids: 30, seconds: 60}\n";
const MORE: &str = "tool_overrides:
  - {tool_id: copy, renderer: code, renderer_config: {file: out.txt}, description_override: Makes it loud}
  - {tool_id: fail, requires_confirmation: true}
";

on_both! {
    async fn a_tool_in_a_container_is_a_tool_like_any_other(database: TestDatabase) {
        let podman = engine();
        let server = serve(&database, &podman, &[]);
        let yaml = manifest(&["copy", "fail", "nothing"], CONTAINER, MORE);
        let packed = bundle(&[("toolset.yaml", &yaml)]);
        let dry = import(&server, "?dryRun=true", packed.clone()).await.expect(200);
        assert_eq!((&dry["toolCount"], &dry["containers"][0]["image"]), (&json!(3), &json!("localhost/kb:1")), "{dry}");
        import(&server, "", packed).await.expect(201);

        // Nobody trusts it yet: nothing is started, and whoever looks is told why.
        let chat = new_chat(&server).await;
        ask(&server, &chat, "app:copy", json!({})).await.expect_error(409, "NEEDS_TRUST");
        let tool = server.get(&format!("{TOOLS}/app:copy")).await.expect(200);
        assert_eq!((&tool["provider"], &tool["renderer"]), (&json!("container"), &json!("code")), "{tool}");
        let available = server.get(&format!("{TOOLS}?available=true")).await.expect(200);
        assert!(!available.to_string().contains("app:copy"));
        assert_eq!(podman.containers().len(), 0);

        let trusted = server.post(&format!("{TOOLSETS}/app/trust"), &json!({})).await.expect(200);
        assert_eq!(trusted["containers"][0]["trusted"], true);
        server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect(200);
        let detail = server.get(&format!("{TOOLSETS}/app")).await.expect(200);
        assert!(detail["containers"][0]["imageId"].as_str().unwrap().contains(&podman.run(&["image", "inspect", "--format", "{{.Id}}", "localhost/kb:1"])), "{detail}");

        // A call: arguments in, a result, files in and out, what it said, what held it.
        put_file(&server, &chat, "in.txt", "quiet").await;
        let done = ask(&server, &chat, "app:copy", json!({ "n": [1, "ä"] })).await.expect(200);
        assert_eq!(done["status"], "success", "{done}");
        assert_eq!(done["result"]["args"], json!({ "n": [1, "ä"] }));
        assert_eq!(done["result"]["where"], "/workspace");
        assert_ne!(done["result"]["user"], "0", "whoever runs there is not root");
        assert_eq!(done["result"]["variable"], "•••", "a secret by its looks does not come back");
        assert_eq!(done["renderPlan"]["renderer"], "code");
        assert_eq!(file(&server, &chat, "out.txt").await.as_deref(), Some("QUIET"));
        let said = done["logs"].to_string();
        assert!(said.contains("on stdout") && said.contains("on stderr"), "{said}");
        assert_ne!(done["preManifestId"], done["postManifestId"]);
        assert_eq!(call(&server, &chat, "nothing").await["result"], Value::Null);

        // A question before the call; a failure with the end of the log, and what it left.
        let waits = ask(&server, &chat, "app:fail", json!({})).await.expect(202);
        assert_eq!(waits["status"], "pending");
        let decision = format!("{CHATS}/{chat}/tool-calls/{}/decision", waits["id"].as_str().unwrap());
        let failed = server.post(&decision, &json!({ "approve": true })).await.expect(200);
        assert_eq!(failed["error"]["code"], "TOOL_FAILED", "{failed}");
        let message = failed["error"]["message"].as_str().unwrap();
        assert!(message.contains("exit status 3") && message.contains("this is why"), "{message}");
        assert_eq!(file(&server, &chat, "half.txt").await.as_deref(), Some("half of it\n"));

        // A person's override, the names that models read, and the endpoint.
        let path = format!("{TOOLSETS}/app/overrides/app%3Acopy");
        let over = json!({ "nameOverride": "Loud", "enabled": true });
        Answer::of(server.request(Method::PUT, &path).json(&over)).await.expect(200);
        let tool = server.get(&format!("{TOOLS}/app:copy")).await.expect(200);
        assert_eq!((&tool["name"], &tool["description"]), (&json!("Loud"), &json!("Makes it loud")));
        let listed = mcp(&server, "tools/list", json!({}), &chat).await;
        let listed = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "app__copy").unwrap().clone();
        assert_eq!(listed["description"], "Makes it loud", "{listed}");
        let over_mcp = mcp(&server, "tools/call", json!({ "name": "app__copy", "arguments": { "x": 1 } }), &chat).await;
        assert_eq!(over_mcp["structuredContent"]["args"], json!({ "x": 1 }), "{over_mcp}");

        // Out and in again: the same toolset, and no trust in it by that.
        let exported = server.request(Method::GET, &format!("{TOOLSETS}/app/export")).send().await.unwrap().bytes().await.unwrap();
        server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
        ask(&server, &chat, "app:copy", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
        import(&server, "", exported.to_vec()).await.expect(201);
        let again = server.request(Method::GET, &format!("{TOOLSETS}/app/export")).send().await.unwrap().bytes().await.unwrap();
        assert_eq!(again, exported);
        ask(&server, &chat, "app:copy", json!({})).await.expect_error(409, "NEEDS_TRUST");
        import(&server, "?trust=true", exported.to_vec()).await.expect(200);
        assert_eq!(call(&server, &chat, "copy").await["status"], "success");
        assert_eq!(podman.containers().len(), 0, "nothing is left of any call");
        let places = std::fs::read_dir(database.data().join("containers")).unwrap().count();
        assert_eq!(places, 0, "nor of the places in which they were");
        let metrics = server.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        let counted = |line: &&str| line.starts_with("kitbag_tool_calls_total") && line.contains("provider=\"container\"") && !line.ends_with(" 0");
        assert!(metrics.lines().filter(counted).count() >= 2, "{metrics}");
    }
}

/// One request to the endpoint, in the era without sessions.
async fn mcp(server: &kitbag_testkit::Server, method: &str, params: Value, chat: &str) -> Value {
    let opening = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let ask = |body: Value, session: Option<String>| {
        let mut request = server.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
        request = request.header("x-mcp-chat", chat).json(&body);
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.send()
    };
    let opened = ask(opening, None).await.unwrap();
    let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    ask(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), Some(session.clone())).await.unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params });
    let text = ask(body, Some(session)).await.unwrap().text().await.unwrap();
    let line = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{text}"))["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_engine_the_tools_are_listed_and_say_why() {
    let database = TestDatabase::sqlite();
    let podman = Podman::start();
    let host = podman.host();
    drop(podman);
    let program = kitbag_testkit::Program::on(env!("CARGO_BIN_EXE_kitbag"), &database).env("DOCKER_HOST", &host);
    let server =
        kitbag_testkit::Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["copy"], "", ""))])).await.expect(201);
    let listed = server.get(TOOLS).await.expect(200);
    let tool = listed["items"].as_array().unwrap().iter().find(|tool| tool["id"] == "app:copy").unwrap().clone();
    assert!(tool.to_string().contains("no container engine answers"), "{tool}");
    let chat = new_chat(&server).await;
    ask(&server, &chat, "app:copy", json!({})).await.expect_error(503, "UNAVAILABLE");
    assert_eq!(ask(&server, &chat, "read_file", json!({ "path": "none" })).await.expect(200)["status"], "error");
    let doctor = program.run(&["doctor", "--json"]);
    let checks: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let check = checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == "containers").unwrap();
    assert!(check["status"] == "missing" && check["advice"].as_str().unwrap().contains("podman"), "{check}");
}
