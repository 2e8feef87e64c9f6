//! What a person changes about tools: field by field, by the nearest key, on top of what the toolset itself says.

use kitbag_testkit::{Answer, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{TOOLS, TOOLSETS, bundle, import, manifest, override_path, put, tool, with_manifest};
use crate::serve;

const TOOLS_OF_APP: &str = "tools:
  - {id: read_a, entrypoint: 't:f', name: Read A, description: From the manifest}
  - {id: read_b, entrypoint: 't:f', enabled: false}
  - {id: write, entrypoint: 't:f', requires_confirmation: true, renderer: {type: code, file: $args.path}}
mcp_servers: [{id: srv, command: x}]
";

fn app(version: &str, more: &str) -> Vec<u8> {
    bundle(&[
        ("toolset.yaml", &manifest("app", version, &format!("{TOOLS_OF_APP}{more}"))),
        ("tools/t.py", "def f(workspace): pass\n"),
        ("artifacts/page.html", "<p>"),
    ])
}

on_both! {
    async fn all_six_properties_and_back(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &app("1.0.0", "")).await.expect(201);
        let plain = tool(&server, "app:read_a").await;
        let at = override_path("app", "app:read_a");
        let all = json!({ "renderer": "html", "rendererConfig": { "artifact": "$toolset/artifacts/page.html", "data": { "x": ["$return", 1, null] } },
            "nameOverride": "Mine", "descriptionOverride": "Mine too", "requiresConfirmation": true, "enabled": false });
        let set = put(&server, &at, &all).await.expect(200);
        assert_eq!((&set["key"], &set["toolsetId"], &set["origin"]), (&json!("app:read_a"), &json!("app"), &json!("user")));
        let now = tool(&server, "app:read_a").await;
        for (field, said) in [("renderer", "renderer"), ("rendererConfig", "rendererConfig"), ("name", "nameOverride"),
            ("description", "descriptionOverride"), ("requiresConfirmation", "requiresConfirmation"), ("enabled", "enabled")] {
            assert_eq!((&now[field], &set[said]), (&all[said], &all[said]), "{field}");
        }
        assert_eq!((&now["modelName"], &now["id"], &now["available"]), (&plain["modelName"], &plain["id"], &json!(false)));
        for origin in now["origins"].as_object().unwrap().values() {
            assert_eq!(origin, &json!({ "from": "user", "key": "app:read_a" }));
        }
        // What is not said again is not overridden any more.
        put(&server, &at, &json!({ "nameOverride": "Again", "enabled": null })).await.expect(200);
        let now = tool(&server, "app:read_a").await;
        assert_eq!((&now["name"], &now["description"], &now["enabled"], &now["renderer"], &now["requiresConfirmation"]),
            (&json!("Again"), &plain["description"], &json!(true), &plain["renderer"], &json!(false)));
        server.delete(&at).await.expect(204);
        assert_eq!(tool(&server, "app:read_a").await, plain);
        server.delete(&at).await.expect_error(404, "NOT_FOUND");
        assert_eq!(server.get(&format!("{TOOLSETS}/app/overrides")).await.expect(200)["items"].as_array().unwrap().len(), 1, "the toolset's own");
    }

    async fn the_nearest_key_counts_field_by_field(database: TestDatabase) {
        let server = serve(&database);
        let bundled = "tool_overrides:
  - {tool_id: 'app:*', name_override: Bundle star, description_override: Bundle star}
  - {tool_id: read_a, name_override: Bundle exact}
";
        import(&server, "", &app("1.0.0", bundled)).await.expect(201);
        let set = async |key: &str, body: Value| put(&server, &override_path("app", key), &body).await.expect(200);
        let told = async |id: &str| {
            let one = tool(&server, id).await;
            (one["name"].as_str().unwrap().to_owned(), one["origins"]["name"]["key"].as_str().unwrap_or_default().to_owned())
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(told("app:read_a").await, pair("Bundle exact", "app:read_a"));
        assert_eq!(told("app:write").await, pair("Bundle star", "app:*"));
        set("*:*", json!({ "nameOverride": "Anything" })).await;
        assert_eq!(told("app:read_a").await, pair("Anything", "*:*"), "a person's pattern counts more than the bundle's word");
        set("*:read_*", json!({ "nameOverride": "Reads" })).await;
        set("app:*", json!({ "nameOverride": "App" })).await;
        assert_eq!(told("app:read_a").await, pair("Reads", "*:read_*"), "a longer pattern before a shorter");
        assert_eq!(told("app:write").await, pair("App", "app:*"));
        set("app:read_a", json!({ "requiresConfirmation": true })).await;
        assert_eq!(told("app:read_a").await, pair("Reads", "*:read_*"), "an exact key that does not speak of names");
        set("app:read_a", json!({ "nameOverride": "Exact" })).await;
        assert_eq!(told("app:read_a").await, pair("Exact", "app:read_a"));
        let one = tool(&server, "app:read_a").await;
        assert_eq!((&one["description"], &one["origins"]["description"]), (&json!("Bundle star"), &json!({ "from": "bundle", "key": "app:*" })));
        // Speaking of a tool does not turn it on.
        set("app:read_b", json!({ "nameOverride": "Off" })).await;
        assert_eq!(tool(&server, "app:read_b").await["enabled"], false);
        set("app:read_b", json!({ "enabled": true })).await;
        assert_eq!(tool(&server, "app:read_b").await["enabled"], true);
        // The built-in tools are not this toolset's.
        let builtin = server.get(&format!("{TOOLS}?limit=200")).await.expect(200);
        assert!(builtin["items"].as_array().unwrap().iter().filter(|tool| tool["provider"] == "builtin").all(|tool| tool["name"] != "Anything"));
    }

    async fn one_key_has_one_spelling(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &app("1.0.0", "tool_overrides: [{tool_id: 'mcp:srv:bundled', enabled: false}]\n")).await.expect(201);
        for (written, kept) in [
            ("read_a", "app:read_a"), ("app:read_a", "app:read_a"), ("mcp:app:read_a", "app:read_a"),
            ("srv:x", "srv:x"), ("mcp:srv:x", "srv:x"), ("app~srv:x", "srv:x"), ("mcp:app~srv:x", "srv:x"),
            ("srv:a:b/c d", "srv:a:b/c d"), ("srv:*", "srv:*"), ("*:read_*", "*:read_*"), ("later", "app:later"),
        ] {
            let set = put(&server, &override_path("app", written), &json!({ "nameOverride": written })).await.expect(200);
            assert_eq!((&set["key"], &set["nameOverride"]), (&json!(kept), &json!(written)));
        }
        let listed = server.get(&format!("{TOOLSETS}/app/overrides")).await.expect(200);
        let of = |origin: &str| listed["items"].as_array().unwrap().iter().filter(|one| one["origin"] == origin)
            .map(|one| (one["key"].as_str().unwrap().to_owned(), one["nameOverride"].as_str().unwrap_or_default().to_owned())).collect::<Vec<_>>();
        let mut user = of("user");
        user.sort();
        assert_eq!(user, [("*:read_*", "*:read_*"), ("app:later", "later"), ("app:read_a", "mcp:app:read_a"), ("srv:*", "srv:*"),
            ("srv:a:b/c d", "srv:a:b/c d"), ("srv:x", "mcp:app~srv:x")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(of("bundle").iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["app:write", "srv:bundled"]);
        server.delete(&override_path("app", "mcp:app~srv:x")).await.expect(204);
        server.delete(&override_path("app", "srv:x")).await.expect_error(404, "NOT_FOUND");
        server.delete(&override_path("app", "srv:bundled")).await.expect_error(404, "NOT_FOUND");
        for (wrong, word) in [("other~srv:x", "another toolset"), ("app~srv", "names no tool"), ("srv:", "names no tool"), ("UP:x", "UP"), ("srv:a\nb", "control")] {
            let answer = put(&server, &override_path("app", wrong), &json!({ "enabled": true })).await;
            answer.expect_error(400, "BAD_REQUEST");
            assert!(answer.body["message"].as_str().unwrap().contains(word), "{answer:?}");
        }
    }

    async fn what_no_renderer_takes_is_refused_with_what_is_allowed(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &app("1.0.0", "")).await.expect(201);
        let before = server.get(&format!("{TOOLSETS}/app/overrides")).await.expect(200);
        let (long_name, long_text) = ("x".repeat(121), "x".repeat(16385));
        for (body, word) in [
            (json!({ "renderer": "hologram" }), "allowed: code, default, document"),
            (json!({ "renderer": "Code" }), "allowed: code"),
            (json!({ "renderer": "code", "rendererConfig": { "colour": 1 } }), "colour (allowed: file, content, language, editable)"),
            (json!({ "renderer": "frame", "rendererConfig": { "port": true } }), "number or string"),
            (json!({ "renderer": "code", "rendererConfig": [] }), "must be an object"),
            (json!({ "rendererConfig": { "file": "x" } }), "requires renderer"),
            (json!({ "renderer": "html", "rendererConfig": { "artifact": "../../etc/passwd" } }), "inside the toolset"),
            (json!({ "renderer": "html", "rendererConfig": { "artifact": "/etc/passwd" } }), "inside the toolset"),
            (json!({ "renderer": "html", "rendererConfig": { "artifact": "artifacts/none.html" } }), "artifacts/none.html"),
            (json!({ "nameOverride": long_name }), "nameOverride"),
            (json!({ "nameOverride": "a\nb" }), "nameOverride"),
            (json!({ "descriptionOverride": long_text }), "descriptionOverride"),
            (json!({ "enabled": "yes" }), "enabled"),
            (json!({ "name": "x" }), "nameOverride"),
            (json!({}), "nothing is overridden"),
            (json!({ "enabled": null, "nameOverride": "" }), "nothing is overridden"),
        ] {
            let answer = put(&server, &override_path("app", "read_a"), &body).await;
            answer.expect_error(400, "BAD_REQUEST");
            assert!(answer.body["message"].as_str().unwrap().contains(word), "{word:?} is not in {answer:?}");
        }
        assert_eq!(server.get(&format!("{TOOLSETS}/app/overrides")).await.expect(200), before);
        put(&server, &override_path("nobody", "x"), &json!({ "enabled": true })).await.expect_error(404, "TOOLSET_NOT_FOUND");
        put(&server, &override_path("../app", "x"), &json!({ "enabled": true })).await.expect_error(404, "NOT_FOUND");
    }

    async fn built_in_tools_take_overrides_too(database: TestDatabase) {
        let server = serve(&database);
        let tools = server.get(TOOLS).await.expect(200);
        let first = tools["items"][0].clone();
        let id = first["id"].as_str().unwrap();
        let set = put(&server, &override_path("builtin", id), &json!({ "nameOverride": "Mine", "enabled": false })).await.expect(200);
        assert_eq!((&set["key"], &set["origin"]), (&json!(format!("builtin:{id}")), &json!("user")));
        let now = tool(&server, id).await;
        assert_eq!((&now["name"], &now["enabled"], &now["available"], &now["modelName"]), (&json!("Mine"), &json!(false), &json!(false), &first["modelName"]));
        assert_eq!(now["origins"]["name"], json!({ "from": "user", "key": format!("builtin:{id}") }));
        put(&server, &override_path("builtin", "*"), &json!({ "requiresConfirmation": true })).await.expect(200);
        let all = server.get(&format!("{TOOLS}?limit=200")).await.expect(200);
        assert!(all["items"].as_array().unwrap().iter().all(|tool| tool["requiresConfirmation"] == true));
        assert_eq!(server.get(&format!("{TOOLSETS}/builtin/overrides")).await.expect(200)["items"].as_array().unwrap().len(), 2);
        put(&server, &override_path("builtin", id), &json!({ "renderer": "nope" })).await.expect_error(400, "BAD_REQUEST");
        for key in [id, "*"] {
            server.delete(&override_path("builtin", key)).await.expect(204);
        }
        assert_eq!(server.get(TOOLS).await.expect(200), tools);
        for path in ["builtin", "builtin/export", "builtin/files"] {
            server.get(&format!("{TOOLSETS}/{path}")).await.expect_error(404, "TOOLSET_NOT_FOUND");
        }
        server.delete(&format!("{TOOLSETS}/builtin")).await.expect_error(404, "TOOLSET_NOT_FOUND");
    }
}

on_both! {
    /// More at once than there are connections: each must do with one.
    async fn many_set_overrides_at_once(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &with_manifest(&manifest("app", "1.0.0", ""))).await.expect(201);
        let paths: Vec<String> = (0..64).map(|number| override_path("app", &format!("app:t{}", number % 48))).collect();
        let bodies: Vec<_> = (0..64).map(|number| json!({ "nameOverride": format!("N{number}") })).collect();
        let ask = |(path, body): (&String, &Value)| tokio::spawn(Answer::of(server.request(Method::PUT, path).json(body)));
        let running: Vec<_> = paths.iter().zip(&bodies).map(ask).collect();
        let mut answers = Vec::new();
        for one in running {
            answers.push(one.await.unwrap().status.as_u16());
        }
        assert_eq!(answers, vec![200; 64]);
        let listed = server.get(&format!("{TOOLSETS}/app/overrides")).await.expect(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), 48);
    }
}
