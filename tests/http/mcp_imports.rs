//! MCP servers of other programs: found, read from a text, and taken by the rules that `kitbag mcp import` has.

use std::path::Path;

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Program, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::SERVERS;
use crate::{BINARY, serve};

const IMPORTS: &str = "/v1/orgs/local/mcp-imports";

fn write(at: &Path, text: &str) {
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    std::fs::write(at, text).unwrap();
}

/// A home with the files of some programs, and a project that the server is started in.
fn furnish(home: &Path) {
    write(
        &home.join(".cursor/mcp.json"),
        r#"{"mcpServers": {
            "hub": {"command": "nopx", "args": ["--api-key", "hunter2hunter2"], "env": {"HUB_TOKEN": "hunter2", "MODE": "fast"}},
            "web": {"url": "https://w.example/mcp", "headers": {"Authorization": "Bearer ${NOT_SET_HERE}"}},
            "broken": {"args": []}}}"#,
    );
    write(&home.join(".gemini/settings.json"), "this is not JSON: hunter2");
    write(&home.join("project/.mcp.json"), r#"{"mcpServers": {"local": {"command": "./here", "alwaysAllow": ["x"]}}}"#);
}

fn serve_at(database: &TestDatabase, home: &Path) -> Server {
    let program = Program::on(BINARY, database).env("HOME", home.to_str().unwrap()).env("XDG_CONFIG_HOME", "");
    Server::start_program(&program.at(&home.join("project")), database.data(), &["serve", "--listen", "127.0.0.1:0"])
}

fn item<'a>(found: &'a Value, name: &str) -> &'a Value {
    found["items"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

on_both! {
    async fn other_programs_servers_are_found_and_taken(database: TestDatabase) {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        furnish(&home);
        let server = serve_at(&database, &home);
        let found = server.get(IMPORTS).await.expect(200);
        assert!(!found.to_string().contains("hunter2"), "{found}");
        assert_eq!(found["items"].as_array().unwrap().len(), 4);
        let hub = item(&found, "hub");
        for (field, value) in [
            ("program", json!("cursor")), ("programName", json!("Cursor")), ("own", json!(true)), ("known", json!(false)),
            ("project", Value::Null), ("file", json!(home.join(".cursor/mcp.json"))), ("problems", json!([])),
            ("serverType", json!("stdio")), ("commandLine", json!("nopx --api-key '***'")),
            ("envNames", json!(["HUB_TOKEN", "MODE"])), ("missingVariables", json!(["HUB_TOKEN"])),
            ("writtenOut", json!([{ "place": "env.HUB_TOKEN", "variable": "HUB_TOKEN" }])),
        ] {
            assert_eq!(hub[field], value, "{field}");
        }
        assert_eq!(item(&found, "web")["missingVariables"], json!(["NOT_SET_HERE"]));
        assert_eq!(item(&found, "broken")["problems"].as_array().unwrap().len(), 1);
        let local = item(&found, "local");
        assert_eq!((&local["own"], &local["project"]), (&json!(false), &json!(home.join("project"))));
        assert_eq!(found["unread"][0]["file"], json!(home.join(".gemini/settings.json")));
        assert_eq!(server.get(SERVERS).await.expect(200)["items"], json!([]), "looking takes nothing");

        let take = |items: Value| { let server = &server; async move { server.post(IMPORTS, &json!({ "items": items })).await.expect(200) } };
        let id = |name: &str| item(&found, name)["id"].clone();
        let taken = take(json!([{ "id": id("hub") }, { "id": id("local") }, { "id": id("broken") }, { "id": "0" }])).await;
        assert!(!taken.to_string().contains("\"hunter2\""), "{taken}");
        let added: Vec<(&Value, &Value, &Value)> =
            taken["added"].as_array().unwrap().iter().map(|one| (&one["id"], &one["trusted"], &one["status"])).collect();
        assert_eq!(added[1], (&json!("local~local"), &json!(false), &json!("needs_trust")), "a project's file trusts nothing");
        assert_eq!((added[0].0, added[0].1), (&json!("hub~hub"), &json!(true)));
        assert_eq!((&taken["added"][0]["missingVariables"], &taken["added"][0]["requiresConfirmation"]), (&json!(["HUB_TOKEN"]), &json!(true)));
        assert_eq!(taken["added"][1]["requiresConfirmation"], true);
        assert!(taken["notes"].to_string().contains("set the variable HUB_TOKEN"), "{taken}");
        let failed: Vec<&Value> = taken["failed"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(failed, [&json!("broken"), &Value::Null]);

        let again = server.get(IMPORTS).await.expect(200);
        assert_eq!((&item(&again, "hub")["known"], &item(&again, "web")["known"]), (&json!(true), &json!(false)));
        assert_eq!(take(json!([{ "id": id("hub") }])).await["added"], json!([]));
        // What is in the file by now is not what was chosen.
        let file = home.join(".cursor/mcp.json");
        write(&file, &std::fs::read_to_string(&file).unwrap().replace("w.example", "evil.example"));
        let refused = take(json!([{ "id": id("web") }])).await;
        assert_eq!((&refused["added"], refused["failed"].as_array().unwrap().len()), (&json!([]), 1), "{refused}");
        assert_eq!(refused["failed"][0]["code"], "CONFLICT", "{refused}");
    }

    async fn a_text_is_read_and_taken(database: TestDatabase) {
        let server = serve(&database);
        let text = r#""hub": {"command": "nopx", "env": {"HUB_TOKEN": "hunter2"}},"#;
        let found = server.post(&format!("{IMPORTS}/read"), &json!({ "text": text })).await.expect(200);
        let hub = item(&found, "hub");
        assert_eq!((&hub["file"], &hub["own"], &hub["commandLine"]), (&Value::Null, &json!(false), &json!("nopx")));
        assert!(!found.to_string().contains("hunter2"), "{found}");
        let item = json!({ "id": hub["id"], "keepValues": true });
        let taken = server.post(IMPORTS, &json!({ "text": text, "items": [item] })).await.expect(200);
        assert_eq!((&taken["added"][0]["trusted"], &taken["added"][0]["missingVariables"]), (&json!(false), &json!([])));
        assert_eq!((&taken["notes"], taken.to_string().contains("hunter2")), (&json!([]), false), "{taken}");
        Answer::of(server.request(Method::DELETE, &format!("{SERVERS}/hub"))).await.expect(204);
        let taken = server.post(IMPORTS, &json!({ "text": text, "items": [item], "trust": true })).await.expect(200);
        assert_eq!(taken["added"][0]["trusted"], true);
        let wrong = server.post(&format!("{IMPORTS}/read"), &json!({ "text": "{ hunter2" })).await;
        assert!(!wrong.body.to_string().contains("hunter2"), "{wrong:?}");
        wrong.expect_error(400, "BAD_REQUEST");
    }

    async fn only_the_owner_sees_this_machines_files(database: TestDatabase) {
        let server = serve(&database);
        let store = database.open().await;
        let user = add_token(&store, &kitbag_model::OrgId::local(), "use").await;
        let other = add_token(&store, &add_organization(&store, "other").await, "use manage").await;
        let ask = |method, path: &str, token: &str| Answer::of(server.anonymous(method, path).bearer_auth(token).json(&json!({ "items": [] })));
        for (path, token) in [(IMPORTS, &user), ("/v1/orgs/other/mcp-imports", &other)] {
            ask(Method::GET, path, token).await.expect_error(403, "FORBIDDEN");
            ask(Method::POST, path, token).await.expect_error(403, "FORBIDDEN");
        }
    }
}
