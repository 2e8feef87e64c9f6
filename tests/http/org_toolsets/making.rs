//! Making toolsets, and everything that is refused.

use kitbag_testkit::on_both;
use reqwest::{Method, header};
use serde_json::{Value, json};

use super::{ACME, People, problems, skill, stdio, toolset, with};
use crate::serve;

on_both! {
    /// The rows of the facts about making, reading and removing toolsets, by each role and from outside.
    async fn writing_needs_owner_or_admin_and_members_read(database: TestDatabase) {
        let server = serve(&database);
        let acme = People::of(&server, "acme").await;
        let other = People::of(&server, "other").await;
        let made = acme.owner.post(ACME, toolset("My Tools!")).await.expect(201);
        assert_eq!((&made["id"], &made["version"], &made["visibility"]), (&json!("my-tools"), &json!("1.0.0"), &json!("org")));
        assert_eq!((&made["sourceType"], &made["userMcp"], &made["publicSlug"]), (&json!("local"), &json!(false), &Value::Null));
        assert_eq!(made["mcpServers"][0]["id"], "my-tools~github");
        assert_eq!(made["mcpServers"][0]["env"], json!({ "TOKEN": "${ENV:TEST_TOKEN}" }));
        assert_eq!(made["mcpServers"][0]["trusted"], true, "who writes a server has seen what it starts");
        assert_eq!(made["agentSkills"], json!([
            { "id": "pdf-tools", "name": "pdf-tools", "description": "What pdf-tools is for.", "path": "skills/pdf-tools", "enabled": true },
        ]));
        assert_eq!(acme.admin.post(ACME, toolset("My Tools!")).await.expect(201)["id"], "my-tools-1");
        let one = format!("{ACME}/my-tools");
        for body in [toolset("x"), json!({})] {
            acme.member.post(ACME, body.clone()).await.expect_error(403, "FORBIDDEN");
            acme.member.put(&one, body).await.expect_error(403, "FORBIDDEN");
        }
        acme.member.delete(&one).await.expect_error(403, "FORBIDDEN");
        for somebody in [&acme.owner, &acme.admin, &acme.member] {
            let listed = somebody.get(ACME).await.expect(200);
            let ids: Vec<&str> = listed["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
            assert_eq!(ids, ["my-tools", "my-tools-1"]);
            let seen = somebody.get(&one).await.expect(200);
            assert_eq!(seen["name"], "My Tools!");
        }
        // References are for who could write them.
        assert_eq!(acme.member.get(&one).await.expect(200)["mcpServers"][0]["env"], Value::Null);
        for path in [ACME, &one] {
            other.owner.get(path).await.expect_error(404, "NOT_FOUND");
            kitbag_testkit::Answer::of(server.anonymous(Method::GET, path)).await.expect_error(401, "UNAUTHORIZED");
        }
        other.owner.put(&one, toolset("x")).await.expect_error(404, "NOT_FOUND");
        other.owner.delete(&one).await.expect_error(404, "NOT_FOUND");
        // The same id in the other organisation is another toolset.
        let theirs = "/v1/orgs/other/toolsets/my-tools";
        other.owner.put(theirs, json!({ "name": "x" })).await.expect_error(404, "TOOLSET_NOT_FOUND");
        other.owner.delete(theirs).await.expect_error(404, "TOOLSET_NOT_FOUND");
        other.owner.post("/v1/orgs/other/toolsets", json!({ "name": "My Tools!" })).await.expect(201);
        acme.admin.delete(&one).await.expect(204);
        acme.admin.delete(&one).await.expect_error(404, "TOOLSET_NOT_FOUND");
        acme.member.get(&one).await.expect_error(404, "TOOLSET_NOT_FOUND");
        other.member.get(theirs).await.expect_error(404, "TOOLSET_NOT_FOUND");
        assert_eq!(other.owner.get(theirs).await.expect(200)["visibility"], "private", "what a new one is if nothing is said");
    }

    async fn ids_are_given_or_made(database: TestDatabase) {
        let server = serve(&database);
        let owner = crate::browsers::owner(&server, "acme").await;
        let make = async |body: Value| owner.post(ACME, body).await;
        assert_eq!(make(json!({ "id": "mine", "name": "A" })).await.expect(201)["id"], "mine");
        make(json!({ "id": "mine", "name": "A" })).await.expect_error(409, "CONFLICT");
        assert_eq!(make(json!({ "name": "mine" })).await.expect(201)["id"], "mine-1");
        assert_eq!(make(json!({ "name": "世界" })).await.expect(201)["id"], "my-toolset");
        assert_eq!(make(json!({ "name": "All" })).await.expect(201)["id"], "all-1", "all is reserved");
        for (id, ok) in [
            ("0x", true), ("a_b-c", true), (&*"a".repeat(64), true), ("ext__mcp", true),
            ("-a", false), ("_a", false), ("A", false), ("a.b", false), ("a b", false), ("", false), (&*"a".repeat(65), false),
            ("mcp", false), ("builtin", false), ("a~b", false), ("a:b", false),
        ] {
            let answer = make(json!({ "id": id, "name": "A" })).await;
            match ok {
                true => drop(answer.expect(201)),
                false => answer.expect_error(400, "BAD_REQUEST"),
            }
        }
        // In the organisation of one person everybody sees what it makes.
        let local = server.post("/v1/orgs/local/toolsets", &json!({ "name": "Mine" })).await.expect(201);
        assert_eq!(local["visibility"], "org");
    }

    /// The tables of names, lengths and counts. Each is refused alone, at its place.
    async fn what_is_too_long_too_many_or_misnamed_is_refused(database: TestDatabase) {
        let server = serve(&database);
        let owner = crate::browsers::owner(&server, "acme").await;
        let remote = |url: &str| json!({ "name": "web", "transport": "http", "url": url, "enabled": false });
        let server_with = |pointer: &str, part: Value| {
            json!({ "name": "T", "mcpServers": [with(stdio("a"), pointer, part)] })
        };
        let skill_with = |pointer: &str, part: Value| json!({ "name": "T", "agentSkills": [with(skill("a"), pointer, part)] });
        let text = |length: usize| json!("x".repeat(length));
        let long_url = |length: usize| format!("{:a<length$}", "https://mcp.example/");
        let (bad, skl) = ("BAD_REQUEST", "INVALID_SKILL_BUNDLE");
        let at = |part: &str| format!("mcpServers[0].{part}");
        let files = |count: usize| {
            let more = (1..count).map(|number| json!({ "path": format!("f/{number}"), "content": "x" }));
            let all: Vec<Value> = [skill("a")["files"][0].clone()].into_iter().chain(more).collect();
            Value::from(all)
        };
        let path = |path: &str| skill_with("/files/1/path", json!(path));
        let mut wrong = Vec::new();
        for (body, code, field) in [
            (json!({ "name": "" }), bad, "name".to_owned()),
            (json!({ "name": "x".repeat(121) }), bad, "name".to_owned()),
            (json!({ "name": "a\nb" }), bad, "name".to_owned()),
            (json!({}), bad, "name".to_owned()),
            (json!({ "name": "T", "description": "x".repeat(2001) }), bad, "description".to_owned()),
            (json!({ "name": "T", "visibility": "public" }), bad, "visibility".to_owned()),
            (json!({ "name": "T", "visibility": "everybody" }), bad, "visibility".to_owned()),
            (server_with("/id", json!("A")), bad, at("id")),
            (server_with("/id", json!("a.b")), bad, at("id")),
            (server_with("/id", text(65)), bad, at("id")),
            (server_with("/id", json!(5)), bad, at("id")),
            (server_with("/name", json!("other")), bad, at("name")),
            (server_with("/extra", json!(1)), bad, at("extra")),
            (server_with("/serverType", json!("ws")), bad, at("serverType")),
            (json!({ "name": "T", "mcpServers": [{ "name": "web", "transport": "http" }] }), bad, at("url")),
            (server_with("/command", json!(" ")), bad, at("command")),
            (server_with("/command", Value::Null), bad, at("command")),
            (server_with("/command", text(201)), bad, at("command")),
            (server_with("/args", json!(vec!["x"; 51])), bad, at("args")),
            (server_with("/args", json!([""])), bad, at("args[0]")),
            (server_with("/args", json!(["x".repeat(201)])), bad, at("args[0]")),
            (server_with("/args", json!("x")), bad, at("args")),
            (server_with("/args", json!([1])), bad, at("args[0]")),
            (server_with("/env", json!({ "A B": "${ENV:A}" })), bad, at("env.A B")),
            (server_with("/env", json!({ "": "${ENV:A}" })), bad, at("env.")),
            (server_with("/env", json!({ "A": 5 })), bad, at("env.A")),
            (server_with("/env", json!({ "A": null })), bad, at("env.A")),
            (server_with("/env", json!(["A"])), bad, at("env")),
            (server_with("/enabled", json!("yes")), bad, at("enabled")),
            (server_with("/description", text(2001)), bad, at("description")),
            (json!({ "name": "T", "mcpServers": ["npx"] }), bad, "mcpServers[0]".to_owned()),
            (json!({ "name": "T", "mcpServers": [{ "command": "npx" }] }), bad, at("id")),
            (json!({ "name": "T", "mcpServers": [{ "id": "a" }] }), bad, "mcpServers[0]".to_owned()),
            (json!({ "name": "T", "mcpServers": [remote(&long_url(2001))] }), bad, at("url")),
            (json!({ "name": "T", "mcpServers": [remote("ftp://mcp.example/")] }), bad, at("url")),
            (json!({ "name": "T", "mcpServers": [remote("nonsense")] }), bad, at("url")),
            (json!({ "name": "T", "mcpServers": [stdio("a"), stdio("b"), stdio("a")] }), "MCP_SERVER_NAME_CONFLICT", "mcpServers[2].id".to_owned()),
            (skill_with("/format", json!("v2")), skl, "agentSkills[0]".to_owned()),
            (skill_with("/id", json!("a_b")), skl, "agentSkills[0]".to_owned()),
            (skill_with("/id", json!("b")), skl, "agentSkills[0].files".to_owned()),
            (skill_with("/name", json!("")), skl, "agentSkills[0]".to_owned()),
            (skill_with("/name", text(121)), skl, "agentSkills[0]".to_owned()),
            (skill_with("/description", text(2001)), skl, "agentSkills[0]".to_owned()),
            (skill_with("/entry", json!("README.md")), skl, "agentSkills[0]".to_owned()),
            (skill_with("/extra", json!(1)), skl, "agentSkills[0]".to_owned()),
            (skill_with("/files", json!([])), skl, "agentSkills[0]".to_owned()),
            (skill_with("/files", json!([{ "path": "README.md", "content": "x" }])), skl, "agentSkills[0]".to_owned()),
            (skill_with("/files", files(513)), skl, "agentSkills[0]".to_owned()),
            (skill_with("/files", Value::Null), skl, "agentSkills[0].files".to_owned()),
            (skill_with("/files/0/content", json!("# No front matter")), skl, "agentSkills[0].files".to_owned()),
            (skill_with("/files/1/content", text(2_000_001)), skl, "agentSkills[0]".to_owned()),
            (skill_with("/files/1/encoding", json!("hex")), skl, "agentSkills[0]".to_owned()),
            (path("./a"), skl, "agentSkills[0]".to_owned()),
            (path("a/../b"), skl, "agentSkills[0]".to_owned()),
            (path("../a"), skl, "agentSkills[0]".to_owned()),
            (path("/a"), skl, "agentSkills[0]".to_owned()),
            (path("a\\b"), skl, "agentSkills[0]".to_owned()),
            (path("C:/x"), skl, "agentSkills[0]".to_owned()),
            (path("a//b"), skl, "agentSkills[0]".to_owned()),
            (path("a/"), skl, "agentSkills[0]".to_owned()),
            (path("a\u{0}b"), skl, "agentSkills[0]".to_owned()),
            (path(""), skl, "agentSkills[0]".to_owned()),
            (path(&format!("{}aa", "a/".repeat(100))), skl, "agentSkills[0]".to_owned()),
            (json!({ "name": "T", "agentSkills": [skill("a"), skill("a")] }), skl, "agentSkills[1].id".to_owned()),
        ] {
            let shown: String = body.to_string().chars().take(300).collect();
            let answer = owner.post(ACME, body).await;
            match answer.status.as_u16() {
                400 if answer.body["code"] == code && problems(&answer) == [format!("{code} {field}")] => {}
                _ => wrong.push((shown, code, field, answer.body)),
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        for (body, code) in [
            (json!({ "name": "T", "organizationId": "other" }), "BAD_REQUEST"),
            (json!({ "name": "T", "mcpServers": "sk-ant-0123456789" }), "BAD_REQUEST"),
            (json!({ "name": 5 }), "BAD_REQUEST"),
        ] {
            let answer = owner.post(ACME, body).await;
            answer.expect_error(400, code);
            assert!(!answer.body.to_string().contains("sk-ant"), "{answer:?}");
        }
        // As much as may be, and everything at once that is wrong.
        let most = json!({
            "name": "x".repeat(120), "description": "x".repeat(2000),
            "mcpServers": [
                with(with(stdio("a"), "/args", json!(vec!["x".repeat(200); 50])), "/command", text(200)),
                remote(&long_url(2000)),
                json!({ "id": "plain", "type": "sse", "url": "https://mcp.example/", "enabled": false }),
                json!({ "name": "short", "command": "npx", "enabled": false }),
            ],
            "agentSkills": [with(skill("a"), "/files", files(512))],
        });
        let made = owner.post(ACME, most).await.expect(201);
        let types: Vec<_> = made["mcpServers"].as_array().unwrap().iter().map(|one| one["serverType"].as_str().unwrap()).collect();
        assert_eq!(types, ["stdio", "streamable-http", "sse", "stdio"]);
        assert_eq!(made["files"].as_array().unwrap().len(), 512);
        let wrong = json!({
            "name": "", "visibility": "public", "mcpServers": [{ "id": "A", "command": "x".repeat(201) }, stdio("b"), { "id": "c", "env": { "K": "literal" } }],
            "agentSkills": [skill_with("/files/0/content", json!("x"))["agentSkills"][0].clone()],
        });
        let answer = owner.post(ACME, wrong).await;
        answer.expect_error(400, "BAD_REQUEST");
        assert_eq!(problems(&answer), [
            "BAD_REQUEST name", "BAD_REQUEST visibility", "BAD_REQUEST mcpServers[0].id", "INVALID_SKILL_BUNDLE agentSkills[0].files",
            "INVALID_MCP_PLACEHOLDER mcpServers[2].env.K", "BAD_REQUEST mcpServers[2]",
        ]);
        assert_eq!(owner.get(ACME).await.expect(200)["items"].as_array().unwrap().len(), 1);
    }

    async fn skills_and_files_are_read_again(database: TestDatabase) {
        let server = serve(&database);
        let acme = People::of(&server, "acme").await;
        acme.admin.post(ACME, toolset("T")).await.expect(201);
        let read = acme.member.get(&format!("{ACME}/t/skills/pdf-tools")).await.expect(200);
        let mut given = skill("pdf-tools");
        given["files"][0]["encoding"] = json!("utf8");
        given["files"].as_array_mut().unwrap().sort_by_key(|file| file["path"].as_str().unwrap().to_owned());
        assert_eq!(read["files"], given["files"]);
        assert_eq!((&read["format"], &read["entry"], &read["enabled"]), (&json!("agentskills-v1"), &json!("SKILL.md"), &json!(true)));
        assert_eq!(read["description"], "What pdf-tools is for.");
        acme.member.get(&format!("{ACME}/t/skills/nope")).await.expect_error(404, "NOT_FOUND");
        acme.member.get(&format!("{ACME}/nope/skills/pdf-tools")).await.expect_error(404, "TOOLSET_NOT_FOUND");

        let file = |path: &str| {
            let request = server.anonymous(Method::GET, &format!("{ACME}/t/files/{path}"));
            request.header(header::COOKIE, &acme.member.cookie).header("sec-fetch-site", "same-origin").send()
        };
        let answer = file("skills/pdf-tools/assets/logo.bin").await.unwrap();
        let headers = answer.headers().clone();
        assert_eq!(answer.status(), 200);
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers[header::CONTENT_TYPE], "application/octet-stream");
        assert!(headers[header::CONTENT_DISPOSITION].to_str().unwrap().starts_with("attachment;"));
        assert_eq!(answer.bytes().await.unwrap().as_ref(), [0x89, 0x50, 0xff]);
        for missing in ["skills/pdf-tools/nope", "..%2f..%2fkitbag.db", "skills"] {
            assert_eq!(file(missing).await.unwrap().status(), 404, "{missing}");
        }
        // What is made is a bundle like all others: another organisation can take it.
        let bundle = server.anonymous(Method::GET, &format!("{ACME}/t/export")).header(header::COOKIE, &acme.member.cookie);
        let bundle = bundle.header("sec-fetch-site", "same-origin").send().await.unwrap().bytes().await.unwrap();
        let other = crate::browsers::owner(&server, "other").await;
        let import = server.anonymous(Method::POST, "/v1/orgs/other/toolsets/import").header(header::COOKIE, &other.cookie);
        let import = import.header("sec-fetch-site", "same-origin").header(header::CONTENT_TYPE, "application/zip").body(bundle);
        let taken = kitbag_testkit::Answer::of(import).await.expect(201);
        assert_eq!(taken["toolset"]["mcpServers"][0]["trusted"], false, "trust does not travel");
        assert_eq!(taken["toolset"]["agentSkills"][0]["id"], "pdf-tools");
        let theirs = other.get("/v1/orgs/other/toolsets/t/skills/pdf-tools").await.expect(200);
        assert_eq!(theirs["files"], read["files"]);
    }

    async fn a_skill_is_checked_without_being_kept(database: TestDatabase) {
        let server = serve(&database);
        let acme = People::of(&server, "acme").await;
        let check = async |body: Value| acme.member.post("/v1/orgs/acme/skills/check", body).await.expect(200)["problems"].clone();
        assert_eq!(check(skill("a")).await, json!([]));
        let warned = check(with(skill("a"), "/files/0/content", json!("---\nname: a\ndescription: d\nversion: 1\n---\n"))).await;
        assert_eq!((&warned[0]["severity"], &warned[0]["path"], &warned[0]["line"]), (&json!("warning"), &json!("SKILL.md"), &json!(4)));
        let wrong = check(with(skill("a"), "/files/0/content", json!("---\nname: b\ndescription: d\n---\n"))).await;
        assert_eq!((&wrong[0]["severity"], &wrong[0]["line"], &wrong[0]["column"]), (&json!("error"), &json!(2), &json!(7)));
        let wrong = check(with(skill("a"), "/files/1/path", json!("../a"))).await;
        assert_eq!((&wrong[0]["severity"], &wrong[0]["path"]), (&json!("error"), &json!("../a")));
        assert_eq!(check(json!({})).await[0]["severity"], "error");
        assert_eq!(acme.owner.get(ACME).await.expect(200)["items"], json!([]));
    }
}

/// Skills may be large; bodies that are larger than all of that are not read.
#[tokio::test]
async fn large_bodies() {
    let database = kitbag_testkit::TestDatabase::sqlite();
    let server = serve(&database);
    let file = |number: usize| json!({ "path": format!("f/{number}"), "content": "x".repeat(1_990_000) });
    let mut files: Vec<Value> = (0..8).map(file).collect();
    files.push(skill("a")["files"][0].clone());
    let large = with(skill("a"), "/files", files.clone().into());
    let path = "/v1/orgs/local/toolsets";
    let made = server.post(path, &json!({ "name": "Large", "agentSkills": [large] })).await.expect(201);
    assert_eq!(made["files"].as_array().unwrap().len(), 9);
    files.push(file(9));
    let larger = json!({ "name": "Larger", "agentSkills": [with(skill("a"), "/files", files.into())] });
    server.post(path, &larger).await.expect_error(400, "INVALID_SKILL_BUNDLE");
    let largest = json!({ "name": "x".repeat(65 << 20) });
    server.post(path, &largest).await.expect_error(413, "PAYLOAD_TOO_LARGE");
}
