//! Servers that people add, change and remove, and what is remembered of servers' tools.

use kitbag_model::{McpToolName, OrgId, Pinned, ServerKey};
use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{SERVERS, TOOLSETS, export, import, manifest, manifest_of, override_path, put, with_manifest};
use crate::serve;

fn at(server: &str) -> String {
    format!("{SERVERS}/{server}")
}

async fn remove(server: &Server, path: &str) -> Answer {
    Answer::of(server.request(Method::DELETE, path)).await
}

/// A bundle with one server.
async fn import_bundle(server: &Server, more: &str) {
    let bytes = with_manifest(&manifest("app", "1.0.0", &format!("mcp_servers:\n  - {{id: srv, {more}}}\n")));
    let answer = import(server, "", &bytes).await;
    assert!(answer.status.is_success(), "{answer:?}");
}

/// As if the server had listed these tools, each with a description.
async fn see(database: &TestDatabase, server: &str, tools: &[(&str, &str)]) {
    let one = |(name, description): &(&str, &str)| -> (McpToolName, Pinned) {
        let definition = json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
        (name.parse().unwrap(), Pinned::new(definition.as_object().unwrap().clone()))
    };
    let list: Vec<_> = tools.iter().map(one).collect();
    let mut tx = database.open().await.write(&OrgId::local()).await.unwrap();
    let key: ServerKey = server.parse().unwrap();
    tx.see_tools(&key, &list).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

async fn states(server: &Server, key: &str) -> Vec<String> {
    let pins = server.get(&format!("{}/pins", at(key))).await.expect(200);
    let one = |pin: &Value| {
        let waits = if pin["waiting"] == true { " waits" } else { "" };
        format!("{} {}{waits}", pin["tool"].as_str().unwrap(), pin["state"].as_str().unwrap())
    };
    pins["pins"].as_array().unwrap().iter().map(one).collect()
}

on_both! {
    async fn a_server_is_added_and_shown_without_its_values(database: TestDatabase) {
        let server = serve(&database);
        let body = json!({
            "name": "My Files!", "command": "nopx", "args": ["-y", "pkg", "${DIR}"], "cwd": "/tmp",
            "env": { "API_KEY": "hunter2", "OTHER": "${ENV:OTHER}" }, "description": "Files", "requiresConfirmation": false,
        });
        let made = server.post(SERVERS, &body).await.expect(201);
        assert_eq!(made["id"], "my-files~my-files");
        for (field, value) in [
            ("serverId", json!("my-files")), ("toolsetId", json!("my-files")), ("toolsetName", json!("My Files!")),
            ("serverType", json!("stdio")), ("enabled", json!(true)), ("status", json!("error")), ("error", json!("MCP_ENV_NOT_SET:DIR")),
            ("toolCount", json!(0)), ("tools", json!([])), ("command", json!("nopx")), ("args", json!(["-y", "pkg", "${DIR}"])),
            ("cwd", json!("/tmp")), ("url", Value::Null), ("envNames", json!(["API_KEY", "OTHER"])), ("headerNames", json!([])),
            ("requiresConfirmation", json!(false)), ("trusted", json!(true)), ("userMcp", json!(true)),
            ("pinPolicy", json!("accept")), ("description", json!("Files")), ("commandLine", json!("nopx -y pkg '${DIR}'")),
        ] {
            assert_eq!(made[field], value, "{field}");
        }
        assert_eq!(server.get(&at("my-files")).await.expect(200), made);
        // It is a toolset of its own, and leaves without its values.
        let toolset = server.get(&format!("{TOOLSETS}/my-files")).await.expect(200);
        assert_eq!((toolset["userMcp"].clone(), toolset["name"].clone(), toolset["mcpServers"][0].clone()), (json!(true), json!("My Files!"), made));
        let bundle = manifest_of(&export(&server, "my-files").await);
        assert!(bundle.contains("${API_KEY}") && !bundle.contains("hunter2"), "{bundle}");
        assert!(!server.log().contains("hunter2"));

        let remote = json!({ "id": "web", "transport": "http", "url": "https://a.example/mcp", "headers": { "Authorization": "Bearer ${T}" }, "enabled": false });
        let made = server.post(SERVERS, &remote).await.expect(201);
        assert_eq!((made["id"].clone(), made["serverType"].clone(), made["enabled"].clone(), made["headerNames"].clone()),
            (json!("web~web"), json!("streamable-http"), json!(false), json!(["Authorization"])));
        assert_eq!((made["requiresConfirmation"].clone(), made["reason"].clone()), (json!(true), json!("it is turned off")));
        let sse = server.post(SERVERS, &json!({ "name": "web", "type": "sse", "url": "https://a.example/sse" })).await.expect(201);
        assert_eq!((sse["id"].clone(), sse["serverType"].clone()), (json!("web-1~web-1"), json!("sse")), "a name that is taken gets a number");
        assert_eq!(server.post(SERVERS, &json!({ "name": "Web!", "url": "https://a.example" })).await.expect(201)["id"], "web-2~web-2");
        server.post(SERVERS, &json!({ "id": "web", "url": "https://a.example" })).await.expect_error(409, "CONFLICT");
        assert_eq!(server.get(&format!("{TOOLSETS}?userMcp=true")).await.expect(200)["items"].as_array().unwrap().len(), 4);
        // A bundle does not take the place of a server that somebody added.
        import(&server, "", &with_manifest(&manifest("web", "9.0.0", ""))).await.expect_error(409, "CONFLICT");
    }

    async fn what_is_wrong_is_told_without_its_values(database: TestDatabase) {
        let server = serve(&database);
        for (body, status, code, word) in [
            (json!({ "command": "x" }), 400, "BAD_REQUEST", "name"),
            (json!({ "name": "a" }), 400, "BAD_REQUEST", "needs a command"),
            (json!({ "name": "a", "command": "x", "url": "https://a" }), 400, "BAD_REQUEST", "both"),
            (json!({ "name": "a", "command": "x", "headers": { "A": "hunter2" } }), 400, "BAD_REQUEST", "headers is not for stdio"),
            (json!({ "name": "a", "command": "x", "serverType": "ws" }), 400, "BAD_REQUEST", "stdio, sse"),
            (json!({ "name": "a", "command": "x", "transport": "stdio", "type": "stdio" }), 400, "BAD_REQUEST", "duplicate"),
            (json!({ "name": "a", "url": "ftp://hunter2" }), 400, "BAD_REQUEST", "http://"),
            (json!({ "name": "a", "url": "https://u:hunter2@a.example" }), 400, "INVALID_MCP_PLACEHOLDER", "password"),
            (json!({ "name": "a", "url": "https://a.example/?api_key=hunter2" }), 400, "INVALID_MCP_PLACEHOLDER", "api_key"),
            (json!({ "name": "a", "command": "x", "env": { "A": "${hunter2:x}" } }), 400, "INVALID_MCP_PLACEHOLDER", "env.A"),
            (json!({ "name": "a", "command": "x", "env": "hunter2" }), 400, "BAD_REQUEST", "objects of texts"),
            (json!({ "name": "a", "command": "x", "env": { "A": ["hunter2"] } }), 400, "BAD_REQUEST", "the value of"),
            (json!({ "name": "a", "command": "x", "env": { "A": null } }), 400, "BAD_REQUEST", "env.A"),
            (json!({ "name": "a", "command": "x", "args": "hunter2" }), 400, "BAD_REQUEST", "list of texts"),
            (json!({ "name": "a", "command": ["hunter2"] }), 400, "BAD_REQUEST", "texts"),
            (json!({ "name": "a", "url": "https://a.example", "headers": { "A": "hunter2\r\nB: c" } }), 400, "BAD_REQUEST", "headers.A"),
            (json!({ "id": "mcp", "command": "x" }), 400, "BAD_REQUEST", "reserved"),
            (json!({ "id": "A B", "command": "x" }), 400, "BAD_REQUEST", "id"),
            (json!({ "name": "a", "command": "x", "pinPolicy": "never" }), 400, "BAD_REQUEST", "quarantine"),
            (json!({ "name": "a", "command": "x", "autoApprove": ["x"] }), 400, "BAD_REQUEST", "autoApprove"),
        ] {
            let answer = server.post(SERVERS, &body).await;
            answer.expect_error(status, code);
            let text = answer.body.to_string();
            assert!(text.contains(word) && !text.contains("hunter2"), "{body}: {text}");
        }
        assert_eq!(server.get(SERVERS).await.expect(200)["items"], json!([]));
        assert!(!server.log().contains("hunter2"));
    }

    async fn a_server_that_was_added_is_changed_as_its_owner_says(database: TestDatabase) {
        let server = serve(&database);
        let body = json!({ "name": "mine", "command": "nopx", "args": ["a"], "cwd": "/tmp", "env": { "A": "hunter2", "B": "b" } });
        let before = server.post(SERVERS, &body).await.expect(201);
        let changed = put(&server, &at("mine"), &json!({ "args": ["b"], "cwd": null, "env": { "A": null, "C": "c" } })).await.expect(200);
        assert_eq!((changed["args"].clone(), changed["cwd"].clone(), changed["envNames"].clone(), changed["trusted"].clone()),
            (json!(["b"]), Value::Null, json!(["A", "C"]), json!(true)), "a value that is null stays, and whoever manages has said yes");
        assert_ne!(changed["fingerprint"], before["fingerprint"]);
        // The value that was kept is the one that was there.
        let back = put(&server, &at("mine"), &json!({ "args": ["a"], "cwd": "/tmp", "env": { "A": "hunter2", "B": "b" } })).await.expect(200);
        assert_eq!(back["fingerprint"], before["fingerprint"]);
        put(&server, &at("mine"), &json!({ "env": { "A": null, "B": null } })).await.expect(200);
        assert_eq!(server.get(&at("mine")).await.expect(200)["fingerprint"], before["fingerprint"]);
        let refused = put(&server, &at("mine"), &json!({ "env": { "D": null } })).await;
        refused.expect_error(400, "BAD_REQUEST");
        assert!(refused.body.to_string().contains("env.D"));
        let remote = put(&server, &at("mine"), &json!({ "url": "https://a.example/mcp" })).await.expect(200);
        assert_eq!((remote["serverType"].clone(), remote["command"].clone(), remote["envNames"].clone()), (json!("streamable-http"), Value::Null, json!([])));
        assert_eq!(put(&server, &at("mine"), &json!({ "serverType": "sse" })).await.expect(200)["serverType"], "sse");
        put(&server, &at("mine"), &json!({ "serverType": "stdio" })).await.expect_error(400, "BAD_REQUEST");
        let off = put(&server, &at("mine"), &json!({ "enabled": false, "pinPolicy": "warn", "name": "Mine!", "description": "x" })).await.expect(200);
        assert_eq!((off["enabled"].clone(), off["pinPolicy"].clone(), off["toolsetName"].clone(), off["description"].clone(), off["id"].clone()),
            (json!(false), json!("warn"), json!("Mine!"), json!("x"), json!("mine~mine")));
        let on = put(&server, &at("mine"), &json!({ "enabled": null, "pinPolicy": null, "description": null })).await.expect(200);
        assert_eq!((on["enabled"].clone(), on["pinPolicy"].clone(), on["description"].clone()), (json!(true), json!("accept"), Value::Null));
        put(&server, &at("nobody"), &json!({})).await.expect_error(404, "NOT_FOUND");
        put(&server, &at("mine"), &json!({ "trusted": true })).await.expect_error(400, "BAD_REQUEST");
        assert!(!server.log().contains("hunter2"));
        remove(&server, &at("mine")).await.expect(204);
        remove(&server, &at("mine")).await.expect_error(404, "NOT_FOUND");
        server.get(&format!("{TOOLSETS}/mine")).await.expect_error(404, "TOOLSET_NOT_FOUND");
        assert_eq!(server.post(SERVERS, &body).await.expect(201)["id"], "mine~mine", "the id is free again");
    }

    async fn a_rename_takes_everything_along(database: TestDatabase) {
        let server = serve(&database);
        for id in ["old", "taken"] {
            server.post(SERVERS, &json!({ "id": id, "command": "x", "env": { "A": "b" } })).await.expect(201);
        }
        put(&server, &override_path("old", "old:read"), &json!({ "nameOverride": "Read it" })).await.expect(200);
        see(&database, "old~old", &[("read", "reads")]).await;
        put(&server, &at("old"), &json!({ "id": "taken" })).await.expect_error(409, "CONFLICT");
        put(&server, &at("old"), &json!({ "id": "No!" })).await.expect_error(400, "BAD_REQUEST");
        let new = put(&server, &at("old"), &json!({ "id": "new", "name": "New" })).await.expect(200);
        assert_eq!((new["id"].clone(), new["trusted"].clone(), new["toolsetName"].clone(), new["tools"][0]["id"].clone()),
            (json!("new~new"), json!(true), json!("New"), json!("mcp:new~new:read")));
        server.get(&at("old")).await.expect_error(404, "NOT_FOUND");
        let overrides = server.get(&format!("{TOOLSETS}/new/overrides")).await.expect(200);
        assert_eq!((overrides["items"][0]["key"].clone(), overrides["items"][0]["nameOverride"].clone()), (json!("new:read"), json!("Read it")));
    }

    async fn a_server_of_a_bundle_belongs_to_it(database: TestDatabase) {
        let server = serve(&database);
        import_bundle(&server, "command: nopx, args: [a], env: {A: hunter2}").await;
        let trust = async || server.post(&format!("{}/trust", at("srv")), &json!({})).await.expect(200);
        let refused = remove(&server, &at("srv")).await;
        refused.expect_error(409, "CONFLICT");
        assert!(refused.body["message"].as_str().unwrap().contains("turned off"), "{refused:?}");
        put(&server, &at("srv"), &json!({ "name": "x" })).await.expect_error(409, "CONFLICT");
        put(&server, &at("srv"), &json!({ "id": "x" })).await.expect_error(409, "CONFLICT");
        assert_eq!(trust().await["pinPolicy"], "quarantine");
        // What does not change what it starts keeps the trust, what does voids it, and it stays void when it is changed back.
        let off = put(&server, &at("srv"), &json!({ "enabled": false, "pinPolicy": "warn", "description": "x" })).await.expect(200);
        assert_eq!((off["enabled"].clone(), off["trusted"].clone(), off["status"].clone()), (json!(false), json!(true), json!("disconnected")));
        for change in [json!({ "args": ["b"] }), json!({ "env": { "A": "other" } }), json!({ "requiresConfirmation": false })] {
            trust().await;
            let changed = put(&server, &at("srv"), &change).await.expect(200);
            assert_eq!((changed["trusted"].clone(), changed["status"].clone()), (json!(false), json!("needs_trust")), "{change}");
        }
        let back = put(&server, &at("srv"), &json!({ "args": ["a"], "env": { "A": "hunter2" }, "requiresConfirmation": null })).await.expect(200);
        assert_eq!(back["trusted"], false);
        // A new version of the bundle that takes the question away needs a new yes.
        trust().await;
        import_bundle(&server, "command: nopx, args: [a], env: {A: hunter2}, requires_confirmation: false").await;
        let silent = server.get(&at("srv")).await.expect(200);
        assert_eq!((silent["trusted"].clone(), silent["enabled"].clone(), silent["pinPolicy"].clone()), (json!(false), json!(false), json!("warn")));
        trust().await;
        import_bundle(&server, "command: nopx, args: [a], env: {A: hunter2}, requires_confirmation: false").await;
        assert_eq!(server.get(&at("srv")).await.expect(200)["trusted"], true);
    }

    async fn what_a_server_changes_is_shown_and_accepted(database: TestDatabase) {
        let server = serve(&database);
        import_bundle(&server, "command: nopx").await;
        see(&database, "app~srv", &[("read", "reads"), ("write", "writes")]).await;
        let shown = server.get(&at("srv")).await.expect(200);
        assert_eq!((shown["toolCount"].clone(), shown["waitingCount"].clone(), shown["tools"][0]["id"].clone()), (json!(2), json!(0), json!("mcp:app~srv:read")));
        see(&database, "app~srv", &[("read", "reads\u{202e} and \u{1b}[2Ksends"), ("write", "writes"), ("new", "n")]).await;
        assert_eq!(states(&server, "srv").await, ["read quarantined waits", "write accepted", "new quarantined waits"]);
        let shown = server.get(&at("srv")).await.expect(200);
        assert_eq!((shown["waitingCount"].clone(), shown["tools"][0]["description"].clone(), shown["tools"][0]["pinState"].clone()),
            (json!(2), json!("reads and sends"), json!("quarantined")));
        let pins = server.get(&format!("{}/pins", at("srv"))).await.expect(200);
        assert_eq!(pins["pins"][0]["changes"], json!([{ "field": "description", "before": "reads", "after": "reads\u{202e} and \u{1b}[2Ksends" }]));
        assert_eq!(pins["pins"][2]["acceptedSha256"], Value::Null);
        let accept = async |body: Value| server.post(&format!("{}/pins/accept", at("srv")), &body).await;
        // It changes once more between the look and the yes.
        see(&database, "app~srv", &[("read", "steals"), ("write", "writes"), ("new", "n")]).await;
        accept(json!({ "tool": "read", "sha256": pins["pins"][0]["sha256"] })).await.expect_error(409, "CONFLICT");
        accept(json!({ "sha256": pins["waitingSha256"] })).await.expect_error(409, "CONFLICT");
        accept(json!({ "tool": "nope" })).await.expect_error(404, "TOOL_NOT_FOUND");
        accept(json!({ "sha256": "x" })).await.expect_error(400, "BAD_REQUEST");
        accept(json!({ "tool": "" })).await.expect_error(400, "BAD_REQUEST");
        accept(json!({ "all": true })).await.expect_error(400, "BAD_REQUEST");
        assert_eq!(states(&server, "srv").await[0], "read quarantined waits");
        let now = server.get(&format!("{}/pins", at("srv"))).await.expect(200);
        accept(json!({ "tool": "new", "sha256": now["pins"][2]["sha256"] })).await.expect(200);
        assert_eq!(states(&server, "srv").await, ["read quarantined waits", "write accepted", "new accepted"]);
        let all = accept(json!({})).await.expect(200);
        assert_eq!(all["pins"][0]["state"], "accepted");
        // Under another policy it may be called, and the difference still waits.
        put(&server, &at("srv"), &json!({ "pinPolicy": "warn" })).await.expect(200);
        see(&database, "app~srv", &[("read", "more"), ("write", "writes"), ("new", "n")]).await;
        assert_eq!(states(&server, "srv").await[0], "read accepted waits");
        put(&server, &at("srv"), &json!({ "pinPolicy": "accept" })).await.expect(200);
        assert_eq!(states(&server, "srv").await[0], "read accepted");
    }

    async fn what_does_not_run_is_not_connected(database: TestDatabase) {
        let server = serve(&database);
        import_bundle(&server, "command: nopx").await;
        server.post(SERVERS, &json!({ "id": "mine", "command": "/nonexistent/program" })).await.expect(201);
        for act in ["reconnect", "test"] {
            let ask = async |key: &str| Answer::of(server.request(Method::POST, &format!("{}/{act}", at(key)))).await;
            ask("srv").await.expect_error(409, "NEEDS_TRUST");
            ask("nobody").await.expect_error(404, "NOT_FOUND");
            put(&server, &at("mine"), &json!({ "enabled": false })).await.expect(200);
            ask("mine").await.expect_error(409, "CONFLICT");
            put(&server, &at("mine"), &json!({ "enabled": true })).await.expect(200);
            match act {
                // It is tried more than once: in between it is being connected.
                "reconnect" => assert_ne!(ask("mine").await.expect(200)["status"], "connected"),
                _ => ask("mine").await.expect_error(409, "MCP_SERVER_NOT_CONNECTED"),
            }
        }
    }

    async fn changes_need_the_scope_and_stay_in_the_organisation(database: TestDatabase) {
        let server = serve(&database);
        server.post(SERVERS, &json!({ "id": "mine", "command": "x", "args": ["--api-key", "hunter2"] })).await.expect(201);
        let store = database.open().await;
        let token = add_token(&store, &OrgId::local(), "use").await;
        let ask = async |method: Method, path: String, body: Value| {
            Answer::of(server.anonymous(method, &path).bearer_auth(&token).json(&body)).await
        };
        for (method, path) in [
            (Method::POST, SERVERS.to_owned()),
            (Method::PUT, at("mine")),
            (Method::DELETE, at("mine")),
            (Method::POST, format!("{}/trust", at("mine"))),
            (Method::POST, format!("{}/reconnect", at("mine"))),
            (Method::POST, format!("{}/test", at("mine"))),
            (Method::POST, format!("{}/pins/accept", at("mine"))),
        ] {
            ask(method, path, json!({})).await.expect_error(403, "FORBIDDEN");
        }
        assert_eq!(ask(Method::GET, at("mine"), json!({})).await.expect(200)["args"], json!(["--api-key", "***"]));
        ask(Method::GET, format!("{}/pins", at("mine")), json!({})).await.expect(200);
        // An organisation that shares the server keeps no values in it, and sees no server of another.
        let token = add_token(&store, &add_organization(&store, "other").await, "use manage").await;
        let theirs = "/v1/orgs/other/mcp-servers";
        let ask = async |method: Method, path: &str, body: Value| {
            Answer::of(server.anonymous(method, path).bearer_auth(&token).json(&body)).await
        };
        for literal in [json!({ "A": "hunter2" }), json!({ "A": "Bearer ${T}" })] {
            let refused = ask(Method::POST, theirs, json!({ "name": "a", "command": "x", "env": literal })).await;
            refused.expect_error(400, "INVALID_MCP_PLACEHOLDER");
            assert!(refused.body.to_string().contains("env.A") && !refused.body.to_string().contains("hunter2"), "{refused:?}");
        }
        let made = ask(Method::POST, theirs, json!({ "id": "mine", "command": "x", "env": { "A": "${ENV:A}" } })).await.expect(201);
        assert_eq!(made["id"], "mine~mine");
        ask(Method::PUT, &format!("{theirs}/mine"), json!({ "env": { "A": "hunter2" } })).await.expect_error(400, "INVALID_MCP_PLACEHOLDER");
        assert_eq!(ask(Method::GET, theirs, json!({})).await.expect(200)["items"].as_array().unwrap().len(), 1);
        ask(Method::DELETE, &format!("{theirs}/mine"), json!({})).await.expect(204);
        server.get(&at("mine")).await.expect(200);
    }
}
