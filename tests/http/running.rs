//! Tool calls that run: real Python tools in real workers. What is in the record, in the workspace and in the stream of events.

use std::time::Duration;

use kitbag_testkit::{Answer, Server, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::calls::{ask, asking, at, calls};
use crate::decisions::until;
use crate::events::Listener;
use crate::kit::{TOOLSETS, bundle, import, manifest, tool};
use crate::{CHATS, new_chat, serve};

/// A toolset with tools that do what a test needs.
const TOOLS: &str = r#"
import os, sys, time
from pathlib import Path
from covalt_toolset import tool, get_context

@tool(description="From the decorator.")
def write(path: str, content: str = "hello") -> dict:
    """Writes a file."""
    target = Path(get_context().workspace) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)
    print("wrote", path)
    print("beside", file=sys.stderr)
    return {"path": path, "bytes": len(content)}

@tool
def fail(path: str) -> None:
    (Path(get_context().workspace) / path).write_text("half")
    raise ValueError("this went wrong")

@tool
def wait(seconds: float = 60.0, path: str = "waited.txt") -> str:
    (Path(get_context().workspace) / path).write_text("begun")
    get_context().progress(0.5, "half-way")
    time.sleep(seconds)
    return "done"

@tool(requires_confirmation=True)
def careful(name: str) -> str:
    return f"careful {name}"

@tool
def large(count: int) -> dict:
    return {"text": "x" * count}

@tool
def odd() -> str:
    os.mkfifo(os.path.join(get_context().workspace, "pipe"))
    return "made a pipe"

@tool
def lock_up() -> str:
    (Path(get_context().workspace) / "kept.txt").write_text("kept")
    os.chmod(get_context().workspace, 0)
    return "locked"

@tool
def fill(count: int) -> str:
    for n in range(count):
        (Path(get_context().workspace) / f"f{n}").write_text(str(n))
    return "filled"
"#;

const MANIFEST: &str = r#"
tools:
  - {id: write, entrypoint: "tools.t:write", description: "From the manifest."}
  - {id: fail, entrypoint: "tools.t:fail"}
  - {id: wait, entrypoint: "tools.t:wait"}
  - {id: careful, entrypoint: "tools.t:careful"}
  - {id: large, entrypoint: "tools.t:large"}
  - {id: odd, entrypoint: "tools.t:odd"}
  - {id: fill, entrypoint: "tools.t:fill"}
  - {id: lock_up, entrypoint: "tools.t:lock_up"}
  - {id: broken, entrypoint: "tools.broken:run"}
tool_overrides:
  - {tool_id: write, renderer: code, renderer_config: {file: "$return.path"}}
  - {tool_id: large, renderer: html, renderer_config: {artifact: "artifacts/show.html"}}
  - {tool_id: odd, renderer: code, renderer_config: {file: "$return.nothing"}}
"#;

fn toolset(version: &str) -> Vec<u8> {
    bundle(&[
        ("toolset.yaml", &manifest("app", version, MANIFEST)),
        ("tools/t.py", TOOLS),
        ("tools/broken.py", "import nothing_of_that_name\ndef run(): pass\n"),
        ("artifacts/show.html", "<p>shown</p>"),
    ])
}

async fn served(server: Server) -> (Server, String) {
    import(&server, "", &toolset("1.0.0")).await.expect(201);
    let chat = new_chat(&server).await;
    (server, chat)
}

async fn file(server: &Server, chat: &str, path: &str) -> Option<String> {
    let request = server.request(Method::GET, &format!("{CHATS}/{chat}/workspace/files/{path}"));
    let response = request.send().await.unwrap();
    (response.status() == 200).then_some(response.text().await.unwrap())
}

/// Begins a call that takes a minute, and waits until it is at work.
async fn begun(server: &Server, chat: &str, heard: &mut Listener) -> Value {
    let request = asking(server, chat, "app:wait", &json!({})).header("Prefer", "respond-async");
    let call = Answer::of(request).await.expect(202);
    assert_eq!(call["status"], "running");
    heard.of_name("tool_call_progress").await;
    call
}

