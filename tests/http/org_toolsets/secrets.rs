//! No value that was refused is anywhere afterwards: not in the answer, the log, the database or an event.

use kitbag_testkit::{Answer, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use super::{ACME, problems, stdio, token_of, toolset, with};
use crate::events::Listener;
use crate::kit::{bundle, manifest};
use crate::serve;

/// What must not be found again.
const SECRET: &str = "hunter2-0123456789";

on_both! {
    async fn a_refused_value_is_nowhere(database: TestDatabase) {
        let server = serve(&database);
        let owner = crate::browsers::owner(&server, "acme").await;
        owner.post(ACME, toolset("There")).await.expect(201);
        owner.post("/v1/orgs/acme/mcp-servers", json!({ "id": "solo", "command": "x", "enabled": false })).await.expect(201);
        let token = token_of(&owner, "acme", &["use", "manage"]).await;
        let mut listener = Listener::by(server.anonymous(Method::GET, "/v1/orgs/acme/events").bearer_auth(&token)).await;

        let remote = |headers: Value| json!({ "id": "a", "url": "https://mcp.example/", "headers": headers });
        let local = |env: Value| with(stdio("a"), "/env", env);
        let mut wrong: Vec<(Value, &str)> = Vec::new();
        for value in [
            SECRET.to_owned(), format!("Bearer {SECRET}"), format!("Bearer {SECRET} ${{ENV:A}}"), format!("${{{SECRET}}}"),
            format!("${{ENV:{SECRET}}}"), format!("${{ENV:A}}\r\nX: {SECRET}"), format!("$${{ENV:{SECRET}}}"), format!(" ${{ENV:A}}{SECRET}"),
        ] {
            wrong.push((local(json!({ "TOKEN": value })), "env.TOKEN"));
            wrong.push((remote(json!({ "X-Key": value })), "headers.X-Key"));
        }
        for value in ["${A}", "${env:A}", "$ENV:A", "${ENV:a}", "${ENV:}", "${ENV:A}${ENV:B}", "${ENV:A} ", "${ENV:A}\n", ""] {
            wrong.push((local(json!({ "TOKEN": value })), "env.TOKEN"));
            wrong.push((remote(json!({ "X-Key": value })), "headers.X-Key"));
        }
        wrong.push((with(stdio("a"), "/args", json!(["--api-key", SECRET])), "args[1]"));
        wrong.push((with(stdio("a"), "/args", json!([format!("--token={SECRET}")])), "args[0]"));
        for (server_entry, field) in wrong {
            let created = owner.post(ACME, json!({ "name": "T", "mcpServers": [server_entry] })).await;
            let updated = owner.put(&format!("{ACME}/there"), json!({ "mcpServers": [server_entry] })).await;
            for answer in [&created, &updated] {
                answer.expect_error(400, "INVALID_MCP_PLACEHOLDER");
                assert_eq!(problems(answer), [format!("INVALID_MCP_PLACEHOLDER mcpServers[0].{field}")], "{server_entry}");
            }
            let added = owner.post("/v1/orgs/acme/mcp-servers", server_entry.clone()).await;
            let mut change = server_entry.clone();
            change.as_object_mut().unwrap().retain(|name, _| ["command", "args", "env", "url", "headers"].contains(&name.as_str()));
            let changed = owner.put("/v1/orgs/acme/mcp-servers/solo", change).await;
            for answer in [&added, &changed] {
                answer.expect_error(400, "INVALID_MCP_PLACEHOLDER");
                assert!(answer.body["message"].as_str().unwrap().contains(field), "{answer:?}");
            }
            for answer in [created, updated, added, changed] {
                assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
            }
        }
        // An address with a secret in it, whatever its form.
        for url in [format!("https://mcp.example/?api_key={SECRET}"), format!("https://me:{SECRET}@mcp.example/")] {
            let answer = owner.post(ACME, json!({ "name": "T", "mcpServers": [{ "id": "a", "url": url }] })).await;
            assert_eq!(problems(&answer), ["INVALID_MCP_PLACEHOLDER mcpServers[0].url"]);
            assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
            // Also beside something else that is wrong.
            for more in [json!({}), json!({ "headers": { "X A": "${ENV:A}" } })] {
                let answer = owner.post("/v1/orgs/acme/mcp-servers", with(with(more, "/name", json!("a")), "/url", json!(url))).await;
                answer.expect_error(400, "INVALID_MCP_PLACEHOLDER");
                assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
            }
        }
        // A text of another program's is taken as references; values that are to be kept are refused.
        let text = json!({ "mcpServers": { "s": { "command": "x", "env": { "API_KEY": SECRET } } } }).to_string();
        let found = owner.post("/v1/orgs/acme/mcp-imports/read", json!({ "text": text })).await.expect(200);
        let item = json!({ "id": found["items"][0]["id"], "keepValues": true });
        let taken = owner.post("/v1/orgs/acme/mcp-imports", json!({ "text": text, "items": [item] })).await.expect(200);
        assert_eq!((&taken["added"], &taken["failed"][0]["code"]), (&json!([]), &json!("INVALID_MCP_PLACEHOLDER")), "{taken}");
        assert!(taken["failed"][0]["message"].as_str().unwrap().contains("API_KEY"), "{taken}");
        assert!(!format!("{found}{taken}").contains("hunter2"), "{found} {taken}");
        // An address with a secret cannot even be taken as a reference.
        let address = json!({ "mcpServers": { "s": { "url": format!("https://me:{SECRET}@mcp.example/") } } }).to_string();
        let found = owner.post("/v1/orgs/acme/mcp-imports/read", json!({ "text": address })).await.expect(200);
        let items = json!([{ "id": found["items"][0]["id"] }]);
        let taken = owner.post("/v1/orgs/acme/mcp-imports", json!({ "text": address, "items": items })).await.expect(200);
        assert_eq!((&taken["added"], &taken["failed"][0]["code"]), (&json!([]), &json!("INVALID_MCP_PLACEHOLDER")), "{taken}");
        assert!(!format!("{found}{taken}").contains("hunter2"), "{found} {taken}");
        // The same in bundles and in other programs' files.
        let with_env = |value: &str| manifest("b", "1.0.0", &format!("mcp_servers:\n  - {{id: s, command: x, env: {{K: '{value}'}}}}\n"));
        let foreign = json!({ "mcpServers": { "s": { "command": "x", "env": { "K": SECRET } } } }).to_string();
        for (name, text) in [
            ("toolset.yaml", with_env(SECRET)), ("toolset.yaml", with_env(&format!("${{{SECRET}}}"))), ("toolset.yaml", with_env("${A}")),
            (".mcp.json", foreign.clone()), (".mcp.json", address),
        ] {
            for dry in ["", "?dryRun=true"] {
                let request = server.anonymous(Method::POST, &format!("{ACME}/import{dry}")).header(header::COOKIE, &owner.cookie);
                let request = request.header("sec-fetch-site", "same-origin").header(header::CONTENT_TYPE, "application/zip");
                let answer = Answer::of(request.body(bundle(&[(name, &text)]))).await;
                answer.expect_error(400, "INVALID_MCP_PLACEHOLDER");
                assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
            }
        }
        // What Kitbag itself writes in place of a value is in the form that organisations write.
        let request = server.anonymous(Method::POST, &format!("{ACME}/import?replaceLiterals=true")).header(header::COOKIE, &owner.cookie);
        let request = request.header("sec-fetch-site", "same-origin").header(header::CONTENT_TYPE, "application/zip");
        let taken = Answer::of(request.body(bundle(&[(".mcp.json", &foreign)]))).await.expect(201);
        assert_eq!(taken["toolset"]["mcpServers"][0]["env"], json!({ "K": "${ENV:K}" }));
        let id = taken["id"].as_str().unwrap().to_owned();

        assert_eq!(database.places_of("hunter2").await, Vec::<String>::new());
        assert!(!server.log().contains("hunter2"));
        // The first that was told after all of that is what was taken.
        let told = listener.of_name("tools_changed").await;
        assert_eq!(told, json!({ "toolsetId": id, "reason": "import" }));
        let kept = owner.get(&format!("{ACME}/there")).await.expect(200);
        assert_eq!((&kept["version"], &kept["mcpServers"][0]["env"]), (&json!("1.0.0"), &json!({ "TOKEN": "${ENV:TEST_TOKEN}" })));
    }
}
