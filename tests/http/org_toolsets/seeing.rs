//! Who sees what: private toolsets are their creator's and those who manage.

use kitbag_testkit::{Answer, Server, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ACME, People, token_of, with_token};
use crate::browsers::{Browser, id_of};
use crate::events::Listener;
use crate::kit::{bundle, manifest};
use crate::serve;

const ORG: &str = "/v1/orgs/acme";

/// Everything that a member could find a toolset by, with the answer for one that is not there.
async fn traces(server: &Server, token: &str, id: &str) -> Vec<(String, u16, String)> {
    let ask = async |method: Method, path: String, body: Option<Value>| {
        let answer = with_token(server, token, method.clone(), &format!("{ORG}/{path}"), body).await;
        (
            format!("{method} {path}").replace(id, "ID"),
            answer.status.as_u16(),
            answer.body.to_string().replace(id, "ID"),
        )
    };
    let mut found = Vec::new();
    for path in [
        "toolsets/ID",
        "toolsets/ID/files",
        "toolsets/ID/files/tools/t.py",
        "toolsets/ID/skills/s",
        "toolsets/ID/export",
        "toolsets/ID/overrides",
        "mcp-servers/ID~srv",
        "mcp-servers/ID~srv/pins",
        "mcp-servers/ID-srv",
        "tools/ID:f",
        "tools/mcp:ID~srv:x",
    ] {
        found.push(ask(Method::GET, path.replace("ID", id), None).await);
    }
    for path in [
        "toolsets",
        "tools",
        "mcp-servers",
        "available-tools",
        "tools?q=ID",
        "tools/resolve?toolsets=ID",
        "tools/resolve?explain=true",
    ] {
        found.push(ask(Method::GET, path.replace("ID", id), None).await);
    }
    let chat = with_token(server, token, Method::POST, &format!("{ORG}/chats"), Some(json!({}))).await.expect(201);
    let calls = format!("chats/{}/tool-calls", chat["id"].as_str().unwrap());
    for tool in [format!("{id}:f"), format!("mcp:{id}~srv:x"), format!("mcp:{id}-srv:x")] {
        let (path, status, body) = ask(Method::POST, calls.clone(), Some(json!({ "toolId": tool, "args": {} }))).await;
        found.push((path.replace(chat["id"].as_str().unwrap(), "CHAT"), status, body));
    }
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    for path in [format!("toolsets/{id}/mcp"), format!("mcp-servers/{id}~srv/mcp"), format!("mcp?toolsets={id}")] {
        let request = server.anonymous(Method::POST, &format!("{ORG}/{path}")).bearer_auth(token).json(&hello);
        let answer = Answer::of(request.header("accept", "application/json, text/event-stream")).await;
        found.push((path.replace(id, "ID"), answer.status.as_u16(), answer.body.to_string().replace(id, "ID")));
    }
    found
}

/// A private toolset with a tool, a skill and a server.
async fn private(by: &Browser<'_>, id: &str) {
    let text = manifest(
        id,
        "1.0.0",
        &format!(
            "tools:\n  - {{id: f, entrypoint: 'tools.t:f'}}\nmcp_servers:\n  - {{id: srv, command: x, enabled: false}}\n  - {{id: {id}-srv, command: x, enabled: false}}\n"
        ),
    );
    let bytes = bundle(&[
        ("toolset.yaml", &text),
        ("tools/t.py", "def f(workspace): pass\n"),
        ("skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\n"),
    ]);
    let request = by.server.anonymous(Method::POST, &format!("{ACME}/import")).header("cookie", &by.cookie);
    let request = request.header("sec-fetch-site", "same-origin").header("content-type", "application/zip").body(bytes);
    Answer::of(request).await.expect(201);
    by.put(&format!("{ACME}/{id}"), json!({ "visibility": "private" })).await.expect(200);
}

