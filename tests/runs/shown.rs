//! How what an agent's tools gave back is shown: by what was said of them when the run was made, whatever happened since.

use kitbag_formats::archive::ArchiveWriter;
use kitbag_model::run::wire::AttemptId;
use kitbag_testkit::{Answer, Server, on_both, sha256};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::BINARY;
use crate::kit::{Executor, RUNS, ask, config, events, pair, show};

const TOOLSETS: &str = "/v1/orgs/local/toolsets";

/// It has no code, so that an agent gets none of its files.
const MANIFEST: &str = r#"
id: studio
name: Studio
version: "1.0.0"
mcp_servers:
  - {id: paint, command: npx}
tool_overrides:
  - {tool_id: "paint:draw", renderer: html, renderer_config: {artifact: "artifacts/draw.html", data: {points: "$return.points", by: "$args.who"}}}
  - {tool_id: "paint:pick", renderer: html, renderer_config: {artifact: "artifacts/$return.page"}}
  - {tool_id: "paint:write", renderer: html, renderer_config: {content: "<h1>$return.title</h1>"}}
  - {tool_id: "paint:file", renderer: code, renderer_config: {file: "$return.path", language: auto}}
  - {tool_id: "paint:lost", renderer: html, renderer_config: {content: "$return.nothing.here", data: "$args"}}
  - {tool_id: "paint:port", renderer: frame, renderer_config: {port: "$return.port"}}
  - {tool_id: "paint:here", renderer: frame, renderer_config: {url: "http://localhost:$return.port/x"}}
  - {tool_id: "paint:there", renderer: frame, renderer_config: {url: "$return.url"}}
"#;
const DRAW: &str = "<p>drawn</p>";
const PICKED: &str = "<p>picked</p>";

fn serve(database: &kitbag_testkit::TestDatabase) -> Server {
    Server::start(BINARY, database, &["--frame-allow", "https://pictures.example"])
}

async fn install(server: &Server) {
    let mut archive = ArchiveWriter::new(Vec::new());
    for (path, text) in [("artifacts/draw.html", DRAW), ("artifacts/picked.html", PICKED), ("toolset.yaml", MANIFEST)] {
        archive.file(&path.parse().unwrap(), false, &mut text.as_bytes()).unwrap();
    }
    let request = server.request(Method::POST, &format!("{TOOLSETS}/import?trust=true"));
    let request = request.header("content-type", "application/zip").body(archive.finish().unwrap());
    Answer::of(request).await.expect(201);
}

async fn override_with(server: &Server, toolset: &str, tool: &str, over: Value) {
    let path = format!("{TOOLSETS}/{toolset}/overrides/{tool}");
    Answer::of(server.request(Method::PUT, &path).json(&over)).await.expect(200);
}

/// What an agent did, and what is shown of it.
struct Watched<'a> {
    server: &'a Server,
    executor: Executor,
    id: AttemptId,
    calls: u64,
}

impl Watched<'_> {
    async fn did(&mut self, tool: &str, input: Value, output: Value, is_error: bool) {
        self.executor.used(self.id, self.calls * 2 + 1, tool, (input, output, is_error)).await;
        self.calls += 1;
    }

    /// The number of the last result: a call is found by it as soon as it is told.
    async fn last(&self) -> u64 {
        let told = events(self.server, self.id.run_id, "?follow=false").await;
        told.iter().rev().find(|(_, name, _)| name == "tool_result").unwrap().0
    }

    async fn shown(&mut self, tool: &str, input: Value, output: Value) -> (u64, Value) {
        self.did(tool, input, output, false).await;
        let event = self.last().await;
        (event, call(self.server, &self.id, event).await.expect(200))
    }
}

async fn call(server: &Server, id: &AttemptId, event: u64) -> Answer {
    server.get(&format!("{RUNS}/{}/calls/{event}", id.run_id)).await
}

/// What is at an address of the stage, by the name that it is served under.
async fn on_stage(server: &Server, shown: &Value) -> (u16, String, String) {
    let url = shown["renderPlan"]["config"]["url"].as_str().unwrap_or_else(|| panic!("no address: {shown}"));
    let host = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    assert!(host.contains(".localhost:") && host.len() > 32 + 10, "{url}");
    let answer = server.anonymous(Method::GET, "/").header(header::HOST, host).send().await.unwrap();
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), policy, answer.text().await.unwrap())
}

