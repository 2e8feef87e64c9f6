//! The gallery: what one organisation publishes, everybody who is signed in may look at and adopt, and nobody else can change.

use std::path::PathBuf;

use kitbag_model::OrgId;
use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Server, TestDatabase, on_both, sha256};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::browsers::{Browser, id_of, invited, owner};
use crate::kit::{TOOLSETS, bundle, import, manifest, manifest_of, on_disk, unpacked};
use crate::serve;

const GALLERY: &str = "/v1/toolset-gallery";

/// Everything that a toolset can have, as an organisation that shares a server writes it.
const FULL: &str = "description: Says how the weather will be
tools:
  - {id: forecast, entrypoint: 't:f', description: Tell the weather of tomorrow, requires_confirmation: true}
  - {id: report, entrypoint: 't:f', name: Report}
tool_overrides:
  - {tool_id: forecast, requires_confirmation: false}
  - {tool_id: report, name_override: Tell}
  - {tool_id: 'files:read_*', name_override: Read}
mcp_servers:
  - {id: files, command: nopx, args: [-y, pkg], cwd: '${HOME}/work', env: {API_KEY: '${ENV:PRIVATE_VARIABLE}'}, description: Stations}
  - {id: web, url: 'https://mcp.example.org/tenants/acme-internal/mcp', headers: {X-Key: '${ENV:PRIVATE_VARIABLE}'}}
permissions: {network: true}
";

fn full(id: &str) -> Vec<u8> {
    bundle(&[
        ("toolset.yaml", &manifest(id, "1.2.0", FULL)),
        ("tools/t.py", "def f(workspace): pass\n"),
        ("*bin/run.sh", "#!/bin/sh\n"),
        ("assets/map.txt", "map"),
        ("skills/sky/SKILL.md", "---\nname: sky\ndescription: When somebody looks up.\n---\nLook.\n"),
    ])
}

fn toolset(id: &str, more: &str) -> Vec<u8> {
    bundle(&[("toolset.yaml", &manifest(id, "1.0.0", more)), ("tools/t.py", "def f(workspace): pass\n")])
}

/// Installs a bundle in the organisation of somebody who may.
async fn install(who: &Browser<'_>, org: &str, bytes: &[u8]) -> Value {
    let path = format!("/v1/orgs/{org}/toolsets/import");
    let request = who.server.anonymous(Method::POST, &path).header(header::COOKIE, &who.cookie);
    let request = request.header("sec-fetch-site", "same-origin").header(header::CONTENT_TYPE, "application/zip");
    Answer::of(request.body(bytes.to_vec())).await.expect(201)
}

async fn publish(who: &Browser<'_>, org: &str, id: &str, slug: &str) -> Answer {
    who.post(&format!("/v1/orgs/{org}/toolsets/{id}/publish"), json!({ "publicSlug": slug })).await
}

async fn unpublish(who: &Browser<'_>, org: &str, id: &str) -> Answer {
    who.post(&format!("/v1/orgs/{org}/toolsets/{id}/unpublish"), json!({})).await
}

async fn adopt(who: &Browser<'_>, org: &str, slug: &str, body: Value) -> Answer {
    who.post(&format!("/v1/orgs/{org}/toolset-gallery/{slug}/adopt"), body).await
}

fn slugs(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|card| card["publicSlug"].as_str().unwrap()).collect()
}

/// The bundles that are kept, or the copies here of those in the bucket.
fn bundles(database: &TestDatabase) -> Vec<PathBuf> {
    let folder = database.data().join("gallery");
    let kept = on_disk(&folder).into_keys().filter(|path| path != "lock");
    kept.map(|path| folder.join(path)).collect()
}

/// The newest lines of an organisation's audit that are about toolsets, newest first.
async fn audit(database: &TestDatabase, org: &str) -> Vec<(String, String)> {
    let store = database.open().await;
    let lines = store.read(&org.parse().unwrap()).await.unwrap().audit_trail(50).await.unwrap();
    store.close().await;
    let of_toolsets = lines.into_iter().filter(|line| line.action.starts_with("toolset."));
    of_toolsets.map(|line| (line.action, line.subject)).collect()
}

/// Somebody who is signed in and a member of nothing.
async fn stranger<'s>(by: &Browser<'s>, org: &str) -> Browser<'s> {
    let somebody = invited(by, org, "carol@example.org", "member").await;
    let id = id_of(&somebody).await;
    by.delete(&format!("/v1/orgs/{org}/members/{id}")).await.expect(204);
    somebody.get(&format!("/v1/orgs/{org}/toolsets")).await.expect_error(404, "NOT_FOUND");
    somebody
}

