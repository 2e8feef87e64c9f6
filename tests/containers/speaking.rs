//! Images that speak MCP on standard input and output: their tools are those that they list, and a chat's container stays.

use std::time::{Duration, Instant};

use kitbag_testkit::{Podman, Server, TestDatabase};
use serde_json::{Value, json};

use crate::kit::{CHATS, TOOLS, TOOLSETS, ask, bundle, import, new_chat, serve, stop};

const TIME: &str = "localhost/time:1";
const OTHER: &str = "localhost/other:1";

/// An engine with an image that is a published MCP server, the interpreter of this machine with it.
fn engine() -> Podman {
    let podman = Podman::start();
    podman.python_server(TIME, "mcp-server-time", &["-m", "mcp_server_time", "--local-timezone", "UTC"]);
    podman
}

fn manifest(image: &str, more: &str) -> String {
    format!("id: clock\nname: Clock\nversion: \"1.0.0\"\ncontainers:\n  - id: box\n    image: {image}\n{more}")
}

async fn install(server: &Server, yaml: &str) {
    let installed = import(server, "?trust=true", bundle(&[("toolset.yaml", yaml)])).await;
    assert!(installed.status.is_success(), "{:?}", installed.body);
    server.post(&format!("{TOOLSETS}/clock/prepare"), &json!({})).await.expect(200);
}

async fn call(server: &Server, chat: &str, tool: &str, args: Value) -> Value {
    ask(server, chat, &format!("clock:{tool}"), args).await.expect(200)
}

/// Waits until so many containers are there.
async fn until_there_are(podman: &Podman, count: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    while podman.containers().len() != count {
        assert!(Instant::now() < end, "there are {:?}", podman.containers());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_server_is_a_toolsets_container() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let over = "tool_overrides:\n  - {tool_id: convert_time, description_override: Converts it}\n";
    install(&server, &manifest(TIME, over)).await;
    assert_eq!(podman.containers().len(), 0, "it was asked what it has, and ended");
    let detail = server.get(&format!("{TOOLSETS}/clock")).await.expect(200);
    let container = &detail["containers"][0];
    assert_eq!(container["speaksMcp"], true, "{detail}");
    assert_eq!(container["tools"], json!(["get_current_time", "convert_time"]), "{detail}");
    let tool = server.get(&format!("{TOOLS}/clock:convert_time")).await.expect(200);
    assert_eq!((&tool["provider"], &tool["description"]), (&json!("container"), &json!("Converts it")), "{tool}");
    assert_eq!(tool["inputSchema"]["required"], json!(["source_timezone", "time", "target_timezone"]), "{tool}");

    // The chat's container is started by its first call and hears the next; another chat has its own.
    let (one, two) = (new_chat(&server).await, new_chat(&server).await);
    let args = json!({ "source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo" });
    let done = call(&server, &one, "convert_time", args).await;
    assert_eq!(done["status"], "success", "{done}");
    assert!(done["result"]["target"]["datetime"].as_str().unwrap().contains("T21:30"), "{done}");
    assert_eq!(done["sandbox"]["layers"], json!(["container"]));
    until_there_are(&podman, 1).await;
    let first = podman.containers();
    let now = call(&server, &one, "get_current_time", json!({ "timezone": "UTC" })).await;
    assert_eq!((&now["status"], &now["result"]["timezone"]), (&json!("success"), &json!("UTC")), "{now}");
    assert_eq!(podman.containers(), first, "the same one");
    // Arguments that do not fit, and a failure of the tool itself.
    ask(&server, &one, "clock:get_current_time", json!({})).await.expect_error(400, "INVALID_ARGUMENTS");
    let failed = call(&server, &one, "get_current_time", json!({ "timezone": "No/Where" })).await;
    assert_eq!(failed["error"]["code"], "TOOL_FAILED", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("No/Where"), "{failed}");
    assert_eq!(podman.containers(), first, "which is no reason to end it");
    call(&server, &two, "get_current_time", json!({ "timezone": "UTC" })).await;
    until_there_are(&podman, 2).await;

    // It ends with its chat, with its toolset, and with the server.
    server.delete(&format!("{CHATS}/{two}")).await.expect(204);
    until_there_are(&podman, 1).await;
    let exported =
        server.request(reqwest::Method::GET, &format!("{TOOLSETS}/clock/export")).send().await.unwrap().bytes().await;
    server.delete(&format!("{TOOLSETS}/clock")).await.expect(204);
    until_there_are(&podman, 0).await;
    import(&server, "?trust=true", exported.unwrap().to_vec()).await.expect(201);
    assert_eq!(call(&server, &one, "get_current_time", json!({ "timezone": "UTC" })).await["status"], "success");
    until_there_are(&podman, 1).await;
    let mut server = server;
    stop(&mut server);
    until_there_are(&podman, 0).await;
    assert_eq!(std::fs::read_dir(database.data().join("containers")).unwrap().count(), 0);
}

/// A server that is a program of a few lines: what it lists and does is said by files of its image.
const SPEAKER: &str = r#"#!/bin/sh
# Answers each line by what it asks. A request's number stands in it.
echo "I begin" >&2
while read -r line; do
  id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
  case "$line" in
    *'"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"speaker","version":"1"}}' ;;
    *'"tools/list"'*) list=$(cat /tools.json); [ -e /workspace/other ] && list=$(cat /others.json); say "{\"tools\":$list}" ;;
    *'"name":"say.it"'*) echo "it is said" >&2; echo "$line" > said.txt; say '{"content":[{"type":"text","text":"said"}],"structuredContent":{"n":1}}' ;;
    *'"name":"hang"'*) echo before > before.txt; sleep 1000 ;;
    *'"name":"eat"'*) x=$(yes | head -c 150000000); say '{"content":[]}' ;;
    *'"name":"end"'*) echo "no more" >&2; exit 7 ;;
    *'"id"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"what?\"}}" ;;
  esac
