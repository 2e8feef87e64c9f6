//! What becomes of a server's processes: they end when they should, all of them, and start when they must.

use kitbag_testkit::{Program, on_both};
use serde_json::{Value, json};

use crate::kit::{
    TOOLS, TOOLSETS, TWIN, add, ask, at, bundle, connect, connected, failed, import, kill, lives, new_chat, pid,
    processes_with, put, text, tool, twin, until, until_so, until_status, with,
};
use crate::serve;

on_both! {
    /// Whether its tools are known, or have to be learnt first.
    async fn a_command_that_has_the_folder_alone_starts_the_server_it_calls_and_ends_it(database: TestDatabase) {
        let program = Program::on(env!("CARGO_BIN_EXE_kitbag"), &database);
        let mark = database.data().display().to_string();
        let launch = twin(&[&mark]);
        let mut add = vec!["mcp", "add", "own", "--", launch["command"].as_str().unwrap()];
        add.extend(launch["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
        let added = program.run(&add);
        assert_eq!(added.code, Some(0), "{added:?}");
        for known in [false, true] {
            let called = program.run(&["--json", "tool", "call", "mcp:own~own:pid", "--args", "{}", "--yes"]);
            assert_eq!(called.code, Some(0), "known: {known}: {called:?}");
            let said: i32 = called.json()["result"]["content"][0]["text"].as_str().unwrap().parse().unwrap();
            assert!(!lives(said) && processes_with(&format!("manager_server.py\0{mark}")).is_empty());
        }
    }

    async fn a_server_that_goes_takes_its_process_tree_along(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        // Turned off, removed, and uninstalled with its toolset.
        connect(&server, "one", twin(&["one"])).await;
        connect(&server, "two", twin(&["two"])).await;
        let files = [("server.py", TWIN)];
        let servers = "mcp_servers:\n  - {id: three, command: python3, args: [-I, -S, \"${KITBAG_TOOLSET_DIR}/server.py\"], requires_confirmation: false}\n";
        import(&server, bundle("three", "1.0.0", servers, &files)).await;
        server.post(&format!("{}/trust", at("three")), &json!({})).await.expect(200);
        connected(&server, "three").await;
        let mut trees = Vec::new();
        for id in ["one", "two", "three"] {
            let child: i32 = text(&server, &chat, &format!("mcp:{id}~{id}:spawn"), json!({})).await.parse().unwrap();
            trees.push((pid(&server, &chat, id).await, child));
            assert!(lives(child) && lives(trees.last().unwrap().0));
        }
        put(&server, &at("one"), json!({ "enabled": false })).await.expect(200);
        server.delete(&at("two")).await.expect(204);
        server.delete(&format!("{TOOLSETS}/three")).await.expect(204);
        for (process, child) in trees {
            until_so("the process and its child are gone", || !lives(process) && !lives(child)).await;
        }
        ask(&server, &chat, "mcp:two~two:pid", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
        ask(&server, &chat, "mcp:three~three:pid", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
        ask(&server, &chat, "mcp:one~one:pid", json!({})).await.expect_error(409, "CONFLICT");
    }

    async fn a_call_in_a_killed_process_fails_and_the_next_one_works(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        connect(&server, "twin", twin(&[])).await;
        let first = pid(&server, &chat, "twin").await;
        let error = failed(&server, &chat, "mcp:twin~twin:die", json!({})).await;
        assert_eq!(error["code"], "MCP_SERVER_NOT_CONNECTED", "{error}");
        let second = pid(&server, &chat, "twin").await;
        assert!(first != second && !lives(first));
        let before = server.get(&at("twin")).await.expect(200);
        kill(second);
        // Until it is noticed, a call would meet the dead one.
        until(&server, &at("twin"), |shown| shown["since"] != before["since"]).await;
        assert_ne!(pid(&server, &chat, "twin").await, second);
    }

    async fn what_cannot_start_says_why_and_is_not_on_offer(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        connect(&server, "twin", twin(&[])).await;
        let broken = twin(&["--fail", "no licence \u{1b}[31mfound"]);
        put(&server, &at("twin"), json!({ "args": broken["args"] })).await.expect(200);
        server.post(&format!("{}/test", at("twin")), &json!({})).await.expect_error(409, "MCP_SERVER_NOT_CONNECTED");
        let shown = until_status(&server, "twin", "error").await;
        assert!(shown["stderr"].to_string().contains("no licence"), "{shown}");
        assert!(!shown["stderr"].to_string().contains("\\u001b"), "{shown}");
        assert!(shown["error"].is_string() && shown["reason"] == shown["error"], "{shown}");
        // Its tools are known, and said to be out of reach.
        let pid = tool(&server, "mcp:twin~twin:pid").await;
        assert_eq!((&pid["available"], &pid["enabled"]), (&json!(false), &json!(true)));
        assert!(pid["problem"].as_str().unwrap().contains("twin~twin is not connected"), "{pid}");
        for path in [format!("{TOOLS}?available=true&limit=200"), "/v1/orgs/local/available-tools".to_owned()] {
            let listed = server.get(&path).await.expect(200);
            assert!(!listed.to_string().contains("mcp:twin"), "{listed}");
        }
        assert_eq!(failed(&server, &chat, "mcp:twin~twin:pid", json!({})).await["code"], "MCP_SERVER_NOT_CONNECTED");
        // Mended, it comes back.
        put(&server, &at("twin"), json!({ "args": twin(&[])["args"] })).await.expect(200);
        assert_eq!(tool(&server, "mcp:twin~twin:pid").await["available"], true);
        crate::kit::pid(&server, &chat, "twin").await;
    }

    async fn a_missing_variable_is_named_before_anything_starts(database: TestDatabase) {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts").display().to_string();
        let server = serve(&database);
        let chat = new_chat(&server).await;
        // Its tools are known from a time when all was well.
        connect(&server, "twin", twin(&["--starts", &starts])).await;
        let count = || std::fs::read_to_string(&starts).unwrap().lines().count();
        let before = count();
        let env = json!({ "A": "${ENV:KB_TEST_NOT_SET}", "B": "${KB_TEST_NEITHER}" });
        put(&server, &at("twin"), json!({ "env": env })).await.expect(200);
        let shown = until_status(&server, "twin", "error").await;
        assert!(shown["error"].as_str().unwrap().contains("MCP_ENV_NOT_SET:KB_TEST_NOT_SET"), "{shown}");
        let error = failed(&server, &chat, "mcp:twin~twin:pid", json!({})).await;
        assert_eq!(error["code"], "MCP_ENV_NOT_SET:KB_TEST_NOT_SET", "{error}");
        // One that was never seen, too.
        add(&server, "new", with(twin(&["--starts", &starts]), json!({ "env": env }))).await;
        let shown = until_status(&server, "new", "error").await;
        assert!(shown["error"].as_str().unwrap().contains("MCP_ENV_NOT_SET:KB_TEST_NOT_SET"), "{shown}");
        let refused = ask(&server, &chat, "mcp:new~new:pid", json!({})).await;
        assert!(refused.body.to_string().contains("MCP_ENV_NOT_SET:KB_TEST_NOT_SET"), "{refused:?}");
        assert_eq!(count(), before, "nothing was started");
        put(&server, &at("twin"), json!({ "env": { "A": "fine" } })).await.expect(200);
        let environment: Value = serde_json::from_str(&text(&server, &chat, "mcp:twin~twin:environment", json!({})).await).unwrap();
        assert_eq!(environment["A"], "fine");
        assert!(environment.as_object().unwrap().keys().all(|name| !name.starts_with("KITBAG_")), "{environment}");
    }
}