on_both! {
    /// For a member who did not make it, it does not exist: whatever is asked, the answer is that of an id that nobody ever used.
    async fn what_is_private_does_not_exist_for_others(database: TestDatabase) {
        let server = serve(&database);
        let acme = People::of(&server, "acme").await;
        private(&acme.admin, "hidden").await;
        let member = token_of(&acme.member, "acme", &["use"]).await;
        let hidden = traces(&server, &member, "hidden").await;
        let nothing = traces(&server, &member, "nobody").await;
        for (one, other) in hidden.iter().zip(&nothing) {
            assert_eq!(one, other);
        }
        assert!(!format!("{hidden:?}").contains("hidden"));
        acme.member.get(&format!("{ACME}/hidden")).await.expect_error(404, "TOOLSET_NOT_FOUND");

        // Who manages sees it, and so does what works for them.
        let agent = token_of(&acme.owner, "acme", &["use"]).await;
        let seen = traces(&server, &agent, "hidden").await;
        for (path, status, body) in &seen {
            assert!(*status < 300 || body.contains("turned off") || body.contains("is off") || path.contains("pins")
                    || body.contains("UNAVAILABLE") || path.contains("mcp:") || path.contains("srv/mcp"), "{path}: {status} {body}");
        }
        // Whoever made it still does when they manage no more; what they began before begins anew.
        let made_by = id_of(&acme.admin).await;
        let demote = json!({ "role": "member" });
        acme.owner.ask(Method::PATCH, &format!("{ORG}/members/{made_by}"), Some(demote)).await.expect(200);
        acme.admin.get(&format!("{ACME}/hidden")).await.expect(200);
        acme.admin.put(&format!("{ACME}/hidden"), json!({ "visibility": "org" })).await.expect_error(403, "FORBIDDEN");
        private(&acme.owner, "owners").await;
        acme.admin.get(&format!("{ACME}/owners")).await.expect_error(404, "TOOLSET_NOT_FOUND");
        let listed = acme.admin.get(ACME).await.expect(200);
        assert_eq!(listed["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect::<Vec<_>>(), ["hidden"]);

        // Once it is for all, all see it.
        acme.owner.put(&format!("{ACME}/hidden"), json!({ "visibility": "org" })).await.expect(200);
        acme.member.get(&format!("{ACME}/hidden")).await.expect(200);
        assert!(format!("{:?}", traces(&server, &member, "hidden").await).contains("tools/t.py"));
    }

    /// A list has as many items as are asked for, whatever is hidden between them.
    async fn lists_skip_what_is_hidden(database: TestDatabase) {
        let server = serve(&database);
        let acme = People::of(&server, "acme").await;
        for number in 0..6 {
            let visibility = if number % 2 == 0 { "private" } else { "org" };
            acme.owner.post(ACME, json!({ "id": format!("t{number}"), "name": "T", "visibility": visibility })).await.expect(201);
        }
        let first = acme.member.get(&format!("{ACME}?limit=2")).await.expect(200);
        assert_eq!((&first["items"][0]["id"], &first["items"][1]["id"]), (&json!("t1"), &json!("t3")));
        let second = acme.member.get(&format!("{ACME}?limit=2&cursor={}", first["nextCursor"].as_str().unwrap())).await.expect(200);
        assert_eq!((second["items"].as_array().unwrap().len(), &second["items"][0]["id"], &second["nextCursor"]), (1, &json!("t5"), &Value::Null));
        assert_eq!(acme.owner.get(ACME).await.expect(200)["items"].as_array().unwrap().len(), 6);
    }

    async fn events_do_not_name_what_is_hidden(database: TestDatabase) {
        let server = serve(&database);
        let acme = People::of(&server, "acme").await;
        let member = token_of(&acme.member, "acme", &["use"]).await;
        let manager = token_of(&acme.admin, "acme", &["use"]).await;
        let listen = |token: &str| Listener::by(server.anonymous(Method::GET, &format!("{ORG}/events")).bearer_auth(token));
        let (mut hears, mut hears_all) = (listen(&member).await, listen(&manager).await);
        let body = |id: &str, visibility: &str| json!({ "id": id, "name": "T", "visibility": visibility });
        acme.owner.post(ACME, body("t", "private")).await.expect(201);
        acme.owner.put(&format!("{ACME}/t"), json!({ "name": "U" })).await.expect(200);
        acme.owner.delete(&format!("{ACME}/t")).await.expect(204);
        let change = async |id: &str, body: Value| drop(acme.owner.put(&format!("{ACME}/{id}"), body).await.expect(200));
        acme.owner.post(ACME, body("u", "private")).await.expect(201);
        acme.owner.post(ACME, body("v", "org")).await.expect(201);
        assert_eq!(hears.of_name("tools_changed").await, json!({ "toolsetId": "v", "reason": "create" }));
        change("u", json!({ "visibility": "org" })).await;
        assert_eq!(hears.of_name("tools_changed").await, json!({ "toolsetId": "u", "reason": "update" }));
        change("u", json!({ "visibility": "private" })).await;
        // Who knew it hears that it is gone, and no more.
        assert_eq!(hears.of_name("tools_changed").await, json!({ "toolsetId": "u", "reason": "uninstall" }));
        change("u", json!({ "name": "V" })).await;
        acme.owner.delete(&format!("{ACME}/u")).await.expect(204);
        acme.owner.delete(&format!("{ACME}/v")).await.expect(204);
        assert_eq!(hears.of_name("tools_changed").await, json!({ "toolsetId": "v", "reason": "uninstall" }));
        let mut all = Vec::new();
        while all.last().is_none_or(|last| *last != json!({ "toolsetId": "v", "reason": "uninstall" })) {
            all.push(hears_all.of_name("tools_changed").await);
        }
        assert_eq!(all.len(), 10, "{all:?}");
    }
}
