//! The skills of toolsets, over the protocol: the suite's scenarios, and what it does not look at.

use kitbag_testkit::{Server, TestDatabase, sha256};
use serde_json::{Value, json};

use crate::conformance::{Fixture, skills_conform};
use crate::kit::{TOOLSETS, at, bundle, connected, import};
use crate::speaker::{NEWEST, Speaker};
use crate::{BINARY, serve};

const PDF: &str = "---\nname: pdf-forms\ndescription: Fills forms. Use it for PDF files.\nlicense: MIT\nmetadata:\n  author: somebody\n  version: \"1.0\"\n---\n\n# Forms\n\nRead reference/fields.md first.\n";
const NOTES: &str = "---\nname: notes\ndescription: Takes notes.\n---\nWrite them down.\n";
const OFF: &str = "---\nname: secret\ndescription: Nobody is to see it.\n---\nShh.\n";

/// A toolset with two skills that are on and one that is off, and no tools.
fn kit(id: &str) -> Vec<u8> {
    let more =
        "skills:\n  - id: pdf-forms\n  - id: minutes\n    path: skills/notes\n  - id: secret\n    enabled: false\n";
    let files = [
        ("skills/pdf-forms/SKILL.md", PDF),
        ("skills/pdf-forms/reference/fields.md", "# Fields\n"),
        ("skills/pdf-forms/reference/deep/a b#1.txt", "deep\n"),
        ("skills/pdf-forms/scripts/fill.py", "print('fill')\n"),
        ("skills/notes/SKILL.md", NOTES),
        ("skills/notes/templates/one.txt", "one\n"),
        ("skills/secret/SKILL.md", OFF),
        ("elsewhere.txt", "no skill's\n"),
    ];
    bundle(id, "1.0.0", more, &files)
}

fn endpoint(id: &str) -> String {
    format!("{TOOLSETS}/{id}/mcp")
}