done
"#;

const LISTED: &str = r#"[{"name":"say.it","title":"Say it","description":"Says it","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"eat","inputSchema":{"type":"object"}},{"name":"end","inputSchema":{"type":"object"}}]"#;

#[tokio::test(flavor = "multi_thread")]
async fn one_that_misbehaves_is_ended_and_begins_anew() {
    let (podman, database) = (Podman::start(), TestDatabase::sqlite());
    let others = LISTED.replace("Says it", "Says something else");
    let files = [("bin/speaker", SPEAKER), ("tools.json", LISTED), ("others.json", others.as_str())];
    podman.image(OTHER, &files, &["ENTRYPOINT [\"/bin/speaker\"]"]);
    let mut server = serve(&database, &podman, &[]);
    install(&server, &manifest(OTHER, "    limits: {memory: 64m, pids: 30, seconds: 4}\n")).await;
    let chat = new_chat(&server).await;
    let tool = server.get(&format!("{TOOLS}/clock:say_it")).await.expect(200);
    assert_eq!((&tool["name"], &tool["description"]), (&json!("Say it"), &json!("Says it")), "{tool}");

    // Called by its own name; what it says beside is the call's log, and what it wrote is kept.
    let said = call(&server, &chat, "say_it", json!({ "word": "ä" })).await;
    assert_eq!((&said["status"], &said["result"]), (&json!("success"), &json!({ "n": 1 })), "{said}");
    // Two streams have no order among them: what is heard after the answer is the next call's.
    let again = call(&server, &chat, "say_it", json!({ "word": "ä" })).await;
    let logs = format!("{}{}", said["logs"], again["logs"]);
    assert!(logs.contains("it is said"), "{said} {again}");
    let written = crate::kit::file(&server, &chat, "said.txt").await.unwrap();
    assert!(written.contains(r#""word":"ä""#), "{written}");
    let first = podman.containers();
    assert_eq!(first.len(), 1);

    // A yes that changes nothing has it asked again, and leaves its tools meanwhile.
    server.post(&format!("{TOOLSETS}/clock/trust"), &json!({})).await.expect(200);
    server.get(&format!("{TOOLS}/clock:say_it")).await.expect(200);
    server.post(&format!("{TOOLSETS}/clock/prepare"), &json!({})).await.expect(200);
    assert_eq!(call(&server, &chat, "say_it", json!({})).await["status"], "success");
    // It works on the files that are there: with other ones it begins anew.
    let states = server.get(&format!("{CHATS}/{chat}/workspace/manifests")).await.expect(200);
    let state = json!({ "manifestId": states["items"][0]["id"] });
    server.post(&format!("{CHATS}/{chat}/workspace/checkout"), &state).await.expect(200);
    assert_eq!(podman.running().len(), 0);

    // Time: it is ended with all that it does; what it wrote until then is kept. The next call has a new one.
    let late = call(&server, &chat, "hang", json!({})).await;
    assert_eq!(late["error"]["code"], "TIMEOUT", "{late}");
    assert_eq!(crate::kit::file(&server, &chat, "before.txt").await.as_deref(), Some("before\n"));
    until_there_are(&podman, 0).await;
    assert_eq!(call(&server, &chat, "say_it", json!({})).await["status"], "success");
    assert_ne!(podman.containers(), first);
    // Memory, and an end of its own choice: told, with what it said last.
    let ate = call(&server, &chat, "eat", json!({})).await;
    assert_eq!(ate["status"], "error", "{ate}");
    let ended = call(&server, &chat, "end", json!({})).await;
    assert_eq!(ended["error"]["code"], "TOOL_FAILED", "{ended}");
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("exit status 7") && message.contains("no more"), "{message}");
    assert_eq!(call(&server, &chat, "say_it", json!({})).await["status"], "success");

    // What stays is gone with the next start of a server that was killed.
    server.signal(rustix::process::Signal::KILL);
    server.wait();
    assert_eq!(podman.containers().len(), 1, "nobody was left to remove it");
    let server = serve(&database, &podman, &[]);
    assert_eq!(podman.containers().len(), 0, "the next start does");
    // One that lists something else than when it was trusted is not called.
    crate::kit::put_file(&server, &chat, "other", "x").await;
    let other = call(&server, &chat, "say_it", json!({})).await;
    assert_eq!(other["error"]["code"], "NEEDS_TRUST", "{other}");
    assert!(other["error"]["message"].as_str().unwrap().contains("says something else"), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_says_nothing_is_told() {
    let (podman, database) = (Podman::start(), TestDatabase::sqlite());
    podman.image(
        OTHER,
        &[("bin/mute", "#!/bin/sh\necho 'not my language' >&2\nexit 3\n")],
        &["ENTRYPOINT [\"/bin/mute\"]"],
    );
    let server = serve(&database, &podman, &[]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(OTHER, ""))])).await.expect(201);
    let refused = server.post(&format!("{TOOLSETS}/clock/prepare"), &json!({})).await;
    refused.expect_error(409, "CONFLICT");
    let message = refused.body["message"].as_str().unwrap();
    for part in ["which tools", "io.kitbag.tools", "Model Context Protocol", "exit status 3", "not my language"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let detail = server.get(&format!("{TOOLSETS}/clock")).await.expect(200);
    assert_eq!(detail["containers"][0]["problem"], message);
    assert_eq!(podman.containers().len(), 0);
}
