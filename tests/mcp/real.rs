//! Servers that others wrote, from the registries: added, listed, called, overridden, turned off, killed.

use std::process::Stdio;

use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::kit::{
    CHATS, Listener, SERVERS, TOOLS, TOOLSETS, add, ask, asking, at, connect, connected, done, failed, kill, new_chat,
    node, place, processes_with, put, python, set_override, text, tool, until, until_so, with,
};
use crate::serve;

/// What is the same over all three transports.
async fn everything(server: &Server, shown: &Value) {
    let chat = new_chat(server).await;
    assert_eq!((&shown["error"], &shown["protocolVersion"]), (&Value::Null, &json!("2025-11-25")), "{shown}");
    let echo = shown["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["id"], "mcp:everything~everything:echo");
    assert!(shown["toolCount"].as_u64().unwrap() >= 10, "{shown}");
    let said = text(server, &chat, "mcp:everything~everything:echo", json!({ "message": "hello" })).await;
    assert!(said.contains("hello"), "{said}");
    let weather = json!({ "location": "Chicago" });
    let call = done(server, &chat, "mcp:everything~everything:get-structured-content", weather).await;
    assert_eq!(call["result"]["structuredContent"]["temperature"], 36, "{call}");
}

on_both! {
    async fn everything_by_its_process(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let (mut heard, mut lists) = (Listener::new(&server).await, Listener::new(&server).await);
        let body = with(node("server-everything", &["stdio"]), json!({ "id": "everything" }));
        let added = server.post(SERVERS, &body).await.expect(201);
        assert_eq!((&added["id"], &added["serverType"]), (&json!("everything~everything"), &json!("stdio")));
        for status in ["connecting", "connected"] {
            let told = heard.until("mcp_server", |told| told["status"] == status).await;
            assert_eq!(told["id"], "everything~everything");
            assert!(told["since"].is_string() && told["reason"].is_string(), "{told}");
        }
        lists.until("tools_changed", |told| *told == json!({ "toolsetId": "everything", "reason": "mcp" })).await;
        let shown = connected(&server, "everything").await;
        assert!(shown["since"].is_string() && shown["toolCount"].as_u64().unwrap() >= 10, "{shown}");

        // Its tools are in the list of all tools, with all that a caller needs.
        let weather = tool(&server, "mcp:everything~everything:get-structured-content").await;
        for (field, value) in [
            ("toolsetId", json!("everything")), ("provider", json!("mcp")), ("name", json!("Get Structured Content Tool")),
            ("modelName", json!("mcp__everything__get-structured-content")), ("requiresConfirmation", json!(true)),
            ("enabled", json!(true)), ("available", json!(true)), ("problem", Value::Null), ("renderer", Value::Null),
            ("rendererConfig", Value::Null),
        ] {
            assert_eq!(weather[field], value, "{field}");
        }
        assert!(weather["description"].as_str().unwrap().contains("structured content"));
        assert!(weather["inputSchema"]["properties"]["location"].is_object(), "{weather}");
        assert!(weather["outputSchema"]["properties"]["humidity"].is_object(), "{weather}");
        let listed = server.get(&format!("{TOOLS}?available=true&limit=200")).await.expect(200);
        assert!(listed["items"].to_string().contains("mcp:everything~everything:echo"), "{listed}");

        // Somebody is asked, unless a person says otherwise.
        let echo = "mcp:everything~everything:echo";
        let waits = ask(&server, &chat, echo, json!({ "message": "please" })).await.expect(202);
        assert_eq!((&waits["status"], &waits["result"]), (&json!("pending"), &Value::Null));
        let yes = server.post(&format!("{}/decision", place(&waits)), &json!({ "approve": true })).await;
        assert!(yes.status.is_success(), "{yes:?}");
        let over = until(&server, &place(&waits), |call| call["status"] != "pending" && call["status"] != "running").await;
        assert!(over["result"]["content"][0]["text"].as_str().unwrap().contains("please"), "{over}");
        let waits = ask(&server, &chat, echo, json!({ "message": "no" })).await.expect(202);
        let no = server.post(&format!("{}/decision", place(&waits)), &json!({ "approve": false })).await.expect(200);
        assert_eq!(no["error"]["code"], "DENIED");
        set_override(&server, "everything", "everything:*", json!({ "requiresConfirmation": false })).await;
        assert_eq!(tool(&server, echo).await["requiresConfirmation"], false);
        let call = done(&server, &chat, echo, json!({ "message": "at once" })).await;
        let told = heard.until("tool_call", |told| told["status"] == "success" && told["id"] == call["id"]).await;
        assert_eq!(told["toolId"], echo);
        ask(&server, &chat, echo, json!({ "message": 1 })).await.expect_error(400, "INVALID_ARGUMENTS");

        // Results are kept whole.
        let call = |name: &'static str, args: Value| {
            let (server, chat) = (&server, &chat);
            async move { done(server, chat, &format!("mcp:everything~everything:{name}"), args).await }
        };
        let image = call("get-tiny-image", json!({})).await;
        let blocks = image["result"]["content"].as_array().unwrap();
        let png = blocks.iter().find(|block| block["type"] == "image").unwrap();
        assert!(png["mimeType"] == "image/png" && png["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "{png}");
        let links = call("get-resource-links", json!({ "count": 2 })).await;
        let links: Vec<_> = links["result"]["content"].as_array().unwrap().iter().filter(|block| block["type"] == "resource_link").cloned().collect();
        assert!(links.len() == 2 && links[0]["uri"].is_string() && links[0]["name"].is_string(), "{links:?}");
        let embedded = call("get-resource-reference", json!({ "resourceType": "Text", "resourceId": 1 })).await;
        let is_embedded = |block: &&Value| block["type"] == "resource" && block["resource"]["uri"].is_string();
        assert!(embedded["result"]["content"].as_array().unwrap().iter().any(|block| is_embedded(&block)), "{embedded}");
        let annotated = call("get-annotated-message", json!({ "messageType": "error", "includeImage": false })).await;
        assert_eq!(annotated["result"]["content"][0]["annotations"]["priority"], 1, "{annotated}");
        // It touches no workspace.
        assert_eq!(annotated["preManifestId"], annotated["postManifestId"]);

        // What an override says is in the list and at the call.
        let key = "everything:get-structured-content";
        set_override(&server, "everything", key, json!({
            "renderer": "document", "rendererConfig": { "content": "$args.location: $return.conditions" },
            "nameOverride": "Weather", "descriptionOverride": "Tells the weather", "requiresConfirmation": false,
        })).await;
        let weather = tool(&server, "mcp:everything~everything:get-structured-content").await;
        assert_eq!((&weather["name"], &weather["description"], &weather["renderer"]), (&json!("Weather"), &json!("Tells the weather"), &json!("document")));
        let shown = call("get-structured-content", json!({ "location": "Chicago" })).await;
        assert_eq!(shown["result"]["structuredContent"], json!({ "temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82 }));
        assert_eq!(shown["renderPlan"]["renderer"], "document", "{shown}");
        assert_eq!(shown["renderPlan"]["config"]["content"], "Chicago: Light rain / drizzle", "{shown}");
        assert_eq!(server.get(&place(&shown)).await.expect(200), shown);
        set_override(&server, "everything", "everything:echo", json!({ "enabled": false })).await;
        assert_eq!((&tool(&server, echo).await["enabled"], &tool(&server, echo).await["available"]), (&json!(false), &json!(false)));
        ask(&server, &chat, echo, json!({ "message": "x" })).await.expect_error(409, "CONFLICT");
        set_override(&server, "everything", "everything:echo", json!({ "requiresConfirmation": false })).await;
        done(&server, &chat, echo, json!({ "message": "x" })).await;

        // Off is off: the server, or all of its toolset.
        put(&server, &at("everything"), json!({ "enabled": false })).await.expect(200);
        let off = server.get(&at("everything")).await.expect(200);
        assert_eq!((&off["status"], &off["enabled"]), (&json!("disconnected"), &json!(false)));
        ask(&server, &chat, echo, json!({ "message": "x" })).await.expect_error(409, "CONFLICT");
        assert_eq!(tool(&server, echo).await["available"], false);
        put(&server, &at("everything"), json!({ "enabled": true })).await.expect(200);
        done(&server, &chat, echo, json!({ "message": "x" })).await;
        server.post(&format!("{TOOLSETS}/everything/enable"), &json!({ "enabled": false })).await.expect(200);
        ask(&server, &chat, echo, json!({ "message": "x" })).await.expect_error(409, "CONFLICT");
        let listed = server.get(&format!("{TOOLS}?available=true&limit=200")).await.expect(200);
        assert!(!listed["items"].to_string().contains("everything~everything"), "{listed}");
        server.post(&format!("{TOOLSETS}/everything/enable"), &json!({ "enabled": true })).await.expect(200);
        done(&server, &chat, echo, json!({ "message": "x" })).await;
    }

    async fn four_others_are_killed_and_serve_again(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().canonicalize().unwrap();
        let path = |name: &str| inside.join(name).display().to_string();
        std::fs::write(inside.join("a.txt"), "inside").unwrap();
        git(&["init", "-q", &path("repo")]).await;
        std::fs::write(inside.join("repo/new.txt"), "x").unwrap();
        let memory = with(node("server-memory", &[]), json!({ "env": { "MEMORY_FILE_PATH": path("memory.json") } }));
        // The memory says nothing of this folder on its command line.
        let marked = |launch: Value| with(launch, json!({ "cwd": inside }));
        add(&server, "files", node("server-filesystem", &[inside.to_str().unwrap()])).await;
        add(&server, "memory", marked(memory)).await;
        add(&server, "time", python("mcp-server-time", &["--local-timezone", "UTC"])).await;
        add(&server, "git", python("mcp-server-git", &["--repository", &path("repo")])).await;
        for id in ["files", "memory", "time", "git"] {
            connected(&server, id).await;
        }
        let walk = async || {
            let read = text(&server, &chat, "mcp:files~files:read_text_file", json!({ "path": path("a.txt") })).await;
            assert_eq!(read, "inside");
            let entity = json!({ "entities": [{ "name": "Ada", "entityType": "person", "observations": ["wrote"] }] });
            done(&server, &chat, "mcp:memory~memory:create_entities", entity).await;
            let graph = done(&server, &chat, "mcp:memory~memory:read_graph", json!({})).await;
            assert_eq!(graph["result"]["structuredContent"]["entities"][0]["name"], "Ada", "{graph}");
            let now = text(&server, &chat, "mcp:time~time:get_current_time", json!({ "timezone": "Europe/Berlin" })).await;
            assert!(now.contains("Europe/Berlin"), "{now}");
            let status = text(&server, &chat, "mcp:git~git:git_status", json!({ "repo_path": path("repo") })).await;
            assert!(status.contains("new.txt"), "{status}");
        };
        walk().await;
        let refused = failed(&server, &chat, "mcp:files~files:read_text_file", json!({ "path": "/etc/passwd" })).await;
        assert_eq!(refused["code"], "TOOL_FAILED");
        assert!(refused["message"].as_str().unwrap().contains("denied"), "{refused}");
        // Killed, they serve again, and nobody has to do anything.
        let mut heard = Listener::new(&server).await;
        let ours: Vec<i32> = children(server.pid());
        assert_eq!(ours.len(), 4, "{ours:?}");
        ours.into_iter().for_each(kill);
        for _ in 0..4 {
            heard.until("mcp_server", |told| told["reason"].as_str().unwrap().contains("signal 9")).await;
        }
        walk().await;
    }
}

/// The processes that this one started.
fn children(parent: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap().map(|task| task.unwrap().path());
    let of_task = |path: std::path::PathBuf| std::fs::read_to_string(path.join("children")).unwrap_or_default();
    let all: Vec<String> = tasks.map(of_task).collect();
    all.iter().flat_map(|text| text.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

#[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
async fn git(args: &[&str]) {
    assert!(Command::new("git").args(args).status().await.unwrap().success());
}

/// Starts `server-everything` on a port that was free a moment ago.
#[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
pub(crate) async fn everything_on_the_web(way: &str) -> (Child, u16) {
    let launch = node("server-everything", &[way]);
    for _ in 0..5 {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(launch["command"].as_str().unwrap());
        command.args(launch["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
        command.env("PORT", port.to_string()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains(&port.to_string()) && !line.contains("already in use") {
                // Somebody has to read what else it says.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return (child, port);
            }
        }
    }
    panic!("server-everything does not start");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_over_the_web_in_both_ways() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    for (way, path, kind) in [("streamableHttp", "mcp", "streamable-http"), ("sse", "sse", "sse")] {
        let (child, port) = everything_on_the_web(way).await;
        let launch = json!({ "url": format!("http://127.0.0.1:{port}/{path}"), "serverType": kind });
        let shown = connect(&server, "everything", launch).await;
        assert_eq!(shown["serverType"], kind);
        everything(&server, &shown).await;
        drop(child);
        // It is gone, and that costs only its own calls.
        until(&server, &at("everything"), |shown| shown["status"] != "connected").await;
        server.delete(&at("everything")).await.expect(204);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_call_tells_how_far_it_is_and_can_be_stopped() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let chat = new_chat(&server).await;
    connect(&server, "everything", node("server-everything", &["stdio"])).await;
    let mut heard = Listener::new(&server).await;
    let args = json!({ "duration": 600, "steps": 6000 });
    let long = asking(&server, &chat, "mcp:everything~everything:trigger-long-running-operation", &args);
    let call = Answer::of(long.header("Prefer", "respond-async")).await.expect(202);
    assert_eq!(call["status"], "running");
    let progress = heard.until("tool_call_progress", |told| told["fraction"].as_f64() > Some(0.0)).await;
    assert_eq!((&progress["callId"], &progress["chatId"]), (&call["id"], &json!(chat)));
    let stopped = server.post(&format!("{}/cancel", place(&call)), &json!({})).await.expect(200);
    assert_eq!((&stopped["status"], &stopped["error"]["code"]), (&json!("error"), &json!("CANCELLED")), "{stopped}");
    heard.until("tool_call", |told| told["id"] == call["id"] && told["status"] == "error").await;
    // The server goes on.
    done(&server, &chat, "mcp:everything~everything:echo", json!({ "message": "still here" })).await;
    let listed = server.get(&format!("{CHATS}/{chat}/tool-calls")).await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_tools_are_known_before_anything_starts() {
    let database = TestDatabase::sqlite();
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().canonicalize().unwrap();
    std::fs::write(inside.join("a.txt"), "inside").unwrap();
    let marker = inside.display().to_string();
    let mut server = serve(&database);
    let before = connect(&server, "files", node("server-filesystem", &[&marker])).await;
    assert_eq!(processes_with(&marker).len(), 1);
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    assert_eq!(processes_with(&marker), Vec::<i32>::new(), "it ends with the program");

    let server = serve(&database);
    let chat = new_chat(&server).await;
    let shown = server.get(&at("files")).await.expect(200);
    assert_eq!((&shown["status"], &shown["tools"]), (&json!("disconnected"), &before["tools"]), "{shown}");
    assert_eq!(tool(&server, "mcp:files~files:read_text_file").await["available"], true);
    assert_eq!(processes_with(&marker), Vec::<i32>::new(), "nobody has used it yet");
    let read = json!({ "path": inside.join("a.txt") });
    assert_eq!(text(&server, &chat, "mcp:files~files:read_text_file", read).await, "inside");
    assert_eq!(processes_with(&marker).len(), 1);
    connected(&server, "files").await;
    // A program that is killed takes them along as well.
    drop(server);
    until_so("the server's process is gone", || processes_with(&marker).is_empty()).await;
}
