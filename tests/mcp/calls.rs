//! Calls of servers' tools wait for nobody: not for each other, and not for who has the workspace.

use kitbag_testkit::{Answer, on_both};
use serde_json::json;

use crate::kit::{CHATS, Listener, ask, asking, bundle, connect, done, failed, import, new_chat, place, twin, until};
use crate::serve;

/// A tool that has the workspace until somebody says otherwise.
const HOLDS: &str = r#"
import time
from pathlib import Path
from covalt_toolset import tool, get_context

@tool
def hold() -> str:
    get_context().progress(0.5, "holding")
    time.sleep(600)
    return "done"
"#;

on_both! {
    async fn calls_of_servers_run_beside_each_other_and_beside_who_has_the_workspace(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        connect(&server, "twin", twin(&[])).await;
        let tools = "tools:\n  - {id: hold, entrypoint: \"tools.t:hold\"}\n";
        import(&server, bundle("app", "1.0.0", tools, &[("tools/t.py", HOLDS)])).await;
        let mut heard = Listener::new(&server).await;
        let holds = Answer::of(asking(&server, &chat, "app:hold", &json!({})).header("Prefer", "respond-async")).await.expect(202);
        heard.until("tool_call_progress", |told| told["callId"] == holds["id"]).await;
        // Two at once on one connection, one of which takes its time.
        let slow = asking(&server, &chat, "mcp:twin~twin:sleep", &json!({ "seconds": 600 })).header("Prefer", "respond-async");
        let slow = Answer::of(slow).await.expect(202);
        let quick = done(&server, &chat, "mcp:twin~twin:echo", json!({ "text": "quick" })).await;
        assert_eq!(quick["result"]["content"][0]["text"], "quick");
        assert_eq!(quick["preManifestId"], quick["postManifestId"]);
        for running in [&holds, &slow] {
            assert_eq!(server.get(&place(running)).await.expect(200)["status"], "running");
        }
        for running in [&holds, &slow] {
            let stopped = server.post(&format!("{}/cancel", place(running)), &json!({})).await.expect(200);
            assert_eq!(stopped["error"]["code"], "CANCELLED", "{stopped}");
        }
        // Many at once, each with its own answer.
        let calls = (0..40).map(|n| {
            let request = asking(&server, &chat, "mcp:twin~twin:echo", &json!({ "text": n.to_string() }));
            tokio::spawn(async move { (n, Answer::of(request).await.expect(200)) })
        });
        for call in calls.collect::<Vec<_>>() {
            let (n, call) = call.await.unwrap();
            assert_eq!(call["result"]["content"][0]["text"], n.to_string(), "{call}");
        }
    }

    async fn a_chat_or_a_server_that_goes_takes_its_calls_along(database: TestDatabase) {
        let server = serve(&database);
        connect(&server, "twin", twin(&[])).await;
        let begin = async |chat: &str| {
            let slow = asking(&server, chat, "mcp:twin~twin:sleep", &json!({ "seconds": 600 }));
            Answer::of(slow.header("Prefer", "respond-async")).await.expect(202)
        };
        let (gone, stays) = (new_chat(&server).await, new_chat(&server).await);
        let first = begin(&gone).await;
        server.delete(&format!("{CHATS}/{gone}")).await.expect(204);
        server.get(&place(&first)).await.expect_error(404, "NOT_FOUND");
        let second = begin(&stays).await;
        server.delete(&crate::kit::at("twin")).await.expect(204);
        let over = until(&server, &place(&second), |call| call["status"] != "running").await;
        assert_eq!((&over["status"], &over["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")), "{over}");
        ask(&server, &stays, "mcp:twin~twin:echo", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
    }

    async fn a_call_that_takes_too_long_is_cut_off(database: TestDatabase) {
        let server = kitbag_testkit::Server::start(crate::BINARY, &database, &["--tool-timeout", "1"]);
        let chat = new_chat(&server).await;
        connect(&server, "twin", twin(&[])).await;
        let error = failed(&server, &chat, "mcp:twin~twin:sleep", json!({ "seconds": 600 })).await;
        assert_eq!(error["code"], "TIMEOUT", "{error}");
        let error = failed(&server, &chat, "mcp:twin~twin:refuse", json!({ "text": "not \u{1b}[31mtoday" })).await;
        assert_eq!(error["code"], "TOOL_FAILED");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("today") && !message.contains('\u{1b}'), "{error}");
    }
}
