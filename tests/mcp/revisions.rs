//! What is remembered of a launch that worked: which revision of the protocol was agreed on, and that its tools are known.

use std::path::Path;

use kitbag_testkit::{Server, on_both};
use serde_json::json;

use crate::kit::{TOOLS, at, connect, new_chat, pid, put, twin, until, until_so};
use crate::serve;

/// What a twin was asked before it was asked for its tools.
fn questions(methods: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(methods).unwrap_or_default();
    text.lines().filter(|line| ["server/discover", "initialize"].contains(line)).map(ToOwned::to_owned).collect()
}

async fn until_has(server: &Server, tool: &str) {
    let has = |listed: &serde_json::Value| listed.to_string().contains(&format!("mcp:twin~twin:{tool}\""));
    until(server, &format!("{TOOLS}?limit=200"), has).await;
}

on_both! {
    async fn a_server_that_is_known_is_not_asked_again_after_a_restart(database: TestDatabase) {
        let methods = database.data().join("methods");
        let flags = ["--methods", methods.to_str().unwrap()];
        let server = serve(&database);
        connect(&server, "twin", twin(&flags)).await;
        assert_eq!(questions(&methods), ["server/discover", "initialize"]);
        drop(server);
        let server = serve(&database);
        let chat = new_chat(&server).await;
        pid(&server, &chat, "twin").await;
        assert_eq!(questions(&methods)[2..], ["initialize"]);
        // What goes by another name is the same.
        put(&server, &at("twin"), json!({ "id": "other" })).await.expect(200);
        drop(server);
        let server = serve(&database);
        pid(&server, &chat, "other").await;
        assert_eq!(questions(&methods)[3..], ["initialize"]);
        // Another launch is another program.
        let args = &twin(&[&flags[..], &["--timid"]].concat())["args"];
        put(&server, &at("other"), json!({ "args": args })).await.expect(200);
        pid(&server, &chat, "other").await;
        assert_eq!(questions(&methods)[4..], ["server/discover", "initialize"]);
    }

    /// Nobody has to use it before its tools are those of what it starts now.
    async fn a_changed_launch_is_started_once_to_learn_its_tools(database: TestDatabase) {
        let starts = database.data().join("starts");
        let count = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
        let args = |more: &str| twin(&["--starts", starts.to_str().unwrap(), "--extra", more])["args"].clone();
        let server = serve(&database);
        connect(&server, "twin", json!({ "command": "python3", "args": args("one") })).await;
        until_has(&server, "one").await;
        put(&server, &at("twin"), json!({ "args": args("two") })).await.expect(200);
        until_has(&server, "two").await;
        assert_eq!(count(), 2);
        // What is off stays off, and its turn comes when it is on.
        put(&server, &at("twin"), json!({ "enabled": false })).await.expect(200);
        put(&server, &at("twin"), json!({ "args": args("three") })).await.expect(200);
        drop(server);
        let server = serve(&database);
        put(&server, &at("twin"), json!({ "description": "off" })).await.expect(200);
        assert_eq!(count(), 2);
        put(&server, &at("twin"), json!({ "enabled": true })).await.expect(200);
        until_has(&server, "three").await;
        until_so("it was started once", || count() == 3).await;
        // What is known is not started for that.
        drop(server);
        let server = serve(&database);
        put(&server, &at("twin"), json!({ "description": "on" })).await.expect(200);
        until(&server, &at("twin"), |shown| shown["status"] == "disconnected").await;
        assert_eq!(count(), 3);
    }
}
