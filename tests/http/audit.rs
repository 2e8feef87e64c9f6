//! The audit: every deed has a line, only who manages reads it, and only of their own organisation.

use std::time::{Duration, Instant};

use kitbag_model::{Action, OrgId};
use kitbag_testkit::{Answer, Server, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::browsers::{Browser, id_of, invited, owner};
use crate::kit::{TOOLSETS, import, manifest, override_path, put, with_manifest};
use crate::{new_chat, serve};

const AUDIT: &str = "/v1/orgs/local/audit";

/// What a list says was done, oldest first.
fn actions(listed: &Value) -> Vec<String> {
    let items = listed["items"].as_array().unwrap().iter().rev();
    items.map(|line| line["action"].as_str().unwrap().to_owned()).collect()
}

/// Waits until there is a line; it is written behind the request's back.
async fn line(ask: impl AsyncFn() -> Value) -> Value {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let listed = ask().await;
        if let Some(line) = listed["items"].as_array().unwrap().first() {
            return line.clone();
        }
        assert!(Instant::now() < end, "no such line was written");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn export(server: &Server, query: &str) -> (header::HeaderMap, String) {
    let answer = server.request(Method::GET, &format!("{AUDIT}/export?{query}")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    (answer.headers().clone(), answer.text().await.unwrap())
}

on_both! {
    async fn what_is_done_to_toolsets_and_servers_has_lines(database: TestDatabase) {
        let server = serve(&database);
        import(&server, "", &with_manifest(&manifest("app", "1.0.0", "tools:\n  - {id: f, entrypoint: \"tools.t:f\"}\n"))).await.expect(201);
        let post = async |path: &str, body: Value| server.post(path, &body).await;
        post(&format!("{TOOLSETS}/app/enable"), json!({ "enabled": false })).await.expect(200);
        post(&format!("{TOOLSETS}/app/enable"), json!({ "enabled": true })).await.expect(200);
        post(&format!("{TOOLSETS}/app/trust"), json!({})).await.expect(200);
        put(&server, &override_path("app", "app:f"), &json!({ "enabled": false })).await.expect(200);
        server.delete(&override_path("app", "app:f")).await.expect(204);
        server.get(&format!("{TOOLSETS}/app/export")).await;
        server.get(&format!("{TOOLSETS}/app/export?force=true")).await;
        server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
        let listed = server.get(&format!("{AUDIT}?action=toolset.")).await.expect(200);
        let expected = ["imported", "disabled", "enabled", "trusted", "exported", "uninstalled"].map(|verb| format!("toolset.{verb}"));
        assert_eq!(actions(&listed), expected, "an export that nothing was forced out of has no line");
        let listed = server.get(&format!("{AUDIT}?action=override.")).await.expect(200);
        assert_eq!(actions(&listed), ["override.set", "override.deleted"]);
        assert_eq!(listed["items"][1]["details"], json!({ "toolsetId": "app", "requiresConfirmation": null, "enabled": false }));

        // What did not happen has no line.
        post(&format!("{TOOLSETS}/app/enable"), json!({ "enabled": true })).await.expect_error(404, "TOOLSET_NOT_FOUND");
        server.delete(&format!("{TOOLSETS}/app")).await.expect_error(404, "TOOLSET_NOT_FOUND");
        assert_eq!(actions(&server.get(&format!("{AUDIT}?action=toolset.")).await.expect(200)).len(), 6);

        let key = post("/v1/orgs/local/mcp-servers", json!({ "id": "s", "command": "true", "enabled": false })).await.expect(201);
        let key = key["id"].as_str().unwrap();
        put(&server, &format!("/v1/orgs/local/mcp-servers/{key}"), &json!({ "description": "other" })).await.expect(200);
        server.delete(&format!("/v1/orgs/local/mcp-servers/{key}")).await.expect(204);
        let chat = new_chat(&server).await;
        post(&format!("/v1/orgs/local/chats/{chat}/workspace/gc"), json!({})).await.expect(200);
        server.delete(&format!("/v1/orgs/local/chats/{chat}")).await.expect(204);
        assert_eq!(actions(&server.get(&format!("{AUDIT}?subject={key}")).await.expect(200)),
            ["mcp_server.added", "mcp_server.updated", "mcp_server.removed"]);
        assert_eq!(actions(&server.get(&format!("{AUDIT}?subject={chat}")).await.expect(200)), ["workspace.collected", "chat.deleted"]);

        // Every name that is written is one that there is.
        let all = server.get(&format!("{AUDIT}?limit=200")).await.expect(200);
        for action in actions(&all) {
            assert!(Action::ALL.iter().any(|known| known.as_str() == action), "{action}");
        }
    }

    async fn people_and_tokens_have_lines_with_their_ids(database: TestDatabase) {
        let server = serve(&database);
        let boss = owner(&server, "acme").await;
        let member = invited(&boss, "acme", "member@acme.example", "member").await;
        let (boss_id, member_id) = (id_of(&boss).await, id_of(&member).await);
        let made = member.post("/v1/orgs/acme/tokens", json!({ "name": "t", "scopes": ["use"] })).await.expect(201);
        let (token, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
        let audit = |query: String| format!("/v1/orgs/acme/audit?{query}");
        let asked = async |by: &Browser<'_>, query: String| by.get(&audit(query)).await.expect(200);

        // An agent calls, and tries more than it may.
        let as_agent = |method, path: &str| server.anonymous(method, path).bearer_auth(secret).header(header::USER_AGENT, "agent/1");
        for _ in 0..3 {
            Answer::of(as_agent(Method::GET, "/v1/orgs/acme/toolsets")).await.expect(200);
            Answer::of(as_agent(Method::DELETE, "/v1/orgs/acme/toolsets/x")).await.expect_error(403, "FORBIDDEN");
        }
        let used = line(async || asked(&boss, "action=token.used".to_owned()).await).await;
        assert_eq!((&used["subject"], &used["details"]), (&json!(token), &json!({ "userAgent": "agent/1" })));
        assert_eq!((&used["tokenId"], &used["userId"]), (&json!(token), &json!(member_id)));
        let refused = line(async || asked(&boss, "action=access.refused".to_owned()).await).await;
        assert_eq!(refused["subject"], "DELETE /v1/orgs/{org}/toolsets/{id}");
        assert_eq!(refused["tokenId"], token);
        // However often it is used and refused, and whoever looks.
        Answer::of(as_agent(Method::GET, "/v1/orgs/acme/toolsets")).await.expect(200);
        for action in ["token.used", "access.refused"] {
            assert_eq!(asked(&boss, format!("action={action}&actor={token}")).await["items"].as_array().unwrap().len(), 1, "{action}");
        }

        boss.ask(Method::PATCH, &format!("/v1/orgs/acme/members/{member_id}"), Some(json!({ "role": "admin" }))).await.expect(200);
        boss.ask(Method::PATCH, "/v1/orgs/acme", Some(json!({ "name": "Acme Inc." }))).await.expect(200);
        boss.delete(&format!("/v1/orgs/acme/members/{member_id}")).await.expect(204);
        let by_boss = asked(&boss, format!("actor={boss_id}&limit=200")).await;
        assert_eq!(actions(&by_boss), [
            "invitation.accepted", "member.added", "invitation.created", "member.role_changed", "organization.renamed", "member.removed",
        ]);
        assert!(by_boss["items"].as_array().unwrap().iter().all(|line| line["userId"] == boss_id.as_str() && line["tokenId"] == Value::Null));
        // By the address; of the member what they did at the page and with their token.
        let by_address = asked(&boss, "actor=owner@acme.example&limit=200".to_owned()).await;
        assert_eq!(by_address, by_boss);
        assert_eq!(asked(&boss, "actor=owner@acme".to_owned()).await["items"], json!([]), "a part of an address is nobody");
        let by_member = actions(&asked(&boss, format!("actor={member_id}")).await);
        for action in ["invitation.accepted", "token.created", "token.used", "access.refused"] {
            assert!(by_member.iter().any(|found| found == action), "{action} is not in {by_member:?}");
        }
        assert!(!server.log().contains(secret) && !by_boss.to_string().contains(secret));
    }

    async fn only_who_manages_reads_it_and_only_of_their_own(database: TestDatabase) {
        let server = serve(&database);
        let boss = owner(&server, "acme").await;
        let admin = invited(&boss, "acme", "admin@acme.example", "admin").await;
        let member = invited(&boss, "acme", "member@acme.example", "member").await;
        let rival = owner(&server, "rival").await;
        for path in ["/v1/orgs/acme/audit", "/v1/orgs/acme/audit/export"] {
            boss.get(path).await.expect(200);
            admin.get(path).await.expect(200);
            member.get(path).await.expect_error(403, "FORBIDDEN");
            rival.get(path).await.expect_error(404, "NOT_FOUND");
            server.get(path).await.expect_error(404, "NOT_FOUND");
        }
        let cursor = boss.get("/v1/orgs/acme/audit?limit=1").await.expect(200)["nextCursor"].as_str().unwrap().to_owned();
        let theirs = rival.get(&format!("/v1/orgs/rival/audit?cursor={cursor}")).await.expect(200);
        assert!(!theirs.to_string().contains("acme"), "a cursor of others shows nothing of theirs: {theirs}");
        // Nobody can write a line, or take one away.
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            boss.ask(method, "/v1/orgs/acme/audit", Some(json!({}))).await.expect_error(405, "METHOD_NOT_ALLOWED");
        }
    }

    async fn it_is_listed_in_parts_between_two_times(database: TestDatabase) {
        let server = serve(&database);
        let (store, org) = (database.open().await, OrgId::local());
        let mut tx = store.write(&org).await.unwrap();
        for number in 0..450 {
            tx.audit("server", Action::ChatDeleted, &format!("subject {number:03}"), &json!({ "number": number })).await.unwrap();
        }
        tx.commit().await.unwrap();
        let all = crate::whole_list(&server, AUDIT, 200).await;
        let numbers: Vec<i64> = all.iter().filter_map(|line| line["details"]["number"].as_i64()).collect();
        assert_eq!(numbers, (0..450).rev().collect::<Vec<_>>(), "each once, newest first");
        let at = |index: usize| all[index]["at"].as_str().unwrap();
        let count = |from: &str, to: &str| all.iter().filter(|line| {
            let at = line["at"].as_str().unwrap();
            from <= at && at < to
        }).count();
        for (from, to) in [(400, 10), (449, 0), (100, 100)] {
            let path = format!("{AUDIT}?since={}&until={}&limit=200", at(from), at(to));
            let mut found = server.get(&path).await.expect(200);
            let mut items = found["items"].as_array().unwrap().clone();
            while let Some(cursor) = found["nextCursor"].as_str() {
                found = server.get(&format!("{path}&cursor={cursor}")).await.expect(200);
                items.extend(found["items"].as_array().unwrap().iter().cloned());
            }
            assert_eq!(items.len(), count(at(from), at(to)), "{path}");
        }
        let one = server.get(&format!("{AUDIT}?subject=subject%20007&action=chat.deleted&actor=server")).await.expect(200);
        assert_eq!(one["items"].as_array().unwrap().len(), 1);
        for none in ["action=chat", "action=chat.delete", "actor=serve", "subject=subject", "until=2001-01-01T00:00:00Z", "since=2999-01-01T00:00:00%2B01:00"] {
            assert_eq!(server.get(&format!("{AUDIT}?{none}")).await.expect(200)["items"], json!([]), "{none}");
        }
        for wrong in [
            "since=yesterday", "until=2026-13-01T00:00:00Z", "since=9999-12-31T23:59:59-01:00", "limit=0", "limit=201", "cursor=x", "colour=red",
            "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "actor=a%00b",
        ] {
            server.get(&format!("{AUDIT}?{wrong}")).await.expect_error(400, "BAD_REQUEST");
        }
        let chats = server.get("/v1/orgs/local/chats?limit=1").await.expect(200);
        assert_eq!(chats["nextCursor"], Value::Null);
    }

    async fn it_is_taken_along_and_no_cell_is_a_formula(database: TestDatabase) {
        let server = serve(&database);
        let (store, org) = (database.open().await, OrgId::local());
        let mut tx = store.write(&org).await.unwrap();
        // More than one part, with names as strangers choose them.
        for number in 0..1200 {
            tx.audit("server", Action::ProcessStopped, &format!("=cmd|'/c calc'!A{number}"), &json!({ "n": number, "t": "a,\"b\"\n" })).await.unwrap();
        }
        tx.commit().await.unwrap();
        let (headers, text) = export(&server, "action=process.").await;
        assert_eq!(headers[header::CONTENT_TYPE], "application/jsonl");
        let name = headers[header::CONTENT_DISPOSITION].to_str().unwrap();
        assert!(name.starts_with("attachment; filename=\"audit-local-2") && name.ends_with(".jsonl\""), "{name}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers: Vec<i64> = lines.iter().map(|line| line["details"]["n"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (0..1200).rev().collect::<Vec<_>>());

        let (headers, text) = export(&server, "format=csv&action=process.").await;
        assert!(headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/csv"));
        assert!(headers[header::CONTENT_DISPOSITION].to_str().unwrap().ends_with(".csv\""));
        let rows: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!((rows.len(), rows[0]), (1201, "id,at,actor,userId,tokenId,action,subject,details"));
        assert!(rows[1].contains(",server,,,process.stopped,'=cmd|'/c calc'!A1199,\"{"), "{}", rows[1]);
        assert!(!text.contains(",=") && !text.contains(",\"="));
        // That it was taken along is a line, too.
        let exports = server.get(&format!("{AUDIT}?action=audit.exported")).await.expect(200);
        let formats: Vec<_> = exports["items"].as_array().unwrap().iter().map(|line| line["details"]["format"].clone()).collect();
        assert_eq!(formats, ["csv", "jsonl"]);
        for wrong in ["format=xml", "since=x", "limit=5"] {
            server.get(&format!("{AUDIT}/export?{wrong}")).await.expect_error(400, "BAD_REQUEST");
        }
    }
}
