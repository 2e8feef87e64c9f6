//! Ids of servers and their tools: the short old form while it is unambiguous, and odd names.

use kitbag_testkit::{Server, on_both};
use serde_json::json;

use crate::kit::{
    SERVERS, TOOLS, TOOLSETS, TWIN, ask, at, bundle, connect, connected, done, import, new_chat, put, set_override,
    text, tool, twin,
};
use crate::{BINARY, serve};

on_both! {
    async fn lists_may_name_what_nobody_has_seen_yet(database: TestDatabase) {
        let key = {
            let server = serve(&database);
            let added = server.post(SERVERS, &json!({ "id": "later", "command": "/nowhere/kitbag-test", "enabled": false })).await.expect(201);
            connect(&server, "twin", twin(&["hand"])).await;
            added["id"].as_str().unwrap().to_owned()
        };
        assert_eq!(key, "later~later");
        let flags = ["--toolsets", "twin", "--enabled-tools", "mcp:later~later:go,mcp:later:stop", "--disabled-tools", "mcp:twin:pid"];
        let server = Server::start(BINARY, &database, &flags);
        let resolve = async |query: &str| server.get(&format!("{TOOLS}/resolve{query}")).await;
        let found = resolve("").await.expect(200);
        assert_eq!(found["pending"], json!(["later~later"]), "{found}");
        let ids: Vec<&str> = found["tools"].as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap()).collect();
        assert!(!ids.is_empty() && ids.iter().all(|id| id.starts_with("mcp:twin~twin:") && *id != "mcp:twin~twin:pid"), "{ids:?}");
        resolve("?toolsets=later").await.expect(200);
        resolve("?toolsets=&enabled_tools=mcp:later~later:go").await.expect(200);
        // One that the lists of the server do not have is unknown, like one that is not there.
        for unknown in ["mcp:later~later:other", "mcp:twin~twin:pid", "mcp:twin:nope"] {
            let refused = resolve(&format!("?enabled_tools={unknown}")).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert_eq!(refused.body["message"], format!("Unknown enabled tool: {unknown}"));
        }
    }

    async fn the_old_form_of_an_id_means_one_server_or_none(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        connect(&server, "twin", twin(&["hand"])).await;
        let call = done(&server, &chat, "mcp:twin:pid", json!({})).await;
        assert_eq!(call["toolId"], "mcp:twin~twin:pid", "it is recorded under its whole id");
        assert_eq!(tool(&server, "mcp:twin:pid").await["id"], "mcp:twin~twin:pid");
        ask(&server, &chat, "mcp:nobody:pid", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
        // A bundle brings another of the same name.
        let servers = "mcp_servers:\n  - {id: twin, command: python3, args: [-I, -S, \"${KITBAG_TOOLSET_DIR}/server.py\"], requires_confirmation: false}\n";
        import(&server, bundle("app", "1.0.0", servers, &[("server.py", TWIN)])).await;
        for refused in [
            ask(&server, &chat, "mcp:twin:pid", json!({})).await,
            server.get(&format!("{TOOLS}/mcp:twin:pid")).await,
            server.get(&at("twin")).await,
        ] {
            refused.expect_error(409, "AMBIGUOUS_SERVER_ID");
            let mut keys: Vec<&str> = refused.body["details"]["serverKeys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
            keys.sort_unstable();
            assert_eq!(keys, ["app~twin", "twin~twin"]);
        }
        // Each by its own key; two servers of one name have two processes and two names for a model.
        server.post(&format!("{}/trust", at("app~twin")), &json!({})).await.expect(200);
        connected(&server, "app~twin").await;
        let (one, other) = (text(&server, &chat, "mcp:twin~twin:pid", json!({})).await, text(&server, &chat, "mcp:app~twin:pid", json!({})).await);
        assert_ne!(one, other);
        assert_ne!(tool(&server, "mcp:twin~twin:pid").await["modelName"], tool(&server, "mcp:app~twin:pid").await["modelName"]);
        server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
        assert_eq!(text(&server, &chat, "mcp:twin:pid", json!({})).await, one);
    }

    async fn equal_launches_share_one_process(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        connect(&server, "one", twin(&["same"])).await;
        connect(&server, "two", twin(&["same"])).await;
        connect(&server, "three", twin(&["other"])).await;
        let pid = async |id: &str| crate::kit::pid(&server, &chat, id).await;
        assert_eq!(pid("one").await, pid("two").await);
        assert_ne!(pid("one").await, pid("three").await);
        // What one of them is called or allowed is its own.
        set_override(&server, "one", "one:echo", json!({ "enabled": false })).await;
        ask(&server, &chat, "mcp:one~one:echo", json!({ "text": "x" })).await.expect_error(409, "CONFLICT");
        assert_eq!(text(&server, &chat, "mcp:two~two:echo", json!({ "text": "x" })).await, "x");
        server.delete(&at("one")).await.expect(204);
        pid("two").await;
    }

    async fn a_new_id_takes_overrides_and_history_along(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        connect(&server, "old", twin(&[])).await;
        set_override(&server, "old", "old:echo", json!({ "nameOverride": "Say it" })).await;
        let call = done(&server, &chat, "mcp:old~old:echo", json!({ "text": "x" })).await;
        assert_eq!(put(&server, &at("old"), json!({ "id": "new" })).await.expect(200)["id"], "new~new");
        connected(&server, "new").await;
        assert_eq!(tool(&server, "mcp:new~new:echo").await["name"], "Say it");
        assert_eq!(server.get(&crate::kit::place(&call)).await.expect(200)["toolId"], "mcp:new~new:echo");
        ask(&server, &chat, "mcp:old~old:echo", json!({ "text": "x" })).await.expect_error(404, "TOOL_NOT_FOUND");
        assert_eq!(text(&server, &chat, "mcp:new~new:echo", json!({ "text": "y" })).await, "y");
    }

    async fn a_tool_may_be_called_anything(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        connect(&server, "twin", twin(&[])).await;
        let odd = "a:b/c d~e*é__x";
        done(&server, &chat, "mcp:twin~twin:change", json!({ "add": odd })).await;
        crate::kit::until(&server, &at("twin"), |shown| shown["tools"].to_string().contains("a:b/c")).await;
        let id = format!("mcp:twin~twin:{odd}");
        let encoded: String = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let shown = tool(&server, &encoded).await;
        assert_eq!(shown["id"], id.as_str());
        let name = shown["modelName"].as_str().unwrap();
        assert!(name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'), "{name}");
        // The twin lists it and does not know it: that is its own failure.
        let error = crate::kit::failed(&server, &chat, &id, json!({})).await;
        assert_eq!(error["code"], "TOOL_FAILED");
    }
}
