//! Who may change toolsets, and what of a toolset may act: nothing, before a person has trusted exactly that.

use kitbag_model::OrgId;
use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::kit::{Picture, SERVERS, TOOLSETS, export, import, manifest, override_path, put, tool, with_manifest};
use crate::serve;

/// A toolset with one server.
fn with_server(version: &str, server: &str) -> Vec<u8> {
    with_manifest(&manifest("app", version, &format!("mcp_servers:\n  - {{id: srv, {server}}}\n")))
}

const STDIO: &str = "command: nopx, args: [-y, pkg], env: {A: one}";

on_both! {
    async fn a_server_is_trusted_as_it_was_shown(database: TestDatabase) {
        let server = serve(&database);
        let state = async || {
            let one = server.get(&format!("{SERVERS}/app~srv")).await.expect(200);
            // There is no such program: what comes of the attempt to start it is not the question here.
            let status = if one["status"] == "needs_trust" { "needs_trust" } else { "may start" };
            (one["enabled"].as_bool().unwrap(), one["trusted"].as_bool().unwrap(), status.to_owned())
        };
        let (needed, given) = ((true, false, "needs_trust".to_owned()), (true, true, "may start".to_owned()));
        let report = import(&server, "", &with_server("1.0.0", STDIO)).await.expect(201);
        assert_eq!(report["launches"], json!([{ "id": "app~srv", "commandLine": "nopx -y pkg", "cwd": null, "env": ["A=one"], "headers": [], "trusted": false }]));
        assert_eq!(state().await, needed);
        let trust = format!("{SERVERS}/app~srv/trust");
        server.post(&trust, &json!({ "commandLine": "nopx -y another" })).await.expect_error(409, "CONFLICT");
        server.post(&trust, &json!({ "what": 1 })).await.expect_error(400, "BAD_REQUEST");
        assert_eq!(state().await, needed);
        let shown = server.get(&format!("{SERVERS}/app~srv")).await.expect(200)["fingerprint"].clone();
        // Somebody changes what the command line does not show.
        import(&server, "", &with_server("1.0.0", &STDIO.replace("one", "two"))).await.expect(200);
        server.post(&trust, &json!({ "commandLine": "nopx -y pkg", "fingerprint": shown })).await.expect_error(409, "CONFLICT");
        import(&server, "", &with_server("1.0.0", STDIO)).await.expect(200);
        assert_eq!(server.post(&trust, &json!({ "commandLine": "nopx -y pkg", "fingerprint": shown })).await.expect(200)["trusted"], true);
        assert_eq!(state().await, given);
        // Whatever changes what would run takes the trust back, and what does not keeps it. Each differs in one thing.
        const REMOTE: &str = "url: 'https://a.example/mcp', headers: {X-A: '1'}";
        for (trusted, changed) in [
            (STDIO, "command: npy, args: [-y, pkg], env: {A: one}"),
            (STDIO, "command: nopx, args: [-y, pkg2], env: {A: one}"),
            (STDIO, "command: nopx, args: [-y pkg], env: {A: one}"),
            (STDIO, "command: nopx, args: [-y, pkg], env: {A: two}"),
            (STDIO, "command: nopx, args: [-y, pkg], env: {A: one, LD_PRELOAD: /tmp/x.so}"),
            (STDIO, "command: nopx, args: [-y, pkg], env: {B: one}"),
            (STDIO, "command: nopx, args: [-y, pkg]"),
            (STDIO, "command: nopx, args: [-y, pkg], env: {A: one}, cwd: /tmp"),
            (STDIO, REMOTE),
            (REMOTE, "url: 'https://b.example/mcp', headers: {X-A: '1'}"),
            (REMOTE, "url: 'https://a.example/mcp', headers: {X-A: '1'}, type: sse"),
            (REMOTE, "url: 'https://a.example/mcp', headers: {X-A: '2'}"),
            (REMOTE, "url: 'https://a.example/mcp', headers: {X-B: '1'}"),
            (REMOTE, "url: 'https://a.example/mcp'"),
        ] {
            import(&server, "?force=true", &with_server("1.0.0", trusted)).await.expect(200);
            server.post(&trust, &json!({})).await.expect(200);
            assert_eq!(state().await, given, "{changed}");
            let report = import(&server, "", &with_server("1.0.1", &format!("{trusted}, description: The same"))).await.expect(200);
            assert_eq!(report["launches"][0]["trusted"], true, "{trusted}");
            assert_eq!(state().await, given, "{trusted}: another version that runs the same");
            let report = import(&server, "?dryRun=true", &with_server("1.0.1", changed)).await.expect(200);
            assert_eq!(report["launches"][0]["trusted"], false, "{changed}");
            import(&server, "", &with_server("1.0.1", changed)).await.expect(200);
            assert_eq!(state().await, needed, "{changed}");
        }
        server.post(&trust, &json!({})).await.expect(200);
        // A server that goes and comes back is a stranger.
        import(&server, "?force=true", &with_manifest(&manifest("app", "1.0.0", ""))).await.expect(200);
        server.get(&format!("{SERVERS}/app~srv")).await.expect_error(404, "NOT_FOUND");
        server.post(&trust, &json!({})).await.expect_error(404, "NOT_FOUND");
        import(&server, "", &with_server("1.0.0", "url: 'https://a.example/mcp'")).await.expect(200);
        assert_eq!(state().await, needed);
        let report = import(&server, "?trust=true", &with_server("1.0.0", STDIO)).await.expect(200);
        assert_eq!(report["launches"][0]["trusted"], true);
        assert_eq!(state().await, given);
        // An uninstalled toolset takes its trust along.
        server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
        import(&server, "", &with_server("1.0.0", STDIO)).await.expect(201);
        assert_eq!(state().await, needed);
    }

    async fn a_bundle_does_not_vouch_for_itself(database: TestDatabase) {
        let server = serve(&database);
        let tools = "tools: [{id: asks, entrypoint: 't:f', requires_confirmation: true}, {id: silent, entrypoint: 't:f'}, {id: kept, entrypoint: 't:f', requires_confirmation: true}]\n";
        let quiet = |version: &str, more: &str| with_manifest(&manifest("app", version, &format!("{tools}tool_overrides:\n  - {{tool_id: asks, requires_confirmation: false}}\n  - {{tool_id: silent, requires_confirmation: true}}\n{more}")));
        let asks = async |id: &str| tool(&server, &format!("app:{id}")).await["requiresConfirmation"].as_bool().unwrap();
        import(&server, "", &quiet("1.0.0", "")).await.expect(201);
        assert_eq!((asks("asks").await, asks("silent").await, asks("kept").await), (true, true, true), "it may ask for more, not for less");
        assert_eq!(tool(&server, "app:asks").await["origins"]["requiresConfirmation"]["from"], "tool");
        import(&server, "?trust=true", &quiet("1.0.0", "")).await.expect(200);
        assert_eq!((asks("asks").await, asks("silent").await, asks("kept").await), (false, true, true));
        assert_eq!(server.get(&format!("{TOOLSETS}/app")).await.expect(200)["trusted"], true);
        import(&server, "", &quiet("1.1.0", "")).await.expect(200);
        assert!(!asks("asks").await, "nothing that was trusted has changed");
        // A new version that takes away one more question, or wants more rights, is as good as unknown.
        import(&server, "", &quiet("1.2.0", "  - {tool_id: kept, requires_confirmation: false}\n")).await.expect(200);
        assert_eq!((asks("asks").await, asks("kept").await), (true, true));
        import(&server, "", &quiet("1.3.0", "")).await.expect(200);
        assert!(asks("asks").await, "a yes that was void does not come back");
        server.post(&format!("{TOOLSETS}/app/trust"), &json!({})).await.expect(200);
        assert!(!asks("asks").await);
        import(&server, "", &quiet("1.4.0", "permissions: {network: true}\n")).await.expect(200);
        assert!(asks("asks").await);
        // A person may say so at any time.
        put(&server, &override_path("app", "app:kept"), &json!({ "requiresConfirmation": false })).await.expect(200);
        assert!(!asks("kept").await);
    }

    /// An address may give something else the second time; what was looked at is what counts.
    async fn a_yes_is_bound_to_what_was_looked_at(database: TestDatabase) {
        let server = serve(&database);
        let seen = import(&server, "?dryRun=true", &with_server("1.0.0", STDIO)).await.expect(200);
        let digest = seen["digest"].as_str().unwrap();
        let before = Picture::take(&server, &database).await;
        let other = with_server("1.0.0", &STDIO.replace("nopx", "evil"));
        import(&server, &format!("?trust=true&digest={digest}"), &other).await.expect_error(409, "CONFLICT");
        import(&server, "?digest=x", &other).await.expect_error(400, "BAD_REQUEST");
        assert_eq!(Picture::take(&server, &database).await, before);
        let done = import(&server, &format!("?trust=true&digest={digest}"), &with_server("1.0.0", STDIO)).await.expect(201);
        assert_eq!(done["launches"][0]["trusted"], true);
        let wants = with_manifest(&manifest("more", "1.0.0", "permissions: {network: true}\ntool_overrides: [{tool_id: 'x:*', requires_confirmation: false}]\n"));
        let seen = import(&server, "?dryRun=true", &wants).await.expect(200);
        assert_eq!((&seen["permissions"], &seen["unasked"]), (&json!(["network"]), &json!(["x:*"])));
    }

    async fn who_may_only_use_changes_nothing(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &with_server("1.0.0", STDIO)).await.expect(201);
        put(&server, &override_path("app", "app:x"), &json!({ "enabled": false })).await.expect(200);
        let before = Picture::take(&server, &database).await;
        let token = add_token(&database.open().await, &OrgId::local(), "use").await;
        let ask = |method: Method, path: &str| server.anonymous(method, path).bearer_auth(&token);
        let zip = |query: &str| ask(Method::POST, &format!("{TOOLSETS}/import{query}")).header(header::CONTENT_TYPE, "application/zip").body(with_server("2.0.0", STDIO));
        for request in [
            zip(""),
            zip("?dryRun=true"),
            zip("?trust=true"),
            ask(Method::POST, &format!("{TOOLSETS}/import")).json(&json!({ "url": "https://example.org/x.zip" })),
            ask(Method::PUT, &override_path("app", "app:x")).json(&json!({ "enabled": true })),
            ask(Method::DELETE, &override_path("app", "app:x")),
            ask(Method::PUT, &override_path("builtin", "bash")).json(&json!({ "enabled": true })),
            ask(Method::POST, &format!("{SERVERS}/app~srv/trust")).json(&json!({})),
            ask(Method::POST, &format!("{TOOLSETS}/app/enable")).json(&json!({ "enabled": false })),
            ask(Method::DELETE, &format!("{TOOLSETS}/app")),
            ask(Method::DELETE, &format!("{TOOLSETS}/nobody")),
        ] {
            Answer::of(request).await.expect_error(403, "FORBIDDEN");
        }
        assert_eq!(Picture::take(&server, &database).await, before);
        for path in ["toolsets", "toolsets/app", "toolsets/app/files", "toolsets/app/overrides", "toolsets/builtin/overrides", "tools", "available-tools", "mcp-servers", "mcp-servers/app~srv"] {
            Answer::of(ask(Method::GET, &format!("/v1/orgs/local/{path}"))).await.expect(200);
        }
        let mine = ask(Method::GET, &format!("{TOOLSETS}/app/export")).send().await.unwrap().bytes().await.unwrap();
        assert_eq!(mine, export(&server, "app").await);
    }

    async fn a_name_that_two_servers_have_names_none(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &with_server("1.0.0", STDIO)).await.expect(201);
        assert_eq!(server.get(&format!("{SERVERS}/srv")).await.expect(200)["id"], "app~srv");
        let other = with_manifest(&manifest("other", "1.0.0", "mcp_servers: [{id: srv, command: x}]"));
        import(&server, "", &other).await.expect(201);
        for answer in [server.get(&format!("{SERVERS}/srv")).await, server.post(&format!("{SERVERS}/srv/trust"), &json!({})).await] {
            answer.expect_error(409, "AMBIGUOUS_SERVER_ID");
            assert_eq!(answer.body["details"], json!({ "serverKeys": ["app~srv", "other~srv"] }));
        }
        server.post(&format!("{SERVERS}/other~srv/trust"), &json!({})).await.expect(200);
        let trusted = |list: &Value| list["items"].as_array().unwrap().iter().map(|one| one["trusted"] == true).collect::<Vec<_>>();
        assert_eq!(trusted(&server.get(SERVERS).await.expect(200)), [false, true], "trust is for one of them");
        server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
        assert_eq!(server.get(&format!("{SERVERS}/srv")).await.expect(200)["id"], "other~srv");
    }

    async fn an_organisation_has_toolsets_of_its_own(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "?trust=true", &with_server("1.0.0", STDIO)).await.expect(201);
        put(&server, &override_path("builtin", "*"), &json!({ "enabled": false })).await.expect(200);
        let before = Picture::take(&server, &database).await;
        let store = database.open().await;
        let other = add_organization(&store, "other").await;
        let token = add_token(&store, &other, "use manage").await;
        let ask = |method: Method, path: &str| server.anonymous(method, &format!("/v1/orgs/other/{path}")).bearer_auth(&token);
        for path in ["toolsets", "mcp-servers", "toolsets/builtin/overrides"] {
            assert_eq!(Answer::of(ask(Method::GET, path)).await.expect(200), json!({ "items": [], "nextCursor": null }), "{path}");
        }
        let tools = Answer::of(ask(Method::GET, "tools")).await.expect(200);
        assert!(tools["items"].as_array().unwrap().iter().all(|tool| tool["provider"] == "builtin" && tool["enabled"] == true), "{tools}");
        for (method, path) in [(Method::GET, "toolsets/app"), (Method::DELETE, "toolsets/app"), (Method::GET, "toolsets/app/export"), (Method::GET, "toolsets/app/files")] {
            let foreign = Answer::of(ask(method.clone(), path)).await;
            foreign.expect_error(404, "TOOLSET_NOT_FOUND");
            let missing = Answer::of(ask(method, &path.replace("app", "nobody"))).await;
            assert_eq!(foreign.body.to_string().replace("app", "nobody"), missing.body.to_string());
        }
        Answer::of(ask(Method::POST, "mcp-servers/app~srv/trust").json(&json!({}))).await.expect_error(404, "NOT_FOUND");
        // The same id there is another toolset, in another folder.
        let theirs = with_server("9.0.0", "command: theirs");
        let sent = ask(Method::POST, "toolsets/import").header(header::CONTENT_TYPE, "application/zip").body(theirs.clone());
        assert_eq!(Answer::of(sent).await.expect(201)["toolset"]["mcpServers"][0]["trusted"], false);
        assert!(database.files_of_toolset("other", "app").await.contains_key("toolset.yaml"));
        let mut now = Picture::take(&server, &database).await;
        now.files.retain(|path, _| !path.starts_with("orgs/other/"));
        assert_eq!(now, before);
        Answer::of(ask(Method::DELETE, "toolsets/app")).await.expect(204);
        assert!(database.files_of_toolset("other", "app").await.is_empty());
        assert_eq!(Picture::take(&server, &database).await, before);
    }

    /// Organisations that share a server name the operator's variables and keep no values in it.
    async fn another_organisation_keeps_no_values_here(database: TestDatabase) {
        let server = serve(&database);
        let store = database.open().await;
        let token = add_token(&store, &add_organization(&store, "other").await, "use manage").await;
        let send = async |bytes: Vec<u8>| {
            let path = "/v1/orgs/other/toolsets/import";
            Answer::of(server.anonymous(Method::POST, path).bearer_auth(&token).header(header::CONTENT_TYPE, "application/zip").body(bytes)).await
        };
        for (name, literal) in [
            ("env.KEY", "command: x, env: {KEY: hunter2}"),
            ("env.KEY", "command: x, env: {KEY: 'Bearer ${ENV:T}'}"),
            ("env.KEY", "command: x, env: {KEY: '${ENV:T}${ENV:U}'}"),
            ("env.KEY", "command: x, env: {KEY: '$${ENV:T}'}"),
            ("env.KEY", "command: x, env: {KEY: ''}"),
            ("env.KEY", "command: x, env: {KEY: '${T}'}"),
            ("env.KEY", "command: x, env: {KEY: '${ENV:t}'}"),
            ("args[1]", "command: x, args: [--api-key, hunter2]"),
            ("headers.X-Key", "url: 'https://a.example/mcp', headers: {X-Key: hunter2, X-Other: '${ENV:T}'}"),
        ] {
            let refused = send(with_server("1.0.0", literal)).await;
            refused.expect_error(400, "INVALID_MCP_PLACEHOLDER");
            let message = refused.body["message"].as_str().unwrap();
            assert!(message.contains(name) && !message.contains("hunter2") && !message.contains("X-Other"), "{message}");
        }
        assert!(!server.log().contains("hunter2"));
        assert!(!database.data().join("orgs/other/toolsets").exists(), "nothing was written");
        assert!(database.all_files().await.keys().all(|path| !path.starts_with("orgs/other/")), "nor anywhere else");
        send(with_server("1.0.0", "command: x, args: [--api-key, '${KEY}'], env: {KEY: '${ENV:KEY}', OTHER: '${ENV:1}'}")).await.expect(201);
    }
}
