//! How much of the server an organisation takes, how long what it does not use is kept, and that others notice nothing of it.

use std::io::{Read, Write};
use std::time::Duration;

use kitbag_testkit::cluster::{APP, OWNER, try_run};
use kitbag_testkit::endpoint::Client;
use kitbag_testkit::{Answer, Program, Server, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::browsers::{Browser, id_of, owner};
use crate::kit::{bundle, import, manifest, put};
use crate::settings::{configure, install};
use crate::{BINARY, CHATS, new_chat, serve};

/// Tools that take their time and their room.
const TOOLS: &str = "
import os, time
def slow(workspace, seconds: int = 60):
    time.sleep(seconds)
def fill(workspace, name: str, count: int):
    (workspace / name).write_bytes(os.urandom(count))
";

async fn chat_of(by: &Browser<'_>, org: &str) -> String {
    let chat = by.post(&format!("/v1/orgs/{org}/chats"), json!({})).await.expect(201);
    format!("/v1/orgs/{org}/chats/{}", chat["id"].as_str().unwrap())
}

async fn call(by: &Browser<'_>, chat: &str, tool: &str, args: Value) -> Answer {
    by.post(&format!("{chat}/tool-calls"), json!({ "toolId": tool, "args": args })).await
}

/// A call that goes on behind its answer.
async fn begin(by: &Browser<'_>, chat: &str, tool: &str) -> Answer {
    let request = by.server.anonymous(Method::POST, &format!("{chat}/tool-calls")).header(header::COOKIE, &by.cookie);
    let request = request.header("sec-fetch-site", "same-origin").header("prefer", "respond-async");
    Answer::of(request.json(&json!({ "toolId": tool, "args": {} }))).await
}

async fn put_file(by: &Browser<'_>, chat: &str, path: &str, bytes: Vec<u8>) -> Answer {
    let request = by.server.anonymous(Method::PUT, &format!("{chat}/workspace/files/{path}"));
    let request = request.header(header::COOKIE, &by.cookie).header("sec-fetch-site", "same-origin");
    Answer::of(request.body(bytes)).await
}

async fn tools_of(by: &Browser<'_>, org: &str) {
    let tools = "tools:\n  - {id: slow, entrypoint: \"tools.t:slow\"}\n  - {id: fill, entrypoint: \"tools.t:fill\"}\n";
    let bytes = bundle(&[("toolset.yaml", &manifest("t", "1.0.0", tools)), ("tools/t.py", TOOLS)]);
    install(by, org, bytes).await.expect(201);
}

#[track_caller]
fn told(answer: &Answer, parts: &[&str]) {
    answer.expect_error(429, "QUOTA_EXCEEDED");
    let message = answer.body["message"].as_str().unwrap();
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    let wait: u32 = answer.headers[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!(wait >= 1, "{wait}");
}

on_both! {
    async fn calls_in_a_minute_are_counted_for_each_organisation(database: TestDatabase) {
        configure(&database, "[organizations.bolt]\ncalls_per_minute = 1\n");
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        ada.put("/v1/orgs/acme/settings", json!({ "quotas": { "callsPerMinute": 2 } })).await.expect(200);
        let chat = chat_of(&ada, "acme").await;
        let list = async |by: &Browser<'_>, chat: &str| call(by, chat, "list_files", json!({})).await;
        list(&ada, &chat).await.expect(200);
        // What is refused for another reason does not count.
        call(&ada, &chat, "list_files", json!({ "wrong": 1 })).await.expect_error(400, "INVALID_ARGUMENTS");
        list(&ada, &chat).await.expect(200);
        told(&list(&ada, &chat).await, &["callsPerMinute of the organisation acme is 2", "an owner or admin"]);
        let theirs = chat_of(&bob, "bolt").await;
        list(&bob, &theirs).await.expect(200);
        told(&list(&bob, &theirs).await, &["callsPerMinute of the organisation bolt is 1", "the operator"]);
        ada.put("/v1/orgs/acme/settings", json!({})).await.expect(200);
        list(&ada, &chat).await.expect(200);
    }

    async fn calls_at_a_time_are_counted_for_each_organisation(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        tools_of(&ada, "acme").await;
        ada.put("/v1/orgs/acme/settings", json!({ "quotas": { "concurrentCalls": 1 } })).await.expect(200);
        let (one, two) = (chat_of(&ada, "acme").await, chat_of(&ada, "acme").await);
        let slow = begin(&ada, &one, "t:slow").await.expect(202);
        told(&call(&ada, &two, "list_files", json!({})).await, &["concurrentCalls of the organisation acme is 1"]);
        let theirs = chat_of(&bob, "bolt").await;
        call(&bob, &theirs, "list_files", json!({})).await.expect(200);
        let cancel = format!("{one}/tool-calls/{}/cancel", slow["id"].as_str().unwrap());
        ada.post(&cancel, json!({})).await.expect(200);
        // Its place is free a moment after its end was told.
        let mut again = call(&ada, &two, "list_files", json!({})).await;
        while again.status == 429 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            again = call(&ada, &two, "list_files", json!({})).await;
        }
        again.expect(200);
    }

    async fn calls_that_are_refused_are_counted(database: TestDatabase) {
        let server = Server::start(BINARY, &database, &["--max-queue-per-chat", "1"]);
        let tools = "tools:\n  - {id: slow, entrypoint: \"tools.t:slow\"}\n";
        let bytes = bundle(&[("toolset.yaml", &manifest("t", "1.0.0", tools)), ("tools/t.py", TOOLS)]);
        import(&server, "", &bytes).await.expect(201);
        let over_mcp = async || {
            let heard = Client::new(&server, "/mcp").ask("tools/call", json!({ "name": "t__slow", "arguments": { "seconds": 0 } })).await;
            (heard.status.as_u16(), heard.result()["isError"].clone(), heard.text().to_owned())
        };
        let refused = async || {
            let text = Answer::of(server.anonymous(Method::GET, "/metrics")).await.expect(200);
            let count = |reason: &str| {
                let name = format!("kitbag_calls_refused_total{{reason=\"{reason}\"}} ");
                let line = text.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&name).map(ToOwned::to_owned));
                line.unwrap_or_else(|| panic!("{reason}: {text}")).parse::<u32>().unwrap()
            };
            ["quota", "busy", "rate"].map(count)
        };
        let quotas = async |quotas: Value| {
            let body = json!({ "quotas": quotas });
            put(&server, "/v1/orgs/local/settings", &body).await.expect(200)
        };
        assert_eq!(refused().await, [0, 0, 0]);
        let (one, two) = (new_chat(&server).await, new_chat(&server).await);
        let calls = |chat: &str| format!("{CHATS}/{chat}/tool-calls");
        let call = json!({ "toolId": "list_files", "args": {} });
        let slow = server.request(Method::POST, &calls(&one)).header("prefer", "respond-async");
        let slow = Answer::of(slow.json(&json!({ "toolId": "t:slow", "args": {} }))).await.expect(202);

        server.post(&calls(&one), &call).await.expect_error(429, "RATE_LIMITED");
        assert_eq!(refused().await, [0, 1, 0], "the chat's queue is full");

        quotas(json!({ "concurrentCalls": 1 })).await;
        server.post(&calls(&two), &call).await.expect_error(429, "QUOTA_EXCEEDED");
        let (status, is_error, text) = over_mcp().await;
        assert!(status == 200 && is_error == true && text.contains("QUOTA_EXCEEDED"), "{status} {text}");
        assert_eq!(refused().await, [2, 1, 0]);

        quotas(json!({ "callsPerMinute": 1 })).await;
        server.post(&calls(&two), &call).await.expect(200);
        server.post(&calls(&two), &call).await.expect_error(429, "QUOTA_EXCEEDED");
        let (status, is_error, text) = over_mcp().await;
        assert!(status == 200 && is_error == true && text.contains("callsPerMinute"), "{status} {text}");
        assert_eq!(refused().await, [2, 1, 2]);
        let cancel = format!("{}/{}/cancel", calls(&one), slow["id"].as_str().unwrap());
        server.post(&cancel, &json!({})).await.expect(200);
    }

    async fn what_is_still_coming_is_counted_too(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        ada.put("/v1/orgs/acme/settings", json!({ "quotas": { "workspaceBytes": 10_000 } })).await.expect(200);
        let chat = chat_of(&ada, "acme").await;
        let begin = |length: u64| {
            let mut stream = server.connect();
            let head = format!(
                "PUT {chat}/workspace/files/coming HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\nSec-Fetch-Site: same-origin\r\n\
                 Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n",
                ada.cookie
            );
            stream.write_all(head.as_bytes()).unwrap();
            let mut line = [0; "HTTP/1.1 100 Continue".len()];
            stream.read_exact(&mut line).unwrap();
            assert_eq!(line, *b"HTTP/1.1 100 Continue");
            stream
        };
        // Nothing of it has come, and it may be there already.
        let coming = begin(1 << 20);
        told(&put_file(&ada, &chat, "a", vec![b'a'; 6_000]).await, &["workspaceBytes of the organisation acme is 10000"]);
        let form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\r\n\r\nx\r\n--b--\r\n";
        let uploaded = server.anonymous(Method::POST, &format!("{chat}/workspace/uploads")).header(header::COOKIE, &ada.cookie);
        let uploaded = uploaded.header("sec-fetch-site", "same-origin").header(header::CONTENT_TYPE, "multipart/form-data; boundary=b");
        told(&Answer::of(uploaded.body(form)).await, &["workspaceBytes"]);
        put_file(&bob, &chat_of(&bob, "bolt").await, "theirs", vec![b'x'; 20_000]).await.expect(201);
        drop(coming);
        // That it went away is noticed a moment later.
        while put_file(&ada, &chat, "a", vec![b'a'; 6_000]).await.status == 429 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let _small = begin(1_000);
        put_file(&ada, &chat, "b", vec![b'b'; 2_500]).await.expect(201);
        told(&put_file(&ada, &chat, "c", vec![b'c'; 1_000]).await, &["500 are left"]);
    }

    async fn what_workspaces_take_is_bounded(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        tools_of(&ada, "acme").await;
        let (one, two) = (chat_of(&ada, "acme").await, chat_of(&ada, "acme").await);
        put_file(&ada, &one, "before", vec![b'b'; 2_000]).await.expect(201);
        ada.put("/v1/orgs/acme/settings", json!({ "quotas": { "workspaceBytes": 10_000 } })).await.expect(200);
        put_file(&ada, &one, "a", vec![b'a'; 4_000]).await.expect(201);
        let refused = put_file(&ada, &two, "c", vec![b'c'; 4_001]).await;
        told(&refused, &["workspaceBytes of the organisation acme is 10000", "an owner or admin", "gc"]);
        assert_eq!(ada.get(&format!("{two}/workspace/files")).await.expect(200)["items"], json!([]), "nothing is left of it");
        // What is there already takes no room, and what goes away gives none back while a state has it.
        put_file(&ada, &one, "again", vec![b'a'; 4_000]).await.expect(201);
        ada.delete(&format!("{one}/workspace/files/a")).await.expect(204);
        put_file(&ada, &two, "c", vec![b'c'; 3_000]).await.expect(201);

        // A tool that writes too much fails, and the workspace is as it was.
        let filled = call(&ada, &two, "t:fill", json!({ "name": "f", "count": 5_000 })).await.expect(200);
        assert_eq!((&filled["status"], &filled["error"]["code"]), (&json!("error"), &json!("QUOTA_EXCEEDED")), "{filled}");
        assert!(filled["error"]["message"].as_str().unwrap().contains("workspaceBytes of the organisation acme is 10000"), "{filled}");
        let files = ada.get(&format!("{two}/workspace/files")).await.expect(200);
        assert_eq!(files["items"].as_array().unwrap().len(), 1, "{files}");
        let less = call(&ada, &two, "t:fill", json!({ "name": "f", "count": 500 })).await.expect(200);
        assert_eq!(less["status"], "success", "{less}");
        put_file(&bob, &chat_of(&bob, "bolt").await, "theirs", vec![b'x'; 20_000]).await.expect(201);

        // A chat that is deleted makes room; a restart counts what is on the disk.
        ada.delete(&one).await.expect(204);
        put_file(&ada, &two, "d", vec![b'd'; 6_000]).await.expect(201);
        drop((ada, bob));
        drop(server);
        let server = serve(&database);
        let ada = crate::browsers::sign_in(&server, "owner@acme.example", crate::browsers::PASSWORD).await.ok().unwrap();
        told(&put_file(&ada, &two, "e", vec![b'e'; 1_000]).await, &["workspaceBytes"]);
        ada.delete(&two).await.expect(204);
        put_file(&ada, &chat_of(&ada, "acme").await, "e", vec![b'e'; 10_000]).await.expect(201);
        told(&put_file(&ada, &chat_of(&ada, "acme").await, "e", vec![b'f'; 1]).await, &["0 are left"]);
    }

    async fn what_nobody_touches_goes(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        let (old, theirs) = (chat_of(&ada, "acme").await, chat_of(&bob, "bolt").await);
        let touched = chat_of(&ada, "acme").await;
        put_file(&ada, &old, "a", b"a".to_vec()).await.expect(201);
        let folder = database.data().join("orgs/acme/chats").join(old.rsplit('/').next().unwrap());
        assert!(folder.is_dir());
        let settings = json!({ "retention": { "chatDays": 1, "auditDays": 1 } });
        ada.put("/v1/orgs/acme/settings", settings).await.expect(200);
        database.make_old().await;
        ada.ask(Method::PATCH, &touched, Some(json!({ "title": "still here" }))).await.expect(200);

        let program = Program::on(BINARY, &database);
        let retained = program.run(&["admin", "retain", "--json"]);
        assert_eq!(retained.code, Some(0), "{}", retained.stderr);
        assert_eq!(retained.json()["chats"], 1);
        ada.get(&old).await.expect_error(404, "NOT_FOUND");
        assert!(!folder.exists());
        ada.get(&touched).await.expect(200);
        bob.get(&theirs).await.expect(200);
        assert_eq!(program.run(&["admin", "retain", "--json"]).json()["chats"], 0);

        let store = database.open().await;
        let lines = async |org: &str| {
            let lines = store.read(&org.parse().unwrap()).await.unwrap().audit_trail(200).await.unwrap();
            lines.into_iter().map(|line| line.action).collect::<Vec<_>>()
        };
        let is_sqlite = store.kind() == "sqlite";
        if !is_sqlite {
            // Whoever serves cannot delete a line; the owner of the tables can, and leaves no way behind.
            assert_eq!(retained.json()["audit"], Value::Null);
            assert!(lines("acme").await.contains(&"settings.updated".to_owned()));
            let as_owner = program.run(&["admin", "retain", "--json", "--database", database.url(OWNER).expose()]);
            assert_eq!(as_owner.code, Some(0), "{}", as_owner.stderr);
            assert_eq!(as_owner.json()["trimmed"][0]["org"], "acme");
            assert_eq!(as_owner.json()["trimmed"].as_array().unwrap().len(), 1);
            for role in [APP, OWNER] {
                let mut connection = database.connect(role).await;
                let deleted = try_run(&mut connection, "SELECT set_config('kitbag.org', 'acme', false)").await;
                deleted.unwrap();
                let deleted = try_run(&mut connection, "DELETE FROM audit").await;
                assert!(deleted.is_err() || deleted.is_ok_and(|rows| rows == 0), "{role}");
            }
        }
        let left = lines("acme").await;
        assert!(!left.contains(&"settings.updated".to_owned()) && left.contains(&"audit.trimmed".to_owned()), "{left:?}");
        assert!(left.contains(&"chat.expired".to_owned()), "what happened since is there: {left:?}");
        assert!(!lines("bolt").await.contains(&"audit.trimmed".to_owned()));
    }

    async fn metrics_name_nobody(database: TestDatabase) {
        let server = serve(&database);
        let mut names = Vec::new();
        for org in ["acme-corp", "bolt-inc"] {
            let somebody = owner(&server, org).await;
            let chat = chat_of(&somebody, org).await;
            call(&somebody, &chat, "list_files", json!({})).await.expect(200);
            call(&somebody, &chat, "read_file", json!({ "path": "none" })).await;
            names.extend([org.to_owned(), chat.rsplit('/').next().unwrap().to_owned(), id_of(&somebody).await]);
        }
        let metrics = server.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        assert!(metrics.contains("kitbag_tool_calls_total"), "{metrics}");
        for name in names {
            assert!(!metrics.contains(&name), "{name} is in the metrics:\n{metrics}");
        }
    }
}
