//! What is one organisation's is not there for another. That every route hides it is for `permissions.rs`.

use kitbag_model::{Action, NewChat};
use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::browsers::{Browser, owner};
use crate::events::Listener;
use crate::kit::on_disk;
use crate::{CHATS, new_chat, serve};

on_both! {
    async fn each_organisation_lists_its_own(database: TestDatabase) {
        let server = serve(&database);
        let mine = new_chat(&server).await;
        let store = database.open().await;
        let other = add_organization(&store, "other").await;
        let token = add_token(&store, &other, "use").await;
        let theirs = |method, path: &str| server.anonymous(method, path).bearer_auth(&token);
        let path = "/v1/orgs/other/chats";
        let made = Answer::of(theirs(Method::POST, path).json(&json!({}))).await.expect(201);
        let listed = Answer::of(theirs(Method::GET, path)).await.expect(200);
        assert_eq!((listed["items"][0]["id"].clone(), listed["nextCursor"].clone()), (made["id"].clone(), Value::Null));
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        // The id of a chat that is ours, in the path of theirs, names nothing.
        Answer::of(theirs(Method::GET, &format!("{path}/{mine}"))).await.expect_error(404, "NOT_FOUND");
        let cursor = server.get(&format!("{CHATS}?limit=1")).await.expect(200);
        assert_eq!(cursor["items"].as_array().unwrap().len(), 1);
    }

    /// However much others have, lists, their ends and their cursors are the caller's own.
    async fn a_thousand_rows_of_others_are_not_seen(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "other").await);
        let (store, other) = (database.open().await, "other".parse().unwrap());
        let mut tx = store.write(&other).await.unwrap();
        for number in 0..1000 {
            tx.create_chat(&NewChat::default()).await.unwrap();
            tx.audit("server", Action::ChatDeleted, &format!("theirs {number}"), &json!({})).await.unwrap();
        }
        tx.commit().await.unwrap();
        for _ in 0..30 {
            add_token(&store, &other, "use").await;
        }
        let own: Vec<Value> = {
            let mut made = Vec::new();
            for _ in 0..5 {
                made.push(ada.post("/v1/orgs/acme/chats", json!({})).await.expect(201)["id"].clone());
            }
            made.into_iter().rev().collect()
        };
        let ids = |listed: &Value| listed["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect::<Vec<_>>();
        let whole = ada.get("/v1/orgs/acme/chats?limit=5").await.expect(200);
        assert_eq!((ids(&whole), &whole["nextCursor"]), (own.clone(), &Value::Null), "the list ends where the own ones do");
        let first = ada.get("/v1/orgs/acme/chats?limit=2").await.expect(200);
        let rest = ada.get(&format!("/v1/orgs/acme/chats?cursor={}", first["nextCursor"].as_str().unwrap())).await.expect(200);
        assert_eq!(ids(&rest), own[2..]);
        // A cursor that another organisation was given is a place in a list, and the list is the caller's.
        let theirs = bob.get("/v1/orgs/other/chats?limit=200").await.expect(200);
        assert_eq!(ids(&theirs).len(), 200);
        let foreign = ada.get(&format!("/v1/orgs/acme/chats?cursor={}", theirs["nextCursor"].as_str().unwrap())).await.expect(200);
        assert!(ids(&foreign).iter().all(|id| own.contains(id)));
        for (list, most) in [("tokens", 0), ("members", 1), ("toolsets", 0), ("mcp-servers", 0), ("invitations", 0), ("pending-tool-calls", 0)] {
            let listed = ada.get(&format!("/v1/orgs/acme/{list}?limit=200")).await.expect(200);
            assert_eq!((listed["items"].as_array().unwrap().len(), &listed["nextCursor"]), (most, &Value::Null), "{list}");
        }
        let audit = ada.get("/v1/orgs/acme/audit?limit=200").await.expect(200);
        assert!(audit["nextCursor"].is_null() && !audit.to_string().contains("theirs"), "{audit}");
    }

    /// Whose a thing is follows from the address. A body that says otherwise is refused, whatever it spells it like.
    async fn no_body_names_an_organisation(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "other").await);
        let count = async |org: &str, by: &Browser<'_>| {
            let mut all = Vec::new();
            for list in ["chats", "tokens", "toolsets", "mcp-servers", "invitations", "members"] {
                all.push(by.get(&format!("/v1/orgs/{org}/{list}")).await.expect(200)["items"].as_array().unwrap().len());
            }
            all
        };
        let before = (count("acme", &ada).await, count("other", &bob).await);
        for (path, body) in [
            ("chats", json!({ "title": "t" })),
            ("tokens", json!({ "name": "t", "scopes": ["use"] })),
            ("mcp-servers", json!({ "id": "s", "command": "true" })),
            ("invitations", json!({ "email": "x@example.org", "role": "member" })),
        ] {
            for name in ["organization_id", "organizationId", "orgId", "org"] {
                let mut named = body.clone();
                named[name] = "other".into();
                ada.post(&format!("/v1/orgs/acme/{path}"), named).await.expect_error(400, "BAD_REQUEST");
            }
        }
        assert_eq!((count("acme", &ada).await, count("other", &bob).await), before);
    }

    /// The bytes that somebody else keeps are not known to be there: not by an answer, and not on the disk.
    async fn files_are_kept_for_each_organisation_by_itself(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "other").await);
        let keep = async |by: &Browser<'_>, org: &str, content: &str| {
            let chat = by.post(&format!("/v1/orgs/{org}/chats"), json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
            let path = format!("/v1/orgs/{org}/chats/{chat}/workspace");
            let put = server.anonymous(Method::PUT, &format!("{path}/files/a.txt")).header(header::COOKIE, &by.cookie)
                .header("sec-fetch-site", "same-origin").body(content.to_owned());
            let mut answer = Answer::of(put).await;
            assert_eq!(answer.status, 201, "{answer:?}");
            for secret in ["date", "x-request-id", "etag", "content-length"] {
                answer.headers.remove(secret);
            }
            by.post(&format!("{path}/snapshot"), json!({})).await;
            let mut body = answer.body.as_object().unwrap().clone();
            body.retain(|name, _| !["sha256", "manifestId", "id", "createdAt"].contains(&name.as_str()));
            (format!("{:?} {:?} {body:?}", answer.status, answer.headers), chat)
        };
        let known = "what acme knows, and nobody else does, at some length ".repeat(20);
        let unknown = "WHAT nobody knows, and acme does not, at the same length".repeat(20);
        let (_, first) = keep(&ada, "acme", &known).await;
        let (same, second) = keep(&bob, "other", &known).await;
        let (new, _) = keep(&bob, "other", &unknown).await;
        let length = |text: &str| text.replace(&known.len().to_string(), "N").replace(&unknown.len().to_string(), "N");
        assert_eq!(length(&same), length(&new), "an answer tells whether somebody else has it");
        let found: Vec<String> = on_disk(database.data()).into_iter()
            .filter(|(path, file)| file.sha256 == kitbag_testkit::sha256(known.as_bytes()) && path.contains("/chats/"))
            .map(|(path, _)| path).collect();
        for (org, chat) in [("acme", first), ("other", second)] {
            let own = format!("orgs/{org}/chats/{chat}/");
            assert!(found.iter().any(|path| path.starts_with(&own)), "{own} has no copy of its own: {found:?}");
        }
    }

    /// Two organisations at once, each with somebody who listens: everybody hears all that is theirs and nothing else.
    async fn events_of_one_are_never_heard_by_the_other(database: TestDatabase) {
        const EACH: usize = 25;
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "other").await);
        let work = async |by: &Browser<'_>, org: &str| {
            let request = server.anonymous(Method::GET, &format!("/v1/orgs/{org}/events")).header(header::COOKIE, &by.cookie);
            let mut listener = Listener::of(request.header("sec-fetch-site", "same-origin").send().await.unwrap()).await;
            let mut made = Vec::new();
            for _ in 0..EACH {
                let chat = by.post(&format!("/v1/orgs/{org}/chats"), json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
                let call = json!({ "toolId": "run_command", "args": { "command": org } });
                by.post(&format!("/v1/orgs/{org}/chats/{chat}/tool-calls"), call).await.expect(202);
                made.push(chat);
            }
            let mut heard = Vec::new();
            while heard.iter().filter(|(name, _)| name == "tool_call").count() < EACH {
                heard.push(listener.next().await.unwrap());
            }
            for (name, data) in &heard {
                let chat = data["chatId"].as_str().unwrap_or_else(|| panic!("{name} is of no chat: {data}"));
                assert!(made.iter().any(|own| own == chat), "{org} hears {name} of {chat}: {data}");
            }
            assert_eq!(heard.iter().filter(|(name, data)| name == "tool_call" && data["args"]["command"] == org).count(), EACH);
        };
        tokio::join!(work(&ada, "acme"), work(&bob, "other"));
    }

    /// Somebody in both organisations: the address says which of them is meant, for reading and for changing.
    async fn the_address_decides_for_who_is_in_both(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "other").await);
        let body = json!({ "email": "owner@acme.example", "role": "admin" });
        let invitation = bob.post("/v1/orgs/other/invitations", body).await.expect(201);
        ada.post("/v1/invitations/accept", json!({ "secret": invitation["secret"] })).await.expect(200);
        let chat = ada.post("/v1/orgs/acme/chats", json!({ "title": "mine" })).await.expect(201)["id"].as_str().unwrap().to_owned();
        // The same id in both, with something else behind it.
        for (org, url) in [("acme", "https://acme.example/mcp"), ("other", "https://other.example/mcp")] {
            let server = json!({ "id": "s", "url": url, "enabled": false });
            ada.post(&format!("/v1/orgs/{org}/mcp-servers"), server).await.expect(201);
        }
        let there = format!("/v1/orgs/other/chats/{chat}");
        ada.get(&there).await.expect_error(404, "NOT_FOUND");
        ada.delete(&there).await.expect_error(404, "NOT_FOUND");
        ada.ask(Method::PATCH, &there, Some(json!({ "title": "theirs" }))).await.expect_error(404, "NOT_FOUND");
        ada.post(&format!("{there}/messages"), json!({ "role": "user", "content": "x" })).await.expect_error(404, "NOT_FOUND");
        assert_eq!(ada.get(&format!("/v1/orgs/acme/chats/{chat}")).await.expect(200)["title"], "mine");
        ada.put("/v1/orgs/other/mcp-servers/s~s", json!({ "url": "https://changed.example/mcp" })).await.expect(200);
        assert_eq!(ada.get("/v1/orgs/acme/mcp-servers/s~s").await.expect(200)["url"], "https://acme.example/mcp");
        ada.delete("/v1/orgs/other/mcp-servers/s~s").await.expect(204);
        ada.get("/v1/orgs/acme/mcp-servers/s~s").await.expect(200);
        ada.get("/v1/orgs/other/mcp-servers/s~s").await.expect_error(404, "NOT_FOUND");
        // And the audit of each has what was done there.
        let audit = ada.get("/v1/orgs/other/audit?action=mcp_server.").await.expect(200);
        assert_eq!(audit["items"].as_array().unwrap().len(), 3);
        let audit = ada.get("/v1/orgs/acme/audit?action=mcp_server.").await.expect(200);
        assert_eq!(audit["items"].as_array().unwrap().len(), 1);
    }
}