fn texts<'v>(list: &'v Value, field: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().filter_map(|entry| entry[field].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_finds_nothing_wrong_with_them() {
    let database = TestDatabase::sqlite();
    let server = Server::start(BINARY, &database, &["--no-auth"]);
    import(&server, kit("kit")).await;
    for path in [endpoint("kit"), "/mcp".to_owned()] {
        skills_conform(&format!("{}{path}", server.url)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_both_eras_find_them() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    import(&server, kit("kit")).await;
    for path in [endpoint("kit"), "/mcp".to_owned()] {
        for mut speaker in Speaker::both(&server, &path).await {
            let offered = &speaker.hello["capabilities"];
            assert_eq!(offered["extensions"]["io.modelcontextprotocol/skills"], json!({ "directoryRead": true }));
            assert!(offered["resources"].is_object() && offered["prompts"].is_object(), "{offered}");

            let list = speaker.ask("skills/list", json!({})).await;
            let [pdf, notes] = list["skills"].as_array().unwrap().as_slice() else { panic!("{list}") };
            assert_eq!(list.get("ttlMs").is_some(), speaker.is_newest(), "{list}");
            assert_eq!(pdf["uri"], "skill://kit/pdf-forms/SKILL.md");
            // Its name is not what its toolset calls it: the folder's address ends in the name.
            assert_eq!(notes["uri"], "skill://kit/minutes/notes/SKILL.md");
            let front = json!({
                "name": "pdf-forms", "description": "Fills forms. Use it for PDF files.", "license": "MIT",
                "metadata": { "author": "somebody", "version": "1.0" },
            });
            assert_eq!(pdf["frontmatter"], front);
            let file = |uri: &str, text: &str| {
                let digest = format!("sha256:{}", sha256(text.as_bytes()));
                json!({ "uri": format!("skill://kit/pdf-forms/{uri}"), "digest": digest, "size": text.len() })
            };
            let files = json!([
                file("SKILL.md", PDF),
                file("reference/deep/a%20b%231.txt", "deep\n"),
                file("reference/fields.md", "# Fields\n"),
                file("scripts/fill.py", "print('fill')\n"),
            ]);
            assert_eq!(pdf["resources"], files);
            assert_eq!(speaker.ask("skills/get", json!({ "uri": pdf["uri"] })).await["skill"], *pdf);

            // Every file that is listed can be read, and is what was listed.
            for entry in [pdf, notes].into_iter().flat_map(|skill| skill["resources"].as_array().unwrap()) {
                let read = speaker.ask("resources/read", json!({ "uri": entry["uri"] })).await;
                let content = &read["contents"][0];
                assert_eq!(content["uri"], entry["uri"]);
                let text = content["text"].as_str().unwrap();
                assert_eq!(entry["digest"], format!("sha256:{}", sha256(text.as_bytes())));
            }
            let resources = speaker.ask("resources/list", json!({})).await["resources"].clone();
            assert_eq!(texts(&resources, "uri"), [pdf["uri"].as_str().unwrap(), notes["uri"].as_str().unwrap()]);
            assert_eq!(resources[0]["mimeType"], "text/markdown");

            let folder = speaker.ask("resources/directory/read", json!({ "uri": "skill://kit/pdf-forms" })).await;
            assert_eq!(texts(&folder["resources"], "name"), ["SKILL.md", "reference", "scripts"]);
            assert_eq!(folder["resources"][1]["mimeType"], "inode/directory");
            let below = json!({ "uri": folder["resources"][1]["uri"] });
            let below = speaker.ask("resources/directory/read", below).await;
            assert_eq!(texts(&below["resources"], "name"), ["deep", "fields.md"]);

            let prompts = speaker.ask("prompts/list", json!({})).await["prompts"].clone();
            assert_eq!(texts(&prompts, "name"), ["skill__kit__pdf-forms", "skill__kit__minutes"]);
            let prompt = speaker.ask("prompts/get", json!({ "name": "skill__kit__pdf-forms" })).await;
            let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
            assert!(text.starts_with(PDF) && text.contains("- skill://kit/pdf-forms/scripts/fill.py\n"), "{text}");

            let missing = if speaker.is_newest() { -32602 } else { -32002 };
            for uri in [
                "skill://kit/secret/SKILL.md",
                "skill://kit/pdf-forms",
                "skill://kit/pdf-forms/none.md",
                "skill://kit/pdf-forms/../notes/SKILL.md",
                "skill://kit/pdf-forms/%2e%2e/notes/SKILL.md",
                "skill://kit/pdf-forms/..%2f..%2felsewhere.txt",
                "skill://other/pdf-forms/SKILL.md",
            ] {
                assert_eq!(speaker.refused("resources/read", json!({ "uri": uri })).await, missing, "{uri}");
            }
            for uri in ["skill://kit/secret/SKILL.md", "skill://kit/pdf-forms/reference/fields.md", "x"] {
                assert_eq!(speaker.refused("skills/get", json!({ "uri": uri })).await, -32602, "{uri}");
            }
            for uri in
                ["skill://kit/secret", "skill://kit/pdf-forms/SKILL.md", "skill://kit/pdf-forms/none", "skill://kit"]
            {
                let code = speaker.refused("resources/directory/read", json!({ "uri": uri })).await;
                assert_eq!(code, -32602, "{uri}");
            }
            assert_eq!(speaker.refused("skills/list", json!({ "cursor": "odd" })).await, -32602);
            assert_eq!(speaker.refused("prompts/get", json!({ "name": "skill__kit__secret" })).await, -32602);
        }
    }
}

/// Lists of toolsets hold for skills too; and a toolset that has nothing else is there for them.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_narrows_them() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    import(&server, kit("one")).await;
    import(&server, kit("two")).await;
    for (query, found) in [
        ("", vec!["skill__one__pdf-forms", "skill__one__minutes", "skill__two__pdf-forms", "skill__two__minutes"]),
        ("?toolsets=two", vec!["skill__two__pdf-forms", "skill__two__minutes"]),
        ("?toolsets=builtin", vec![]),
        ("?disabled_tools=toolset:one", vec!["skill__two__pdf-forms", "skill__two__minutes"]),
        ("?toolsets=builtin&enabled_tools=toolset:one", vec!["skill__one__pdf-forms", "skill__one__minutes"]),
    ] {
        for mut speaker in Speaker::both(&server, &format!("/mcp{query}")).await {
            let prompts = speaker.ask("prompts/list", json!({})).await;
            assert_eq!(texts(&prompts["prompts"], "name"), found, "{query}");
            let skills = speaker.ask("skills/list", json!({})).await["skills"].as_array().unwrap().len();
            assert_eq!(skills, found.len(), "{query}");
        }
    }
    server.post(&format!("{TOOLSETS}/one/enable"), &json!({ "enabled": false })).await.expect(200);
    for mut speaker in Speaker::both(&server, "/mcp").await {
        let list = speaker.ask("skills/list", json!({})).await;
        let wanted = ["skill://two/pdf-forms/SKILL.md", "skill://two/minutes/notes/SKILL.md"];
        assert_eq!(texts(&list["skills"], "uri"), wanted);
    }
}

/// More than fit on a page come on several, each skill once.
#[tokio::test(flavor = "multi_thread")]
async fn many_come_in_pages() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let all: Vec<(String, String)> = (0..120)
        .map(|n| (format!("skills/s{n:03}/SKILL.md"), format!("---\nname: s{n:03}\ndescription: Number {n}.\n---\n")))
        .collect();
    let files: Vec<(&str, &str)> = all.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    import(&server, bundle("many", "1.0.0", "", &files)).await;
    for mut speaker in Speaker::both(&server, "/mcp").await {
        let (mut found, mut params, mut pages) = (Vec::new(), json!({}), 0);
        loop {
            let page = speaker.ask("skills/list", params).await;
            found.extend(texts(&page["skills"], "uri").into_iter().map(str::to_owned));
            pages += 1;
            let Some(next) = page.get("nextCursor") else { break };
            params = json!({ "cursor": next });
        }
        let wanted: Vec<String> = (0..120).map(|n| format!("skill://many/s{n:03}/SKILL.md")).collect();
        assert_eq!((found, pages), (wanted, 3));
    }
}

/// A toolset may have a server beside its skills: what both have is found in one place, and ours also while that is not there.
#[tokio::test(flavor = "multi_thread")]
async fn a_servers_own_skills_are_beside_them() {
    let behind = Fixture::start("stateless").await;
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let more = format!("mcp_servers:\n  - id: far\n    type: streamable-http\n    url: {}\n", behind.url);
    import(&server, bundle("kit", "1.0.0", &more, &[("skills/notes/SKILL.md", NOTES)])).await;
    let ours = "skill://kit/notes/SKILL.md";
    for mut speaker in Speaker::both(&server, &endpoint("kit")).await {
        let prompts = speaker.ask("prompts/list", json!({})).await;
        assert_eq!(texts(&prompts["prompts"], "name"), ["skill__kit__notes"]);
        let skills = speaker.ask("skills/list", json!({})).await;
        assert_eq!(texts(&skills["skills"], "uri"), [ours]);
    }
    let shown = server.get(&at("kit~far")).await.expect(200);
    let trust = json!({ "fingerprint": shown["fingerprint"] });
    server.post(&format!("{}/trust", at("kit~far")), &trust).await.expect(200);
    connected(&server, "kit~far").await;
    for (path, far) in [(endpoint("kit"), ""), ("/mcp".to_owned(), "kitbag-mcp:kit~far/")] {
        for mut speaker in Speaker::both(&server, &path).await {
            let prompts = speaker.ask("prompts/list", json!({})).await;
            let names = texts(&prompts["prompts"], "name");
            assert!(names.contains(&"skill__kit__notes") && names.len() > 1, "{prompts}");
            let skills = speaker.ask("skills/list", json!({})).await;
            let [first, theirs] = skills["skills"].as_array().unwrap().as_slice() else { panic!("{skills}") };
            assert_eq!(first["uri"], ours);
            let uri = theirs["uri"].as_str().unwrap();
            assert!(uri.starts_with(&format!("{far}skill://")), "{uri}");
            let got = speaker.ask("skills/get", json!({ "uri": uri })).await;
            assert_eq!(got["skill"], *theirs);
            for uri in texts(&theirs["resources"], "uri").into_iter().chain([ours]) {
                let read = speaker.ask("resources/read", json!({ "uri": uri })).await;
                assert_eq!(read["contents"][0]["uri"], uri);
            }
            let folder = uri.strip_suffix("/SKILL.md").unwrap();
            let folder = speaker.ask("resources/directory/read", json!({ "uri": folder })).await;
            let below = texts(&folder["resources"], "uri");
            assert!(below.contains(&uri), "{folder}");
        }
    }
}

/// Who listens hears that there are others, and nothing of what it did not ask for.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_hears_of_new_ones() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    import(&server, bundle("kit", "1.0.0", "", &[("skills/notes/SKILL.md", NOTES)])).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST, "io.modelcontextprotocol/clientCapabilities": {},
    });
    let wanted = json!({ "promptsListChanged": true, "resourcesListChanged": true });
    let body = json!({
        "jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": { "_meta": meta, "notifications": wanted },
    });
    let request = server.request(reqwest::Method::POST, "/mcp").json(&body);
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", NEWEST).header("mcp-method", "subscriptions/listen");
    let mut stream = request.send().await.unwrap();
    let mut heard = String::new();
    let mut until = async |word: &str| {
        while !heard.contains(word) {
            heard.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().expect("it goes on")).unwrap());
        }
        std::mem::take(&mut heard)
    };
    until("notifications/subscriptions/acknowledged").await;
    // The tools are others than before; the skills are not.
    import(&server, bundle("tools", "1.0.0", "", &[("readme.txt", "nothing")])).await;
    import(&server, bundle("more", "1.0.0", "", &[("skills/other/SKILL.md", &NOTES.replace("notes", "other"))])).await;
    let said = until("notifications/resources/list_changed").await;
    assert_eq!(said.matches("notifications/prompts/list_changed").count(), 1, "{said}");
    assert!(!said.contains("notifications/tools/list_changed"), "{said}");
}