/// All but the address, which is another one after a restart.
fn plan(mut shown: Value) -> Value {
    if let Some(config) = shown["renderPlan"]["config"].as_object_mut() {
        config.remove("url");
    }
    shown
}

fn text(value: Value) -> Value {
    json!([{ "type": "text", "text": value.to_string() }])
}

on_both! {
    async fn a_run_is_shown_as_its_toolset_was(database: TestDatabase) {
        let mut server = serve(&database);
        install(&server).await;
        override_with(&server, "studio", "paint:list", json!({ "renderer": "key-value" })).await;
        override_with(&server, "builtin", "read_file", json!({ "renderer": "document", "rendererConfig": { "content": "$return" } })).await;
        let mut wanted = config("gateway.claude.v2");
        wanted["toolsetId"] = json!("studio");
        let run = ask(&server, &json!({ "config": wanted })).await;
        let chat = show(&server, run).await["chatId"].as_str().unwrap().to_owned();
        let paired = pair(&server, &json!({})).await;
        let mut executor = paired.connect(1, &[]).await;
        let job = executor.given().await;
        let id = job.id;
        // An agent has no use for what only people see.
        assert_eq!(job.toolset.as_ref().unwrap().files().count(), 0);
        let page = paired.request(&server, Method::GET, id, &format!("blobs/{}", sha256(DRAW.as_bytes())));
        assert!(page.send().await.unwrap().status().is_client_error());
        executor.started(id).await;
        let mut watched = Watched { server: &server, executor, id, calls: 0 };

        // While it goes on: a page with its data, on an origin of its own, shut in.
        let (drawn, shown) = watched.shown("mcp__paint__draw", json!({ "who": "Ada" }), text(json!({ "points": [1, 2] }))).await;
        assert_eq!((&shown["toolId"], &shown["tool"], &shown["warnings"]), (&json!("mcp:studio~paint:draw"), &json!("mcp__paint__draw"), &json!([])));
        let config = &shown["renderPlan"]["config"];
        assert_eq!((&config["sha256"], &config["data"]), (&json!(sha256(DRAW.as_bytes())), &json!({ "points": [1, 2], "by": "Ada" })));
        let (status, policy, page) = on_stage(&server, &shown).await;
        assert_eq!(status, 200);
        assert!(page.contains(DRAW) && page.contains("__TOOL_DATA__") && page.contains("Ada"), "{page}");
        assert!(policy.starts_with("sandbox allow-scripts;") && policy.contains("connect-src 'none'"), "{policy}");
        assert_eq!(call(&server, &id, drawn).await.expect(200), shown, "who looks again has the same address");

        let (picked, shown) = watched.shown("mcp__paint__pick", json!({}), text(json!({ "page": "picked.html" }))).await;
        assert!(on_stage(&server, &shown).await.2.contains(PICKED));
        let (_, shown) = watched.shown("mcp__paint__write", json!({}), json!({ "content": [], "structured_content": { "title": "Hi" } })).await;
        assert!(on_stage(&server, &shown).await.2.contains("<h1>Hi</h1>"));
        let (_, shown) = watched.shown("mcp__paint__there", json!({}), text(json!({ "url": "https://pictures.example/a" }))).await;
        assert_eq!(shown["renderPlan"]["config"], json!({ "url": "https://pictures.example/a", "source": "https://pictures.example/a" }));
        let (_, shown) = watched.shown("mcp__paint__file", json!({}), text(json!({ "path": "/workspace/src/a.py" }))).await;
        assert_eq!(shown["renderPlan"], json!({ "renderer": "code", "config": { "file": "src/a.py", "language": "python" } }));
        let (listed, shown) = watched.shown("mcp__paint__list", json!({}), text(json!([1]))).await;
        assert_eq!(shown["renderPlan"], json!({ "renderer": "key-value", "config": {} }));
        let (read, shown) = watched.shown("mcp__kitbag__read_file", json!({ "path": "a" }), json!("# Hi")).await;
        assert_eq!((&shown["toolId"], &shown["renderPlan"]), (&json!("read_file"), &json!({ "renderer": "document", "config": { "content": "# Hi" } })));
        let (_, shown) = watched.shown("MultiEdit", json!({ "file_path": "/tmp/a" }), json!("ok")).await;
        assert_eq!((&shown["toolId"], &shown["renderPlan"]["renderer"]), (&Value::Null, &json!("file-diff")));
        assert_eq!(watched.shown("Skill", json!("x"), json!("ok")).await.1["renderPlan"], Value::Null);

        // What cannot be shown as it was meant has no plan at all, and says why.
        for (tool, output, why) in [
            ("lost", json!({}), "renderer_config.content: $return.nothing leads to nothing"),
            ("file", json!({ "path": "/etc/passwd" }), "not a path inside the workspace"),
            ("pick", json!({ "page": "gone.html" }), "the toolset has no page artifacts/gone.html"),
            ("pick", json!({ "page": "../toolset.yaml" }), "not a path inside the toolset"),
            ("port", json!({ "port": 3000 }), "port 3000 is on the machine that the agent works on"),
            ("here", json!({ "port": 8080 }), "port 8080 is on the machine that the agent works on"),
            ("there", json!({ "url": "https://other.example/" }), "a frame may not show https://other.example"),
        ] {
            let (_, shown) = watched.shown(&format!("mcp__paint__{tool}"), json!({}), text(output)).await;
            let warnings = shown["warnings"].as_array().unwrap();
            assert_eq!((&shown["renderPlan"], warnings.len()), (&Value::Null, 1), "{shown}");
            let warning = warnings[0].as_str().unwrap();
            assert!(warning.starts_with("the result is not shown: ") && warning.contains(why), "{warning}");
        }
        watched.did("mcp__paint__draw", json!({}), json!("no colours left"), true).await;
        let failed = call(&server, &id, watched.last().await).await.expect(200);
        assert_eq!((&failed["renderPlan"], &failed["warnings"]), (&Value::Null, &json!([])));

        // Only a result is one.
        for event in ["0", "1", "99999", "18446744073709551615", "99999999999999999999", "x"] {
            server.get(&format!("{RUNS}/{run}/calls/{event}")).await.expect_error(404, "NOT_FOUND");
        }
        call(&server, &id, drawn - 1).await.expect_error(404, "NOT_FOUND");

        // Everything that was said of the tools changes, then the toolset goes, what nobody needs is collected, and the server starts anew.
        let before = [call(&server, &id, drawn).await, call(&server, &id, picked).await, call(&server, &id, listed).await, call(&server, &id, read).await];
        let before = before.map(|answer| plan(answer.expect(200)));
        override_with(&server, "studio", "paint:*", json!({ "renderer": "terminal" })).await;
        override_with(&server, "studio", "paint:draw", json!({ "renderer": "terminal" })).await;
        override_with(&server, "studio", "paint:list", json!({ "renderer": "terminal" })).await;
        override_with(&server, "builtin", "read_file", json!({ "renderer": "terminal" })).await;
        server.delete(&format!("{TOOLSETS}/studio")).await.expect(204);
        let gc = format!("/v1/orgs/local/chats/{chat}/workspace/gc");
        server.post(&gc, &json!({ "graceSeconds": 0 })).await.expect(200);
        drop(watched);
        server.signal(rustix::process::Signal::TERM);
        server.wait();
        let server = serve(&database);
        for (event, before) in [drawn, picked, listed, read].into_iter().zip(before) {
            assert_eq!(plan(call(&server, &id, event).await.expect(200)), before);
        }
        let shown = call(&server, &id, drawn).await.expect(200);
        let (status, _, page) = on_stage(&server, &shown).await;
        assert_eq!((status, page.contains(DRAW)), (200, true), "{page}");
        // With its chat all of it goes, at once.
        server.delete(&format!("/v1/orgs/local/chats/{chat}")).await.expect(204);
        assert_eq!(on_stage(&server, &shown).await.0, 404);
        call(&server, &id, drawn).await.expect_error(404, "NOT_FOUND");
    }
}
