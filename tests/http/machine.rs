//! What the server says about itself, and what it tells programs that are to use it.

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::calls::{at, pending};
use crate::kit::{SERVERS, import, with_manifest};
use crate::{BINARY, TOKENS, new_chat, serve, whole_list};

const SERVER: &str = "/v1/orgs/local/server";
const CONNECTIONS: &str = "/v1/orgs/local/connections";
const PENDING: &str = "/v1/orgs/local/pending-tool-calls";

/// The owner of another organisation asks.
async fn stranger(database: &TestDatabase) -> String {
    let store = database.open().await;
    let other = add_organization(&store, "other").await;
    add_token(&store, &other, "use manage").await
}

async fn with_token(server: &Server, token: &str, path: &str) -> Answer {
    Answer::of(server.anonymous(Method::GET, path).bearer_auth(token)).await
}

fn of<'a>(connections: &'a Value, client: &str) -> &'a Value {
    connections["items"].as_array().unwrap().iter().find(|one| one["client"] == client).unwrap()
}

on_both! {
    async fn the_owner_is_told_what_the_server_is(database: TestDatabase) {
        let flags = ["--tool-timeout", "17", "--disabled-tools", "write_file", "--sandbox", "relaxed"];
        let server = Server::start(BINARY, &database, &flags);
        let facts = server.get(SERVER).await.expect(200);
        assert_eq!(facts["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(facts["limits"]["toolTimeoutSeconds"], 17);
        assert_eq!(facts["resolution"]["disabledTools"], json!(["write_file"]));
        assert_eq!((&facts["resolution"]["toolsets"], &facts["resolution"]["headerPrefix"]), (&Value::Null, &json!("X-Mcp-")));
        let machine = &facts["machine"];
        assert_eq!(machine["address"], server.url);
        assert_eq!(machine["sandbox"], "relaxed");
        let folder = database.data().canonicalize().unwrap();
        assert!(machine["dataFolder"].as_str().unwrap().starts_with(folder.to_str().unwrap()), "{machine}");
        assert!(["sqlite", "postgres"].contains(&machine["database"].as_str().unwrap()));

        let checks = server.get(&format!("{SERVER}/checks")).await.expect(200);
        let names: Vec<&str> = checks["checks"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        for name in ["data folder", "disk", "python", "namespaces", "landlock", "seccomp"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(checks["checks"].as_array().unwrap().iter().all(|one| (one["status"] == "ok") == (one["advice"] == "")), "{checks}");
        let parts: Vec<&str> = checks["data"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert!(parts.contains(&"token"), "{parts:?}");
        assert_eq!(checks["dataCut"], false);
    }

    async fn nobody_else_is_told_about_the_machine(database: TestDatabase) {
        let server = serve(&database);
        let token = stranger(&database).await;
        let facts = with_token(&server, &token, "/v1/orgs/other/server").await.expect(200);
        assert_eq!((&facts["machine"], &facts["resolution"]), (&Value::Null, &Value::Null), "{facts}");
        assert!(!facts.to_string().contains(database.data().to_str().unwrap()), "{facts}");
        with_token(&server, &token, "/v1/orgs/other/server/checks").await.expect_error(403, "FORBIDDEN");
        // Claude Desktop would start a process of this machine.
        let connections = with_token(&server, &token, "/v1/orgs/other/connections").await.expect(200);
        assert_eq!(connections["items"].as_array().unwrap().len(), 5, "{connections}");
        assert!(!connections.to_string().contains("stdio"), "{connections}");
        assert_eq!(of(&connections, "cursor")["url"], format!("{}/v1/orgs/other/mcp", server.url));
        assert_eq!(of(&connections, "cursor")["command"], Value::Null);
        // Who may only use tools is told nothing.
        let made = server.post(TOKENS, &json!({ "name": "agent", "scopes": ["use"] })).await.expect(201);
        let secret = made["secret"].as_str().unwrap();
        for path in [SERVER, "/v1/orgs/local/server/checks", CONNECTIONS] {
            with_token(&server, secret, path).await.expect_error(403, "FORBIDDEN");
        }
    }

    async fn programs_are_told_how_to_reach_everything_or_one_toolset(database: TestDatabase) {
        let server = serve(&database);
        let all = server.get(CONNECTIONS).await.expect(200);
        let place = all["tokenPlace"].as_str().unwrap();
        for client in ["claude-code", "cursor", "vscode", "codex", "opencode"] {
            let one = of(&all, client);
            assert_eq!((&one["url"], &one["needsToken"]), (&json!(format!("{}/mcp", server.url)), &json!(true)));
            let text = one["configuration"].as_str().unwrap();
            assert_eq!(text.matches(place).count(), 1, "{text}");
            // A token is put in its place, and the program that has it is let in.
            let made = server.post(TOKENS, &json!({ "name": client, "scopes": ["use"] })).await.expect(201);
            let text = text.replace(place, made["secret"].as_str().unwrap());
            let read: Value = if one["language"] == "toml" { toml::from_str(&text).unwrap() } else { serde_json::from_str(&text).unwrap() };
            let entry = read.as_object().unwrap().values().next().unwrap()["kitbag"].clone();
            let headers = entry.get("headers").or_else(|| entry.get("http_headers")).unwrap();
            let token = headers["Authorization"].as_str().unwrap().strip_prefix("Bearer ").unwrap();
            with_token(&server, token, "/v1/orgs/local/tools").await.expect(200);
        }
        let desktop = of(&all, "claude-desktop");
        assert_eq!((&desktop["url"], &desktop["needsToken"]), (&Value::Null, &json!(false)));
        assert!(!desktop["configuration"].as_str().unwrap().contains(place), "{desktop}");

        import(&server, "", &with_manifest("id: app\nname: App\nversion: \"1.0.0\"\n")).await.expect(201);
        let one = server.get(&format!("{CONNECTIONS}?toolset=app&address=https://kitbag.example.org")).await.expect(200);
        assert_eq!(of(&one, "vscode")["url"], "https://kitbag.example.org/v1/orgs/local/toolsets/app/mcp");
        assert_eq!(of(&one, "vscode")["command"], "kitbag mcp config vscode --toolset app --install");
        assert!(of(&one, "claude-desktop")["configuration"].as_str().unwrap().contains("\"--toolsets\""), "{one}");
        server.get(&format!("{CONNECTIONS}?toolset=nothing")).await.expect_error(404, "TOOLSET_NOT_FOUND");
        for address in ["ftp://a", "nothing", "https://a/b", "https://a%3Fb=c", "https://u:p@a", "javascript:alert(1)"] {
            server.get(&format!("{CONNECTIONS}?address={address}")).await.expect_error(400, "BAD_REQUEST");
        }
        assert!(server.get(SERVERS).await.expect(200)["items"].as_array().unwrap().is_empty(), "nothing was made");
    }

    async fn what_waits_for_a_person_in_any_chat_is_one_list(database: TestDatabase) {
        let server = serve(&database);
        assert!(whole_list(&server, PENDING, 1).await.is_empty());
        let mut calls = Vec::new();
        for _ in 0..3 {
            calls.push(pending(&server, &new_chat(&server).await).await);
        }
        let ids = |list: &[Value]| list.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(ids(&whole_list(&server, PENDING, 2).await), ids(&calls));
        server.post(&format!("{}/decision", at(&calls[1])), &json!({ "approve": false })).await.expect(200);
        assert_eq!(ids(&whole_list(&server, PENDING, 2).await), ids(&[calls[0].clone(), calls[2].clone()]));
        let token = stranger(&database).await;
        let theirs = with_token(&server, &token, "/v1/orgs/other/pending-tool-calls").await.expect(200);
        assert_eq!(theirs["items"], json!([]));
    }
}