on_both! {
    async fn what_one_organisation_publishes_another_adopts(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "globex").await);
        let admin = invited(&ada, "acme", "admin@acme.example", "admin").await;
        let member = invited(&ada, "acme", "member@acme.example", "member").await;
        let theirs = invited(&bob, "globex", "member@globex.example", "member").await;
        let carol = stranger(&ada, "acme").await;
        install(&admin, "acme", &full("weather")).await;
        install(&admin, "acme", &toolset("second", "")).await;
        install(&bob, "globex", &toolset("weather", "")).await;

        // Who may publish.
        publish(&member, "acme", "weather", "weather-tools").await.expect_error(403, "FORBIDDEN");
        publish(&bob, "acme", "weather", "weather-tools").await.expect_error(404, "NOT_FOUND");
        publish(&ada, "acme", "nothing", "weather-tools").await.expect_error(404, "TOOLSET_NOT_FOUND");
        for bad in ["ab", "-ab", "a_b", "ABC", "we ather", "wеather", "kitbag", ""] {
            publish(&ada, "acme", "weather", bad).await.expect_error(400, "BAD_REQUEST");
        }
        assert_eq!(slugs(&ada.get(GALLERY).await.expect(200)), [""; 0]);
        let published = publish(&admin, "acme", "weather", "weather-tools").await.expect(200);
        assert_eq!((&published["publicSlug"], &published["visibility"]), (&json!("weather-tools"), &json!("public")));
        assert!(published["publishedAt"].is_string());
        assert_eq!(publish(&ada, "acme", "weather", "weather-tools").await.expect(200), published, "once is enough");
        publish(&ada, "acme", "weather", "another-name").await.expect_error(409, "CONFLICT");
        let own = publish(&ada, "acme", "second", "weather-tools").await;
        own.expect_error(409, "PUBLIC_SLUG_CONFLICT");
        let taken = publish(&bob, "globex", "weather", "weather-tools").await;
        taken.expect_error(409, "PUBLIC_SLUG_CONFLICT");
        assert_eq!(member.get("/v1/orgs/acme/toolsets/weather").await.expect(200)["publicSlug"], "weather-tools", "members see it too");

        // Who may look: everybody who is signed in, and nobody else.
        let store = database.open().await;
        let token = add_token(&store, &"globex".parse().unwrap(), "use").await;
        store.close().await;
        let list = carol.get(GALLERY).await.expect(200);
        assert_eq!(list, json!({ "items": [{
            "publicSlug": "weather-tools", "name": "A toolset", "description": "Says how the weather will be", "version": "1.2.0",
            "publishedAt": published["publishedAt"], "toolCount": 2, "mcpServerCount": 2, "agentSkillCount": 1,
        }], "nextCursor": null }));
        let at = format!("{GALLERY}/weather-tools");
        let shown = carol.get(&at).await.expect(200);
        for (path, expected) in [(GALLERY, &list), (at.as_str(), &shown)] {
            for who in [&ada, &bob, &member, &theirs] {
                assert_eq!(who.get(path).await.expect(200), *expected);
            }
            let with_token = server.anonymous(Method::GET, path).bearer_auth(&token);
            assert_eq!(Answer::of(with_token).await.expect(200), *expected);
            Answer::of(server.anonymous(Method::GET, path)).await.expect_error(401, "UNAUTHORIZED");
        }
        carol.get(&format!("{GALLERY}/nothing")).await.expect_error(404, "TOOLSET_NOT_FOUND");
        carol.get(&format!("{GALLERY}/No%20Slug")).await.expect_error(404, "TOOLSET_NOT_FOUND");

        // What it tells: names, and nothing of the organisation.
        assert_eq!(shown["tools"], json!([
            { "id": "forecast", "name": "forecast", "description": "Tell the weather of tomorrow" },
            { "id": "report", "name": "Tell", "description": null },
        ]));
        assert_eq!(shown["mcpServers"], json!([
            { "id": "files", "serverType": "stdio", "commandLine": "nopx -y pkg", "urlHost": null, "envNames": ["API_KEY"],
              "headerNames": [], "description": "Stations" },
            { "id": "web", "serverType": "streamable-http", "commandLine": null, "urlHost": "mcp.example.org", "envNames": [],
              "headerNames": ["X-Key"], "description": null },
        ]));
        assert_eq!(shown["agentSkills"], json!([{ "id": "sky", "name": "sky", "description": "When somebody looks up." }]));
        assert_eq!(shown["permissions"], json!({ "network": true, "listen": false }));
        let paths: Vec<&str> = shown["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["assets/map.txt", "bin/run.sh", "skills/sky/SKILL.md", "tools/t.py", "toolset.yaml"]);
        let told = format!("{list}{shown}");
        let admins_id = id_of(&admin).await;
        for secret in ["acme", "example.org/", "PRIVATE_VARIABLE", "HOME", "member", "Somebody", admins_id.as_str()] {
            assert!(!told.contains(secret), "{secret} is told: {told}");
        }

        // Who may adopt.
        adopt(&theirs, "globex", "weather-tools", json!({})).await.expect_error(403, "FORBIDDEN");
        adopt(&carol, "globex", "weather-tools", json!({})).await.expect_error(404, "NOT_FOUND");
        adopt(&bob, "acme", "weather-tools", json!({})).await.expect_error(404, "NOT_FOUND");
        adopt(&bob, "globex", "nothing", json!({})).await.expect_error(404, "TOOLSET_NOT_FOUND");
        let nobody = server.anonymous(Method::POST, "/v1/orgs/globex/toolset-gallery/weather-tools/adopt").json(&json!({}));
        Answer::of(nobody).await.expect_error(401, "UNAUTHORIZED");
        let copy = adopt(&bob, "globex", "weather-tools", json!({ "id": "our-weather", "name": "Our weather" })).await.expect(201);
        assert_eq!((&copy["id"], &copy["name"], &copy["version"]), (&json!("our-weather"), &json!("Our weather"), &json!("1.2.0")));
        assert_eq!(copy["description"], "Says how the weather will be");
        assert_eq!(copy["adoptedFrom"], json!({ "toolsetId": "weather", "publicSlug": "weather-tools", "version": "1.2.0" }));
        assert_eq!((&copy["visibility"], &copy["publicSlug"], &copy["publishedAt"], &copy["enabled"], &copy["trusted"]),
            (&json!("org"), &Value::Null, &Value::Null, &json!(true), &json!(false)));
        let of = |field: &str| copy[field].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(of("tools"), ["our-weather:forecast", "our-weather:report"]);
        assert_eq!(of("mcpServers"), ["our-weather~files", "our-weather~web"]);
        assert_eq!(of("agentSkills"), ["sky"]);
        assert_eq!(copy["tools"][1]["name"], "Tell", "its overrides came along");
        assert_eq!(copy["tools"][0]["requiresConfirmation"], true, "and take no question away before it is trusted");
        assert!(copy["mcpServers"].as_array().unwrap().iter().all(|one| one["trusted"] == false && one["status"] == "needs_trust"), "{copy}");
        let members = theirs.get("/v1/orgs/globex/toolsets/our-weather").await.expect(200);
        assert_eq!(members["adoptedFrom"], copy["adoptedFrom"]);
        let trusted = bob.post("/v1/orgs/globex/toolsets/our-weather/trust", json!({})).await.expect(200);
        assert_eq!(trusted["tools"][0]["requiresConfirmation"], false);

        // Nobody else takes it back.
        unpublish(&member, "acme", "weather").await.expect_error(403, "FORBIDDEN");
        unpublish(&bob, "acme", "weather").await.expect_error(404, "NOT_FOUND");
        unpublish(&bob, "globex", "nothing").await.expect_error(404, "TOOLSET_NOT_FOUND");
        unpublish(&bob, "globex", "weather").await.expect(200);
        assert_eq!(carol.get(&at).await.expect(200), shown);

        // The copy is whole, and nothing that happens to the original changes it.
        let before = database.files_of_toolset("globex", "our-weather").await;
        let (mut there, mut here) = (before.clone(), database.files_of_toolset("acme", "weather").await);
        assert!(there.remove("toolset.yaml").is_some() && here.remove("toolset.yaml").is_some());
        assert_eq!(there, here);
        let back = unpublish(&ada, "acme", "weather").await.expect(200);
        assert_eq!((&back["visibility"], &back["publicSlug"], &back["publishedAt"]), (&json!("org"), &Value::Null, &Value::Null));
        ada.delete("/v1/orgs/acme/toolsets/weather").await.expect(204);
        carol.get(&at).await.expect_error(404, "TOOLSET_NOT_FOUND");
        adopt(&bob, "globex", "weather-tools", json!({})).await.expect_error(404, "TOOLSET_NOT_FOUND");
        assert_eq!(database.files_of_toolset("globex", "our-weather").await, before);
        let mut now = bob.get("/v1/orgs/globex/toolsets/our-weather").await.expect(200);
        assert_eq!(now["adoptedFrom"], copy["adoptedFrom"]);
        now["tools"].take();
        assert!(now["trusted"] == true && bundles(&database).is_empty());

        // The name is still acme's. Others get the answer that they got while it was published.
        let reserved = publish(&bob, "globex", "weather", "weather-tools").await;
        assert_eq!((reserved.status, &reserved.body), (taken.status, &taken.body));
        assert_eq!(own.body, taken.body);
        publish(&ada, "acme", "second", "weather-tools").await.expect(200);
        assert_eq!(carol.get(&at).await.expect(200)["toolCount"], 0, "it is another toolset, and nothing of the first");
        let of = |action: &str, id: &str| (format!("toolset.{action}"), id.to_owned());
        let lines = audit(&database, "acme").await;
        assert_eq!(lines[0], of("published", "second"));
        assert!(lines.contains(&of("published", "weather")) && lines.contains(&of("unpublished", "weather")), "{lines:?}");
        assert!(audit(&database, "globex").await.contains(&of("adopted", "our-weather")));
        // What comes out of the copy can come in again.
        let export = server.anonymous(Method::GET, "/v1/orgs/globex/toolsets/our-weather/export").header(header::COOKIE, &bob.cookie);
        let bytes = export.send().await.unwrap().bytes().await.unwrap().to_vec();
        assert!(manifest_of(&bytes).contains("id: our-weather"));
        assert_eq!(kitbag_testkit::sha256(&unpacked(&bytes)["toolset.yaml"].1), before["toolset.yaml"].sha256);
    }

    /// The way of the page: a toolset that is made of servers and skills, published, adopted, and changed where it was made.
    async fn what_is_made_here_is_published_and_adopted(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "globex").await);
        let made = |name: &str, words: &str| json!({
            "name": name, "visibility": "org",
            "mcpServers": [{ "name": "github", "transport": "stdio", "command": "nopx", "env": { "TOKEN": "${ENV:TEST_TOKEN}" } }],
            "agentSkills": [{ "format": "agentskills-v1", "id": "review", "name": "review", "description": "To review", "entry": "SKILL.md",
                "files": [{ "path": "SKILL.md", "content": format!("---\nname: review\ndescription: To review\n---\n{words}\n") },
                          { "path": "scripts/a.sh", "content": "echo\n" }] }],
        });
        ada.post("/v1/orgs/acme/toolsets", made("Reviews", "First words")).await.expect(201);
        ada.post("/v1/orgs/acme/toolsets", made("Others", "Other words")).await.expect(201);
        assert_eq!(publish(&ada, "acme", "reviews", "code-reviews").await.expect(200)["publicSlug"], "code-reviews");
        publish(&ada, "acme", "others", "code-reviews").await.expect_error(409, "PUBLIC_SLUG_CONFLICT");
        let shown = bob.get(&format!("{GALLERY}/code-reviews")).await.expect(200);
        assert_eq!((&shown["mcpServers"][0]["envNames"], &shown["agentSkills"][0]["name"]), (&json!(["TOKEN"]), &json!("review")));
        assert!(!shown.to_string().contains("TEST_TOKEN"));
        let copy = adopt(&bob, "globex", "code-reviews", json!({ "name": "Ours" })).await.expect(201);
        assert_eq!((&copy["id"], &copy["name"], &copy["adoptedFrom"]["toolsetId"]), (&json!("reviews"), &json!("Ours"), &json!("reviews")));
        let skill = "/v1/orgs/globex/toolsets/reviews/skills/review";
        let before = bob.get(skill).await.expect(200);
        assert_eq!(before, ada.get("/v1/orgs/acme/toolsets/reviews/skills/review").await.expect(200));

        let change = made("Reviews", "Second words");
        ada.put("/v1/orgs/acme/toolsets/reviews", change.clone()).await.expect_error(400, "BAD_REQUEST");
        ada.delete("/v1/orgs/acme/toolsets/reviews").await.expect_error(400, "BAD_REQUEST");
        assert_eq!(ada.post("/v1/orgs/acme/toolsets/reviews/unpublish", json!({ "visibility": "private" })).await.expect(200)["visibility"], "private");
        ada.post("/v1/orgs/acme/toolsets/reviews/unpublish", json!({ "visibility": "public" })).await.expect_error(400, "BAD_REQUEST");
        assert_eq!(unpublish(&ada, "acme", "reviews").await.expect(200)["visibility"], "private", "what is not published stays as it is");
        ada.put("/v1/orgs/acme/toolsets/reviews", change).await.expect(200);
        publish(&ada, "acme", "reviews", "code-reviews").await.expect(200);
        assert_eq!(bob.get(skill).await.expect(200), before, "the copy is as it was");
        let second = adopt(&bob, "globex", "code-reviews", json!({})).await.expect(201);
        let of_second = bob.get(&format!("/v1/orgs/globex/toolsets/{}/skills/review", second["id"].as_str().unwrap())).await.expect(200);
        assert!(of_second.to_string().contains("Second words"));
        // What the copy's own organisation changes about it keeps where it came from.
        let renamed = bob.put("/v1/orgs/globex/toolsets/reviews", made("Ours now", "Third words")).await.expect(200);
        assert_eq!(renamed["adoptedFrom"], copy["adoptedFrom"]);
    }

    async fn a_copy_gets_an_id_of_its_own(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        install(&ada, "acme", &full("weather")).await;
        publish(&ada, "acme", "weather", "weather-tools").await.expect(200);
        let adopt = |body: Value| async { adopt(&ada, "acme", "weather-tools", body).await };
        // Into the organisation that published it, too: its id is taken there.
        assert_eq!(adopt(json!({})).await.expect(201)["id"], "weather-1");
        let second = adopt(json!({ "name": "  ", "description": "" })).await.expect(201);
        assert_eq!((&second["id"], &second["name"], &second["description"]), (&json!("weather-2"), &json!("A toolset"), &Value::Null));
        let names: Vec<&str> = second["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["forecast", "Tell"], "what it says of its own tools follows its id");
        let overrides = ada.get("/v1/orgs/acme/toolsets/weather-2/overrides").await.expect(200);
        let keys: Vec<&str> = overrides["items"].as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["weather-2:forecast", "weather-2:report", "files:read_*"]);
        for taken in ["weather", "weather-1"] {
            adopt(json!({ "id": taken })).await.expect_error(409, "CONFLICT");
        }
        for bad in [json!({ "id": "mcp" }), json!({ "id": "No Id" }), json!({ "id": "files" }), json!({ "name": "a\nb" }), json!({ "visibility": "private" }),
            json!({ "organizationId": "globex" }), json!([])] {
            adopt(bad).await.expect_error(400, "BAD_REQUEST");
        }
        assert_eq!(ada.get("/v1/orgs/acme/toolsets").await.expect(200)["items"].as_array().unwrap().len(), 3);
    }

    /// What the person of a machine wrote out for themselves is not for everybody.
    async fn no_secret_is_published(database: TestDatabase) {
        const SECRET: &str = "hunter2-and-more";
        let server = serve(&database);
        let bob = owner(&server, "globex").await;
        let servers = format!("mcp_servers:
  - {{id: files, command: nopx, env: {{LITERAL: {SECRET}, MIXED: 'Bearer ${{TOKEN}}', EMPTY: '', plain: '${{lower}}'}}}}
  - {{id: web, url: 'https://mcp.example.org/mcp', headers: {{Authorization: 'Bearer {SECRET}'}}}}
");
        import(&server, "?sourceRef=/home/ada/private&sourceType=local", &toolset("app", &servers)).await.expect(201);
        server.post(&format!("{TOOLSETS}/app/publish"), &json!({ "publicSlug": "literals" })).await.expect(200);
        let shown = bob.get(&format!("{GALLERY}/literals")).await.expect(200);
        assert!(!shown.to_string().contains("ada") && !shown.to_string().contains(SECRET), "{shown}");
        let kept = bundles(&database);
        assert_eq!(kept.len(), 1);
        let bytes = std::fs::read(&kept[0]).unwrap();
        assert_eq!(kept[0].file_name().unwrap().to_str().unwrap(), sha256(&bytes), "it is kept by its hash");
        for (path, (_, content)) in unpacked(&bytes) {
            assert!(!String::from_utf8_lossy(&content).contains(SECRET), "{path} tells it");
        }
        let made = manifest_of(&bytes);
        for line in ["LITERAL: ${ENV:LITERAL}", "MIXED: ${ENV:MIXED}", "plain: ${ENV:LOWER}", "Authorization: ${ENV:AUTHORIZATION}"] {
            assert!(made.replace(['"', '\''], "").contains(line), "{line} is not in\n{made}");
        }
        // So an organisation that may keep no values can adopt it.
        assert_eq!(adopt(&bob, "globex", "literals", json!({})).await.expect(201)["id"], "app");

        for (id, fields, part) in [
            ("arguments", "command: x, args: [--api-key, hunter2]", "argument 2"),
            ("address", "url: 'https://a.example/mcp/sk-ant-api03-hunter2hunter2'", "the URL"),
            ("folder", "command: x, cwd: '/data/token=hunter2'", "cwd"),
        ] {
            let servers = format!("mcp_servers: [{{id: srv, {fields}}}]\n");
            import(&server, "", &toolset(id, &servers)).await.expect(201);
            let refused = server.post(&format!("{TOOLSETS}/{id}/publish"), &json!({ "publicSlug": "loud-one" })).await;
            refused.expect_error(409, "CONFLICT");
            let message = refused.body["message"].as_str().unwrap();
            assert!(message.contains(part) && !message.contains("hunter2"), "{message}");
            server.post(&format!("{TOOLSETS}/{id}/publish"), &json!({ "publicSlug": "loud-one", "force": true })).await.expect_error(400, "BAD_REQUEST");
        }
        // Nor is one in what everybody reads: descriptions, skills, code.
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let skill = format!("---\nname: sky\ndescription: Up.\n---\nLook.\nUse {token}.\n");
        let code = format!("TOKEN = \"{token}\"\ndef f(workspace): pass\n");
        for (id, more, files, part) in [
            ("described", format!("description: Mine is {token}\n"), [("tools/t.py", ""), ("a.txt", "")], "toolset.yaml:"),
            ("skilled", String::new(), [("skills/sky/SKILL.md", skill.as_str()), ("a.txt", "")], "skills/sky/SKILL.md:6 (GitHub token)"),
            ("coded", String::new(), [("tools/t.py", code.as_str()), ("a.txt", "password = example")], "tools/t.py:1 (GitHub token)"),
        ] {
            let files: Vec<(&str, &str)> = files.into_iter().collect();
            let written = manifest(id, "1.0.0", &more);
            let all: Vec<(&str, &str)> = std::iter::once(("toolset.yaml", written.as_str())).chain(files).collect();
            import(&server, "", &bundle(&all)).await.expect(201);
            let refused = server.post(&format!("{TOOLSETS}/{id}/publish"), &json!({ "publicSlug": "loud-one" })).await;
            refused.expect_error(409, "CONFLICT");
            let message = refused.body["message"].as_str().unwrap();
            assert!(message.contains(part) && !message.contains(&token) && !message.contains("a.txt"), "{message}");
        }
        // A folder of the publisher's machine is nobody else's.
        import(&server, "", &toolset("placed", "mcp_servers: [{id: srv, command: x, cwd: /home/ada/garden}]\n")).await.expect(201);
        server.post(&format!("{TOOLSETS}/placed/publish"), &json!({ "publicSlug": "placed-one" })).await.expect(200);
        let copies: Vec<_> = bundles(&database).into_iter().filter(|path| !kept.contains(path)).collect();
        assert!(!manifest_of(&std::fs::read(&copies[0]).unwrap()).contains("garden"));
        server.post(&format!("{TOOLSETS}/placed/unpublish"), &json!({})).await.expect(200);
        assert_eq!(slugs(&bob.get(GALLERY).await.expect(200)), ["literals"]);
        assert_eq!(bundles(&database), kept, "what was refused leaves nothing");
        assert!(!server.log().contains(SECRET));
    }

    async fn of_two_organisations_one_gets_the_name(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "globex").await);
        install(&ada, "acme", &toolset("app", "description: Of one\n")).await;
        install(&bob, "globex", &toolset("app", "description: Of the other\n")).await;
        for round in 0..5 {
            let slug = format!("wanted-{round}");
            let (a, b) = tokio::join!(publish(&ada, "acme", "app", &slug), publish(&bob, "globex", "app", &slug));
            let (winner, org, loser) = if a.status == 200 { (&ada, "acme", &b) } else { (&bob, "globex", &a) };
            assert_eq!(if a.status == 200 { &a } else { &b }.status, 200);
            loser.expect_error(409, "PUBLIC_SLUG_CONFLICT");
            let shown = ada.get(&format!("{GALLERY}/{slug}")).await.expect(200);
            assert_eq!(shown["description"], if org == "acme" { "Of one" } else { "Of the other" });
            assert_eq!(bundles(&database).len(), 1, "the other one left nothing");
            unpublish(winner, org, "app").await.expect(200);
            assert!(bundles(&database).is_empty());
        }
    }

    async fn a_bundle_stays_as_long_as_somebody_needs_it(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "globex").await);
        for (who, org, slug) in [(&ada, "acme", "of-acme"), (&bob, "globex", "of-globex")] {
            install(who, org, &full("weather")).await;
            publish(who, org, "weather", slug).await.expect(200);
        }
        assert_eq!(bundles(&database).len(), 1, "the same bytes are kept once");
        unpublish(&ada, "acme", "weather").await.expect(200);
        adopt(&bob, "globex", "of-globex", json!({ "id": "copy" })).await.expect(201);
        let cookie = bob.cookie.clone();
        drop(server);

        // A server that was killed between a bundle and its rows left a bundle; and somebody damaged the other one.
        let kept = bundles(&database).remove(0);
        let left = database.data().join("gallery/ab").join(format!("ab{}", "0".repeat(62)));
        std::fs::create_dir_all(left.parent().unwrap()).unwrap();
        std::fs::write(&left, "half of it").unwrap();
        std::fs::write(&kept, "another").unwrap();
        if let Some(bucket) = database.bucket() {
            let name = kept.file_name().unwrap().to_str().unwrap();
            bucket.open().folder("gallery").put_bytes(name, "another".into()).await.unwrap();
        }
        let server = serve(&database);
        assert_eq!(bundles(&database), [kept]);
        // Cookies are named by the port.
        let bob = Browser { server: &server, cookie: renamed(&cookie, &server) };
        adopt(&bob, "globex", "of-globex", json!({ "id": "damaged" })).await.expect_error(500, "BLOB_CORRUPT");
        bob.get("/v1/orgs/globex/toolsets/damaged").await.expect_error(404, "TOOLSET_NOT_FOUND");
        // Published again it is whole again.
        unpublish(&bob, "globex", "weather").await.expect(200);
        assert!(bundles(&database).is_empty());
        publish(&bob, "globex", "weather", "of-globex").await.expect(200);
        adopt(&bob, "globex", "of-globex", json!({ "id": "mended" })).await.expect(201);
        // Uninstalled without a word to the gallery, it is in nobody's way.
        unpublish(&bob, "globex", "weather").await.expect(200);
        bob.delete("/v1/orgs/globex/toolsets/weather").await.expect(204);
        assert_eq!(slugs(&bob.get(GALLERY).await.expect(200)), [""; 0]);
    }

    /// Nobody vouches for what comes from the gallery, whoever published it.
    async fn an_adopted_server_starts_when_it_is_trusted(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        let place = tempfile::tempdir().unwrap();
        let mark = place.path().join("started");
        let launch = format!("mcp_servers: [{{id: srv, command: touch, args: ['{}']}}]\n", mark.display());
        install(&ada, "acme", &toolset("app", &launch)).await;
        ada.post("/v1/orgs/acme/toolsets/app/trust", json!({})).await.expect(200);
        publish(&ada, "acme", "app", "starter").await.expect(200);
        let copy = server.post("/v1/orgs/local/toolset-gallery/starter/adopt", &json!({})).await.expect(201);
        assert_eq!((&copy["id"], &copy["trusted"], &copy["mcpServers"][0]["status"]), (&json!("app"), &json!(false), &json!("needs_trust")));
        let at = "/v1/orgs/local/mcp-servers/app~srv";
        server.post(&format!("{at}/reconnect"), &json!({})).await.expect_error(409, "NEEDS_TRUST");
        server.post(&format!("{at}/test"), &json!({})).await.expect_error(409, "NEEDS_TRUST");
        assert!(!mark.exists());
        server.post(&format!("{at}/trust"), &json!({})).await.expect(200);
        server.post(&format!("{at}/reconnect"), &json!({})).await;
        assert!(mark.exists(), "else this test proves nothing");
    }

    async fn words_find_what_is_published(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        let text = |name: &str, description: &str, more: &str| format!("id: {name}\nname: {name}\nversion: 1.0.0\ndescription: {description}\n{more}");
        for (id, slug, description, more) in [
            ("rainfall", "rain-one", "Counts drops", ""),
            ("garden", "garden", "When to water, by the rain", ""),
            ("letters", "letters", "Writes them", "tools: [{id: rain_check, entrypoint: 't:f'}]\n"),
            ("sums", "sums", "Adds numbers", ""),
            ("more-sums", "more-sums", "Adds more numbers", ""),
        ] {
            install(&ada, "acme", &bundle(&[("toolset.yaml", &text(id, description, more)), ("tools/t.py", "def f(workspace): pass\n")])).await;
            publish(&ada, "acme", id, slug).await.expect(200);
        }
        let get = |query: String| { let ada = &ada; async move { ada.get(&format!("{GALLERY}{query}")).await } };
        // Without words: the newest first, part by part.
        let mut found: Vec<String> = Vec::new();
        let mut query = "?limit=2".to_owned();
        let mut plain_cursor = String::new();
        loop {
            let part = get(query).await.expect(200);
            found.extend(slugs(&part).into_iter().map(ToOwned::to_owned));
            let Some(cursor) = part["nextCursor"].as_str() else { break };
            plain_cursor = cursor.to_owned();
            query = format!("?limit=2&cursor={cursor}");
        }
        assert_eq!(found, ["more-sums", "sums", "letters", "garden", "rain-one"]);
        assert_eq!(get("?q=%20".to_owned()).await.expect(200)["items"].as_array().unwrap().len(), 5, "no words are no search");
        // With words: names before descriptions, the same on both databases.
        let all = get("?q=Rain".to_owned()).await.expect(200);
        assert_eq!(slugs(&all), ["rain-one", "letters", "garden"]);
        assert_eq!(all["nextCursor"], Value::Null);
        let first = get("?q=rain&limit=2".to_owned()).await.expect(200);
        let cursor = first["nextCursor"].as_str().unwrap();
        assert_eq!(slugs(&get(format!("?q=rain&limit=2&cursor={cursor}")).await.expect(200)), ["garden"]);
        assert_eq!(slugs(&get("?q=nowhere".to_owned()).await.expect(200)), [""; 0]);
        // A cursor is of one list.
        let tools = ada.get("/v1/orgs/acme/toolsets?limit=1").await.expect(200)["nextCursor"].as_str().unwrap().to_owned();
        for forged in [format!("?q=sums&cursor={cursor}"), format!("?cursor={cursor}"), format!("?q=rain&cursor={plain_cursor}"),
            format!("?cursor={tools}"), "?cursor=abc".to_owned(), "?q=rain&cursor=".to_owned(), "?limit=0".to_owned(), "?limit=201".to_owned(),
            "?org=acme".to_owned(), format!("?q={}", "x".repeat(501))] {
            get(forged).await.expect_error(400, "BAD_REQUEST");
        }
        // What is taken back is found no more, and what comes is.
        unpublish(&ada, "acme", "rainfall").await.expect(200);
        assert_eq!(slugs(&get("?q=rain".to_owned()).await.expect(200)), ["letters", "garden"]);
        publish(&ada, "acme", "rainfall", "rain-two").await.expect(200);
        assert_eq!(slugs(&get("?q=rain".to_owned()).await.expect(200)), ["rain-two", "letters", "garden"]);
    }

    /// A person who is a member of both acts in the organisation of the path alone.
    async fn the_path_says_whose_it_is(database: TestDatabase) {
        let server = serve(&database);
        let store = database.open().await;
        let other = add_organization(&store, "other").await;
        let (manage, read) = (add_token(&store, &other, "use manage").await, add_token(&store, &other, "use").await);
        let local = add_token(&store, &OrgId::local(), "use").await;
        store.close().await;
        import(&server, "", &toolset("app", "")).await.expect(201);
        server.post(&format!("{TOOLSETS}/app/publish"), &json!({ "publicSlug": "the-app" })).await.expect(200);
        let post = |token: &str, path: &str| {
            Answer::of(server.anonymous(Method::POST, path).bearer_auth(token).json(&json!({ "publicSlug": "mine" })))
        };
        for (token, org, status, code) in [
            (&manage, "local", 404, "NOT_FOUND"), (&read, "local", 404, "NOT_FOUND"), (&local, "local", 403, "FORBIDDEN"),
            (&manage, "other", 404, "TOOLSET_NOT_FOUND"), (&read, "other", 403, "FORBIDDEN"),
        ] {
            post(token, &format!("/v1/orgs/{org}/toolsets/app/publish")).await.expect_error(status, code);
        }
        let adopt = format!("{}/the-app/adopt", "/v1/orgs/other/toolset-gallery");
        let copy = Answer::of(server.anonymous(Method::POST, &adopt).bearer_auth(&manage).json(&json!({}))).await.expect(201);
        assert_eq!(copy["id"], "app");
        Answer::of(server.anonymous(Method::POST, &adopt).bearer_auth(&read).json(&json!({}))).await.expect_error(403, "FORBIDDEN");
    }
}

/// The same cookie for a server on another port.
fn renamed(cookie: &str, server: &Server) -> String {
    let port = server.url.rsplit_once(':').unwrap().1;
    format!("kitbag_{port}={}", cookie.split_once('=').unwrap().1)
}
