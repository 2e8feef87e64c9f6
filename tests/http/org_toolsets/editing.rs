//! Changing toolsets: what changes, and what stays.

use kitbag_testkit::{Answer, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use super::{ACME, People, problems, skill, stdio, toolset, with};
use crate::browsers::id_of;
use crate::kit::{bundle, manifest};
use crate::serve;

/// What a page would send back of what it was shown, with nothing changed.
fn sent_back(shown: &Value) -> Value {
    let server = |one: &Value| {
        let mut server = json!({ "id": one["serverId"] });
        for field in [
            "serverType",
            "command",
            "args",
            "cwd",
            "env",
            "url",
            "headers",
            "enabled",
            "requiresConfirmation",
            "description",
        ] {
            server[field] = one[field].clone();
        }
        let stdio = one["serverType"] == "stdio";
        server.as_object_mut().unwrap().remove(if stdio { "headers" } else { "env" });
        server
    };
    let servers: Vec<Value> = shown["mcpServers"].as_array().unwrap().iter().map(server).collect();
    let skills = shown["agentSkills"].as_array().unwrap().clone();
    json!({
        "id": shown["id"], "name": shown["name"], "description": shown["description"], "visibility": shown["visibility"],
        "mcpServers": servers, "agentSkills": skills,
    })
}

on_both! {
    async fn a_change_keeps_what_it_does_not_name(database: TestDatabase) {
        let server = serve(&database);
        let acme = People::of(&server, "acme").await;
        let body = with(toolset("T"), "/mcpServers", json!([stdio("github"), stdio("gitlab"), stdio("gone")]));
        acme.owner.post(ACME, with(body, "/agentSkills", json!([skill("a"), skill("b")]))).await.expect(201);
        let one = format!("{ACME}/t");
        // What people said about it.
        let over = format!("{one}/overrides/github%3Aping");
        acme.admin.put(&over, json!({ "nameOverride": "Ping!" })).await.expect(200);
        acme.admin.put("/v1/orgs/acme/mcp-servers/t~gitlab", json!({ "enabled": true, "pinPolicy": "warn" })).await.expect(200);
        let shown = acme.admin.get(&one).await.expect(200);

        // To send back what was shown changes nothing.
        let same = acme.admin.put(&one, sent_back(&shown)).await.expect(200);
        assert_eq!((&same["version"], &same["updatedAt"]), (&json!("1.0.0"), &shown["updatedAt"]));

        let described = acme.admin.put(&one, json!({ "name": "Other", "description": "For x." })).await.expect(200);
        assert_eq!((&described["name"], &described["description"], &described["version"]), (&json!("Other"), &json!("For x."), &json!("1.0.0")));
        assert_eq!(acme.admin.put(&one, json!({ "description": null })).await.expect(200)["description"], Value::Null);

        let changed = with(stdio("github"), "/args", json!(["-y", "pkg@2"]));
        let changed = with(changed, "/env", json!({ "TOKEN": null, "OTHER": "${ENV:OTHER}" }));
        let kept = json!({ "id": "gitlab", "command": "npx", "args": ["-y", "pkg"], "env": { "TOKEN": null } });
        let put = json!({
            "mcpServers": [changed, kept],
            "agentSkills": [{ "id": "b", "enabled": false }, with(skill("c"), "/files/1/content", json!("echo c\n"))],
        });
        let now = acme.admin.put(&one, put).await.expect(200);
        assert_eq!((&now["version"], &now["name"]), (&json!("1.0.1"), &json!("Other")));
        let servers = now["mcpServers"].as_array().unwrap();
        assert_eq!(servers.len(), 2);
        assert_eq!(servers[0]["env"], json!({ "TOKEN": "${ENV:TEST_TOKEN}", "OTHER": "${ENV:OTHER}" }));
        assert_eq!(servers[0]["trusted"], true, "who changed it has seen it");
        assert_eq!((&servers[1]["enabled"], &servers[1]["pinPolicy"], &servers[1]["trusted"]), (&json!(true), &json!("warn"), &json!(true)));
        let skills: Vec<_> = now["agentSkills"].as_array().unwrap().iter().map(|one| (one["id"].as_str().unwrap(), &one["enabled"])).collect();
        assert_eq!(skills, [("b", &json!(false)), ("c", &json!(true))]);
        let overrides = acme.member.get(&format!("{one}/overrides")).await.expect(200);
        assert_eq!(overrides["items"][0]["nameOverride"], "Ping!");
        acme.admin.get(&format!("{one}/skills/a")).await.expect_error(404, "NOT_FOUND");
        let files = database.files_of_toolset("acme", "t").await;
        let paths: Vec<&str> = files.keys().map(String::as_str).filter(|path| path.ends_with(".sh")).collect();
        assert_eq!(paths, ["skills/b/scripts/a.sh", "skills/c/scripts/a.sh"]);

        // What was untrusted and is changed in a word stays untrusted; what is new or said to be trusted is not.
        let untrusted = json!({ "mcpServers": [with(stdio("x"), "/args", json!(["1"]))], "trust": false });
        assert_eq!(acme.admin.put(&one, untrusted).await.expect(200)["mcpServers"][0]["trusted"], false);
        let word = json!({ "mcpServers": [with(stdio("x"), "/args", json!(["2"])), stdio("y")] });
        let now = acme.admin.put(&one, word.clone()).await.expect(200);
        assert_eq!((&now["mcpServers"][0]["trusted"], &now["mcpServers"][1]["trusted"]), (&json!(false), &json!(true)));
        let yes = with(word, "/trust", json!(true));
        assert_eq!(acme.admin.put(&one, yes).await.expect(200)["mcpServers"][0]["trusted"], true);

        for (body, field) in [
            (json!({ "id": "other" }), "id"),
            (json!({ "mcpServers": [with(stdio("x"), "/env", json!({ "NEW": null }))] }), "mcpServers[0].env.NEW"),
            (json!({ "agentSkills": [{ "id": "nope" }] }), "agentSkills[0].files"),
            (json!({ "visibility": "public" }), "visibility"),
        ] {
            assert_eq!(problems(&acme.admin.put(&one, body).await)[0].split(' ').nth(1).unwrap(), field);
        }
        acme.admin.put(&format!("{ACME}/nope"), json!({})).await.expect_error(404, "TOOLSET_NOT_FOUND");
        // A server that was added by itself is changed as that.
        acme.admin.post("/v1/orgs/acme/mcp-servers", json!({ "id": "solo", "command": "x", "enabled": false })).await.expect(201);
        acme.admin.put(&format!("{ACME}/solo"), json!({ "name": "x" })).await.expect_error(409, "CONFLICT");
        let who = id_of(&acme.admin).await;
        assert!(!who.is_empty() && !server.log().contains("ERROR"), "{}", server.log());
    }

    async fn what_came_as_a_bundle_keeps_its_tools_and_files(database: TestDatabase) {
        let server = serve(&database);
        let owner = crate::browsers::owner(&server, "acme").await;
        let more = "tools:\n  - {id: f, entrypoint: 'tools.t:f'}\ntool_overrides:\n  - {tool_id: f, name_override: Eff}\n";
        let text = "---\nname: old\ndescription: d\n---\n";
        let bytes = bundle(&[
            ("toolset.yaml", &manifest("app", "2.0.0-beta.1", more)),
            ("tools/t.py", "def f(workspace): pass\n"),
            ("artifacts/p.html", "<p>"),
            ("data.json", "{}"),
            ("skills/old/SKILL.md", text),
            ("*skills/old/run.sh", "echo\n"),
            ("skills/stays/SKILL.md", "---\nname: stays\ndescription: d\n---\n"),
        ]);
        let import = server.anonymous(Method::POST, &format!("{ACME}/import")).header(header::COOKIE, &owner.cookie);
        let import = import.header("sec-fetch-site", "same-origin").header(header::CONTENT_TYPE, "application/zip").body(bytes);
        Answer::of(import).await.expect(201);
        let one = format!("{ACME}/app");
        let mut old = owner.get(&format!("{one}/skills/old")).await.expect(200);
        old["files"].as_array_mut().unwrap().push(json!({ "path": "new.txt", "content": "new", "encoding": "utf8" }));
        let put = json!({ "mcpServers": [stdio("s")], "agentSkills": [old, { "id": "stays" }, skill("more")] });
        let now = owner.put(&one, put).await.expect(200);
        assert_eq!((&now["version"], &now["sourceType"]), (&json!("2.0.1"), &json!("zip")));
        assert_eq!((&now["tools"][0]["id"], &now["tools"][0]["name"]), (&json!("app:f"), &json!("Eff")));
        let files = database.files_of_toolset("acme", "app").await;
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(paths, [
            "artifacts/p.html", "data.json", "skills/more/SKILL.md", "skills/more/assets/logo.bin", "skills/more/scripts/a.sh",
            "skills/old/SKILL.md", "skills/old/new.txt", "skills/old/run.sh", "skills/stays/SKILL.md", "tools/t.py", "toolset.yaml",
        ]);
        assert!(files["skills/old/run.sh"].executable, "what could be run still can");
        // Without its skills it is still what it was.
        let now = owner.put(&one, json!({ "agentSkills": [], "mcpServers": [] })).await.expect(200);
        assert_eq!((now["tools"].as_array().unwrap().len(), now["files"].as_array().unwrap().len()), (1, 4));
        let read = async |path: &str| {
            let request = server.anonymous(Method::GET, &format!("{one}/files/{path}")).header(header::COOKIE, &owner.cookie);
            request.header("sec-fetch-site", "same-origin").send().await.unwrap().text().await.unwrap()
        };
        assert_eq!(read("tools/t.py").await, "def f(workspace): pass\n");
        assert!(read("toolset.yaml").await.contains("2.0.2"), "the manifest is what is installed now");
        // Two versions of one id: the older does not come over the newer by itself.
        let old = bundle(&[("toolset.yaml", &manifest("app", "2.0.0", ""))]);
        let import = server.anonymous(Method::POST, &format!("{ACME}/import")).header(header::COOKIE, &owner.cookie);
        let import = import.header("sec-fetch-site", "same-origin").header(header::CONTENT_TYPE, "application/zip").body(old);
        Answer::of(import).await.expect_error(409, "CONFLICT");
    }

    /// What is published stays what people were shown. Publishing itself is the gallery's.
    async fn what_is_published_stays_as_it_is(database: TestDatabase) {
        let server = serve(&database);
        let acme = People::of(&server, "acme").await;
        acme.owner.post(ACME, toolset("T")).await.expect(201);
        let one = format!("{ACME}/t");
        let over = format!("{one}/overrides/github%3Aping");
        acme.owner.put(&over, json!({ "nameOverride": "Ping!" })).await.expect(200);
        database.change("UPDATE toolsets SET visibility = 'public', public_slug = 'a-slug', published_at = installed_at WHERE id = 't'").await;
        let bytes = bundle(&[("toolset.yaml", &manifest("t", "9.0.0", ""))]);
        let import = server.anonymous(Method::POST, &format!("{ACME}/import")).header(header::COOKIE, &acme.owner.cookie);
        let import = import.header("sec-fetch-site", "same-origin").header(header::CONTENT_TYPE, "application/zip").body(bytes);
        for answer in [
            acme.owner.put(&one, json!({ "name": "x" })).await,
            acme.owner.put(&one, json!({ "visibility": "org" })).await,
            acme.owner.put(&one, json!({})).await,
            acme.owner.delete(&one).await,
            acme.owner.put(&over, json!({ "nameOverride": "x" })).await,
            acme.owner.delete(&over).await,
            acme.owner.put("/v1/orgs/acme/mcp-servers/t~github", json!({ "args": ["x"] })).await,
            Answer::of(import).await,
        ] {
            answer.expect_error(400, "BAD_REQUEST");
            assert_eq!(answer.body["message"], "Published toolsets must be unpublished before editing.");
        }
        // To use it, and to say how, is no change of it.
        acme.owner.post(&format!("{one}/enable"), json!({ "enabled": false })).await.expect(200);
        acme.owner.put("/v1/orgs/acme/mcp-servers/t~github", json!({ "pinPolicy": "warn" })).await.expect(200);
        acme.owner.post(&format!("{one}/trust"), json!({})).await.expect(200);
        let now = acme.member.get(&one).await.expect(200);
        assert_eq!((&now["version"], &now["visibility"], &now["publicSlug"]), (&json!("1.0.0"), &json!("public"), &json!("a-slug")));
        database.change("UPDATE toolsets SET visibility = 'org', public_slug = NULL, published_at = NULL WHERE id = 't'").await;
        acme.owner.put(&one, json!({ "name": "x" })).await.expect(200);
        acme.owner.delete(&one).await.expect(204);
    }
}

/// Literals are `local`'s own: they stay where they are, are never shown, and need not be known to change the rest.
#[tokio::test]
async fn values_of_local_stay_without_being_shown() {
    let database = kitbag_testkit::TestDatabase::sqlite();
    let server = serve(&database);
    let path = "/v1/orgs/local/toolsets";
    let literal = json!({ "id": "s", "command": "x", "enabled": false, "env": { "A": "hunter2", "B": "${HOME}", "C": "a ${B}" } });
    let made = server.post(path, &json!({ "name": "T", "mcpServers": [literal] })).await.expect(201);
    assert!(!made.to_string().contains("hunter2"));
    assert_eq!(made["mcpServers"][0]["env"], json!({ "A": null, "B": "${HOME}", "C": null }));
    let put = async |body: Value| Answer::of(server.request(Method::PUT, &format!("{path}/t")).json(&body)).await;
    let same = put(sent_back(&made)).await.expect(200);
    assert_eq!(same["version"], "1.0.0");
    let other = with(sent_back(&made), "/mcpServers/0/args", json!(["y"]));
    let now = put(other).await.expect(200);
    assert_ne!(now["mcpServers"][0]["fingerprint"], made["mcpServers"][0]["fingerprint"]);
    assert_eq!(now["mcpServers"][0]["envNames"], json!(["A", "B", "C"]));
    assert!(!database.places_of("hunter2").await.is_empty(), "it is kept");
    let gone = put(with(sent_back(&now), "/mcpServers/0/env", json!({ "B": null }))).await.expect(200);
    assert_eq!(gone["mcpServers"][0]["envNames"], json!(["B"]));
    assert!(!server.log().contains("hunter2"));
}