on_both! {
    async fn a_tool_runs_and_everything_of_it_is_recorded(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let mut heard = Listener::new(&server, &format!("?chat={chat}")).await;
        let call = ask(&server, &chat, "app:write", json!({ "path": "a/b.txt" })).await.expect(200);
        assert_eq!((&call["status"], &call["error"]), (&json!("success"), &Value::Null), "{call}");
        assert_eq!(call["result"], json!({ "path": "a/b.txt", "bytes": 5 }), "the default was the tool's own");
        assert_eq!(call["renderPlan"]["renderer"], "code");
        assert_eq!(call["renderPlan"]["config"]["file"], "a/b.txt");
        let lines = call["logs"].as_array().unwrap();
        assert!(lines.contains(&json!({ "stream": "stdout", "text": "wrote a/b.txt" })), "{lines:?}");
        assert!(lines.contains(&json!({ "stream": "stderr", "text": "beside" })), "{lines:?}");
        assert!(!call["sandbox"]["layers"].as_array().unwrap().is_empty());
        assert_eq!(file(&server, &chat, "a/b.txt").await.as_deref(), Some("hello"));
        // The state is the chat's, the message's and the call's.
        let post = call["postManifestId"].as_str().unwrap();
        assert_eq!(call["preManifestId"], Value::Null);
        assert_eq!(server.get(&format!("{CHATS}/{chat}")).await.expect(200)["activeManifestId"], post);
        let at = format!("{CHATS}/{chat}/workspace/manifest?messageId={}", call["messageId"].as_str().unwrap());
        let state = server.get(&at).await.expect(200);
        assert_eq!((&state["id"], &state["source"], &state["sourceRef"]), (&json!(post), &json!("tool_run"), &call["id"]));
        let changed = heard.of_name("workspace_changed").await;
        assert_eq!((&changed["changedPaths"], &changed["sourceRef"]), (&json!(["a/b.txt"]), &call["id"]));
        assert_eq!(heard.of_name("tool_call").await["status"], "success");
        let next = ask(&server, &chat, "app:write", json!({ "path": "a/b.txt" })).await.expect(200);
        assert_eq!((&next["preManifestId"], &next["postManifestId"]), (&json!(post), &json!(post)), "nothing changed");
    }

    async fn what_the_code_says_is_what_is_shown(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let shown = tool(&server, "app:write").await;
        assert_eq!(shown["description"], "From the manifest.");
        assert_eq!(shown["inputSchema"]["required"], json!(["path"]));
        assert_eq!((&shown["problem"], &shown["available"]), (&Value::Null, &json!(true)));
        assert_eq!(tool(&server, "app:careful").await["requiresConfirmation"], true);
        let broken = tool(&server, "app:broken").await;
        assert!(broken["problem"].as_str().unwrap().contains("nothing_of_that_name"), "{broken}");
        assert_eq!(broken["available"], false);
        let refused = ask(&server, &chat, "app:broken", json!({})).await;
        refused.expect_error(409, "CONFLICT");
        assert!(refused.body["message"].as_str().unwrap().contains("nothing_of_that_name"), "{refused:?}");
        ask(&server, &chat, "app:write", json!({ "path": 1 })).await.expect_error(400, "INVALID_ARGUMENTS");
        let ready = server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect(200);
        assert_eq!(ready["tools"].as_array().unwrap().len(), 9);
        assert_eq!(ready["tools"].as_array().unwrap().iter().filter(|one| !one["problem"].is_null()).count(), 1);
    }

    async fn a_tool_that_fails_leaves_what_it_did_and_says_why(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let call = ask(&server, &chat, "app:fail", json!({ "path": "half.txt" })).await.expect(200);
        assert_eq!((&call["status"], &call["error"]["code"]), (&json!("error"), &json!("TOOL_FAILED")));
        assert!(call["error"]["message"].as_str().unwrap().contains("this went wrong"), "{call}");
        assert_eq!((&call["result"], &call["renderPlan"]), (&Value::Null, &Value::Null));
        assert!(call["logs"].as_array().unwrap().iter().any(|line| line["stream"] == "traceback"), "{call}");
        assert!(call["postManifestId"].is_string());
        assert_eq!(file(&server, &chat, "half.txt").await.as_deref(), Some("half"));
        server.get(&format!("{}/result", at(&call))).await.expect_error(404, "NOT_FOUND");
    }

    async fn a_yes_lets_it_run(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let call = ask(&server, &chat, "app:careful", json!({ "name": "a" })).await.expect(202);
        let body = json!({ "approve": true, "digest": call["argsDigest"], "args": { "name": "b" } });
        let run = server.post(&format!("{}/decision", at(&call)), &body).await.expect(200);
        assert_eq!((&run["status"], &run["result"]), (&json!("success"), &json!("careful b")));
        // A yes is for the code that was there when it was asked for.
        let call = ask(&server, &chat, "app:careful", json!({ "name": "a" })).await.expect(202);
        import(&server, "", &toolset("1.0.1")).await.expect(200);
        let late = server.post(&format!("{}/decision", at(&call)), &json!({ "approve": true })).await;
        late.expect_error(409, "CONFLICT");
        assert!(late.body["message"].as_str().unwrap().contains("was changed"), "{late:?}");
    }

    async fn a_large_result_is_kept_beside_the_record(database: TestDatabase) {
        let (server, chat) = served(Server::start(crate::BINARY, &database, &["--max-result-bytes", "1000"])).await;
        let call = ask(&server, &chat, "app:large", json!({ "count": 100_000 })).await.expect(200);
        assert_eq!((&call["result"]["truncated"], &call["resultTruncated"]), (&json!(true), &json!(true)), "{call}");
        let all = async || server.get(&format!("{}/result", at(&call))).await.expect(200);
        assert_eq!(all().await["text"].as_str().unwrap().len(), 100_000);
        // The page that it is shown with is kept with the chat, whatever becomes of the toolset.
        let config = &call["renderPlan"]["config"];
        assert_eq!((&config["artifact"], &config["sha256"]), (&json!("artifacts/show.html"), &json!(kitbag_testkit::sha256(b"<p>shown</p>"))));
        server.post(&format!("{CHATS}/{chat}/workspace/gc"), &json!({ "graceSeconds": 0 })).await.expect(200);
        assert_eq!(all().await["text"].as_str().unwrap().len(), 100_000, "it is not collected");
        assert_eq!(server.post(&format!("{CHATS}/{chat}/workspace/fsck"), &json!({})).await.expect(200)["ok"], true);
        let small = ask(&server, &chat, "app:large", json!({ "count": 10 })).await.expect(200);
        assert_eq!((&small["resultTruncated"], &small["result"]["text"]), (&json!(false), &json!("x".repeat(10))));
    }

    async fn what_cannot_be_kept_or_shown_is_said(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let call = ask(&server, &chat, "app:odd", json!({})).await.expect(200);
        assert_eq!((&call["status"], &call["renderPlan"]), (&json!("success"), &Value::Null));
        let warnings = call["warnings"].to_string();
        assert!(warnings.contains("pipe") && warnings.contains("not shown"), "{warnings}");
    }

    async fn a_workspace_that_was_locked_away_opens_again(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let call = ask(&server, &chat, "app:lock_up", json!({})).await.expect(200);
        assert_eq!((call["status"].clone(), file(&server, &chat, "kept.txt").await.as_deref()), (json!("success"), Some("kept")));
        let call = ask(&server, &chat, "app:write", json!({ "path": "next.txt" })).await.expect(200);
        assert_eq!(call["status"], "success", "{call}");
        let twice = r#"{"toolId": "app:write", "args": {"path": "a", "path": "b"}}"#;
        let request = server.request(Method::POST, &calls(&chat)).header("content-type", "application/json").body(twice);
        Answer::of(request).await.expect_error(400, "BAD_REQUEST");
    }

    async fn a_workspace_that_gets_too_full_goes_back(database: TestDatabase) {
        let (server, chat) = served(Server::start(crate::BINARY, &database, &["--max-workspace-files", "5"])).await;
        ask(&server, &chat, "app:write", json!({ "path": "kept.txt" })).await.expect(200);
        let call = ask(&server, &chat, "app:fill", json!({ "count": 20 })).await.expect(200);
        assert_eq!((&call["status"], &call["error"]["code"]), (&json!("error"), &json!("QUOTA_EXCEEDED")), "{call}");
        assert_eq!(call["preManifestId"], call["postManifestId"]);
        assert_eq!(file(&server, &chat, "f1").await, None);
        assert_eq!(file(&server, &chat, "kept.txt").await.as_deref(), Some("hello"));
        ask(&server, &chat, "app:fill", json!({ "count": 2 })).await.expect(200);
    }

    async fn a_call_that_takes_too_long_is_cut_off(database: TestDatabase) {
        let (server, chat) = served(Server::start(crate::BINARY, &database, &["--tool-timeout", "1", "--request-timeout-seconds", "1"])).await;
        let call = ask(&server, &chat, "app:wait", json!({ "path": "t.txt" })).await.expect(200);
        assert_eq!((&call["status"], &call["error"]["code"]), (&json!("error"), &json!("TIMEOUT")), "{call}");
        assert_eq!(file(&server, &chat, "t.txt").await.as_deref(), Some("begun"));
    }

    async fn one_call_at_a_time_and_nobody_waits_to_read(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        ask(&server, &chat, "app:write", json!({ "path": "before.txt" })).await.expect(200);
        let mut heard = Listener::new(&server, &format!("?chat={chat}")).await;
        let running = begun(&server, &chat, &mut heard).await;
        // What was kept last can be read.
        assert_eq!(file(&server, &chat, "before.txt").await.as_deref(), Some("hello"));
        assert_eq!(file(&server, &chat, "waited.txt").await, None);
        assert_eq!(server.get(&format!("{CHATS}/{chat}/workspace/files")).await.expect(200)["items"].as_array().unwrap().len(), 1);
        // Nobody changes it meanwhile.
        let edit = server.request(Method::PUT, &format!("{CHATS}/{chat}/workspace/files/x")).body("x");
        let busy = Answer::of(edit).await;
        busy.expect_error(409, "CONFLICT");
        assert_eq!(busy.body["details"]["callId"], running["id"]);
        let leaf = json!({ "messageId": running["messageId"] });
        server.post(&format!("{CHATS}/{chat}/active-leaf"), &leaf).await.expect_error(409, "CONFLICT");
        // Another call waits for its turn, one of another chat does not.
        let queued = asking(&server, &chat, "app:write", &json!({ "path": "after.txt" })).header("Prefer", "respond-async");
        let queued = Answer::of(queued).await.expect(202);
        let elsewhere = new_chat(&server).await;
        ask(&server, &elsewhere, "app:write", json!({ "path": "x" })).await.expect(200);
        assert_eq!(server.get(&at(&queued)).await.expect(200)["status"], "running");
        let second = asking(&server, &chat, "app:write", &json!({ "path": "never.txt" })).header("Prefer", "respond-async");
        let second = Answer::of(second).await.expect(202);
        let stopped = server.post(&format!("{}/cancel", at(&second)), &json!({})).await.expect(200);
        assert_eq!((&stopped["error"]["code"], &stopped["sandbox"]), (&json!("CANCELLED"), &Value::Null), "it never ran");

        let stopped = server.post(&format!("{}/cancel", at(&running)), &json!({})).await.expect(200);
        assert_eq!((&stopped["status"], &stopped["error"]["code"]), (&json!("error"), &json!("CANCELLED")));
        assert_eq!(server.post(&format!("{}/cancel", at(&running)), &json!({})).await.expect(200), stopped);
        let done = until(&server, &at(&queued), |call| call["status"] != "running").await;
        assert_eq!((&done["status"], &done["preManifestId"]), (&json!("success"), &stopped["postManifestId"]));
        assert_eq!(file(&server, &chat, "waited.txt").await.as_deref(), Some("begun"), "what it did is kept");
        assert_eq!(file(&server, &chat, "never.txt").await, None);
    }

    async fn a_call_goes_on_when_its_caller_goes_away(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let mut heard = Listener::new(&server, "").await;
        let request = asking(&server, &chat, "app:wait", &json!({ "seconds": 1.0 })).header("Idempotency-Key", "once");
        let impatient = tokio::spawn(request.timeout(Duration::from_secs(20)).send());
        heard.of_name("tool_call_progress").await;
        impatient.abort();
        // The same request again waits for the same call.
        let again = asking(&server, &chat, "app:wait", &json!({ "seconds": 1.0 })).header("Idempotency-Key", "once");
        let call = Answer::of(again).await.expect(200);
        assert_eq!((&call["status"], &call["result"]), (&json!("success"), &json!("done")));
        assert_eq!(server.get(&calls(&chat)).await.expect(200)["items"].as_array().unwrap().len(), 1);
    }

    async fn a_toolset_that_goes_takes_its_calls_along(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let mut heard = Listener::new(&server, &format!("?chat={chat}")).await;
        let call = begun(&server, &chat, &mut heard).await;
        server.post(&format!("{TOOLSETS}/app/enable"), &json!({ "enabled": false })).await.expect(200);
        ask(&server, &chat, "app:wait", json!({})).await.expect_error(409, "CONFLICT");
        let over = server.get(&at(&call)).await.expect(200);
        assert_eq!((&over["status"], &over["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{over}");
        server.post(&format!("{TOOLSETS}/app/enable"), &json!({ "enabled": true })).await.expect(200);
        let mut heard = Listener::new(&server, &format!("?chat={chat}")).await;
        let call = begun(&server, &chat, &mut heard).await;
        server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
        let over = server.get(&at(&call)).await.expect(200);
        assert_eq!((&over["status"], &over["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{over}");
        ask(&server, &chat, "app:wait", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
    }

    async fn a_chat_that_goes_takes_its_calls_along(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let mut heard = Listener::new(&server, &format!("?chat={chat}")).await;
        let call = begun(&server, &chat, &mut heard).await;
        server.delete(&format!("{CHATS}/{chat}")).await.expect(204);
        server.get(&at(&call)).await.expect_error(404, "NOT_FOUND");
        assert!(!database.data().join("chats").join(&chat).exists());
    }

    async fn a_server_that_is_killed_leaves_no_call_running(database: TestDatabase) {
        let (server, chat) = served(serve(&database)).await;
        let mut heard = Listener::new(&server, "").await;
        let call = begun(&server, &chat, &mut heard).await;
        let queued = asking(&server, &chat, "app:write", &json!({ "path": "x" })).header("Prefer", "respond-async");
        let queued = Answer::of(queued).await.expect(202);
        drop(server);
        let server = serve(&database);
        for call in [&call, &queued] {
            let over = server.get(&at(call)).await.expect(200);
            assert_eq!((&over["status"], &over["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{over}");
        }
        let next = ask(&server, &chat, "app:write", json!({ "path": "next.txt" })).await.expect(200);
        assert_eq!(next["status"], "success", "{next}");
        assert_eq!(file(&server, &chat, "waited.txt").await.as_deref(), Some("begun"), "what it did is kept with the next state");
    }

    async fn a_server_that_stops_says_so_to_those_who_wait(database: TestDatabase) {
        let (mut server, chat) = served(Server::start(crate::BINARY, &database, &["--drain-seconds", "1"])).await;
        let mut heard = Listener::new(&server, "").await;
        let waiting = tokio::spawn(Answer::of(asking(&server, &chat, "app:wait", &json!({}))));
        heard.of_name("tool_call_progress").await;
        server.signal(rustix::process::Signal::TERM);
        let call = waiting.await.unwrap().expect(200);
        assert_eq!((&call["status"], &call["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{call}");
        assert!(server.wait().success());
        let server = serve(&database);
        assert_eq!(server.get(&at(&call)).await.expect(200)["error"], call["error"], "it was recorded before the end");
    }
}
