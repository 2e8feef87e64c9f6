//! A yes or a no: bound to what was shown, said once, in time, by somebody who may, and remembered.

use std::time::Duration;

use kitbag_model::{AuditEntry, OrgId};
use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::calls::{ask, at, pending};
use crate::kit::{override_path, put};
use crate::{CHATS, new_chat, serve};

async fn decide(server: &Server, call: &Value, body: Value) -> Answer {
    server.post(&format!("{}/decision", at(call)), &body).await
}

/// What the audit has about a call, oldest first.
async fn audit(database: &TestDatabase, call: &Value) -> Vec<AuditEntry> {
    let store = database.open().await;
    let mut lines = store.read(&OrgId::local()).await.unwrap().audit_trail(200).await.unwrap();
    lines.retain(|line| line.subject == call["id"].as_str().unwrap());
    lines.reverse();
    store.close().await;
    lines
}

/// The call, when it is not what it was any more.
pub(crate) async fn until(server: &Server, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let call = server.get(path).await.expect(200);
        if is(&call) {
            return call;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{path} stayed {}", server.get(path).await.expect(200));
}

on_both! {
    async fn a_no_ends_the_call(database: TestDatabase) {
        let server = serve(&database);
        let call = pending(&server, &new_chat(&server).await).await;
        let denied = decide(&server, &call, json!({ "approve": false, "args": { "command": "ignored" } })).await.expect(200);
        assert_eq!((&denied["status"], &denied["error"]["code"]), (&json!("error"), &json!("DENIED")));
        assert_eq!((&denied["args"], &denied["decision"]["approved"]), (&call["args"], &json!(false)));
        for approve in [true, false] {
            let again = decide(&server, &call, json!({ "approve": approve })).await;
            again.expect_error(409, "CONFLICT");
            assert!(again.body["message"].as_str().unwrap().contains("denied already"), "{again:?}");
        }
        let lines = audit(&database, &call).await;
        let told: Vec<&str> = lines.iter().map(|line| line.action.as_str()).collect();
        assert_eq!(told, ["tool_call.asked", "tool_call.denied"]);
        assert!(lines[1].actor.starts_with("token "), "{}", lines[1].actor);
        assert_eq!(lines[1].details["argsSha256"], call["argsDigest"]);
    }

    async fn a_yes_is_for_what_was_looked_at_and_is_said_once(database: TestDatabase) {
        let server = serve(&database);
        let call = pending(&server, &new_chat(&server).await).await;
        let other = pending(&server, &new_chat(&server).await).await;
        assert_eq!(call["argsDigest"], other["argsDigest"], "the same tool with the same arguments");
        let wrong = "0".repeat(64);
        decide(&server, &call, json!({ "approve": true, "digest": wrong })).await.expect_error(409, "CONFLICT");
        decide(&server, &call, json!({ "approve": true, "digest": "x" })).await.expect_error(400, "BAD_REQUEST");
        decide(&server, &call, json!({})).await.expect_error(400, "BAD_REQUEST");
        decide(&server, &call, json!({ "approve": true, "args": { "command": 1 } })).await.expect_error(400, "INVALID_ARGUMENTS");
        assert_eq!(server.get(&at(&call)).await.expect(200), call, "none of these decided anything");

        let edited = json!({ "command": "echo edited" });
        let body = json!({ "approve": true, "digest": call["argsDigest"], "args": edited });
        let run = decide(&server, &call, body).await.expect(200);
        assert!(["success", "error"].contains(&run["status"].as_str().unwrap()), "it is over: {run}");
        assert_eq!((&run["args"], &run["decision"]["approved"]), (&edited, &json!(true)));
        assert_ne!(run["argsDigest"], call["argsDigest"]);
        let again = decide(&server, &call, json!({ "approve": true })).await;
        again.expect_error(409, "CONFLICT");
        assert!(again.body["message"].as_str().unwrap().contains("approved already"), "{again:?}");
        let lines = audit(&database, &call).await;
        assert_eq!(lines[1].action, "tool_call.approved");
        assert_eq!((&lines[1].details["argsAskedFor"], &lines[1].details["args"]), (&call["args"], &edited));
    }

    async fn a_yes_that_nobody_waits_for(database: TestDatabase) {
        let server = serve(&database);
        let call = pending(&server, &new_chat(&server).await).await;
        let request = server.request(Method::POST, &format!("{}/decision", at(&call)));
        let answer = Answer::of(request.header("Prefer", "wait=1, respond-async").json(&json!({ "approve": true }))).await;
        assert_eq!(answer.headers["preference-applied"], "respond-async");
        assert_eq!(answer.expect(202)["id"], call["id"]);
        until(&server, &at(&call), |call| call["status"] != "running").await;
    }

    async fn many_who_decide_at_once_are_one(database: TestDatabase) {
        let server = serve(&database);
        let call = pending(&server, &new_chat(&server).await).await;
        let path = format!("{}/decision", at(&call));
        let (no, yes) = (json!({ "approve": false }), json!({ "approve": true }));
        let (a, b, c, d) = tokio::join!(
            server.post(&path, &no), server.post(&path, &yes), server.post(&path, &no), server.post(&path, &yes));
        let mut statuses: Vec<u16> = [&a, &b, &c, &d].iter().map(|answer| answer.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409, 409, 409]);
        assert_eq!(audit(&database, &call).await.len(), 2);
    }

    async fn nobody_answers(database: TestDatabase) {
        let server = Server::start(crate::BINARY, &database, &["--confirmation-timeout", "1"]);
        let call = pending(&server, &new_chat(&server).await).await;
        let over = until(&server, &at(&call), |call| call["status"] != "pending").await;
        assert_eq!((&over["status"], &over["error"]["code"]), (&json!("error"), &json!("DENIED")));
        assert!(over["error"]["message"].as_str().unwrap().starts_with("nobody answered"), "{over}");
        assert_eq!(over["decision"], Value::Null);
        decide(&server, &call, json!({ "approve": true })).await.expect_error(409, "CONFLICT");
    }

    async fn a_tool_that_was_turned_off_meanwhile_is_not_called(database: TestDatabase) {
        let server = serve(&database);
        let call = pending(&server, &new_chat(&server).await).await;
        let over = override_path("builtin", "run_command");
        put(&server, &over, &json!({ "enabled": false })).await.expect(200);
        let refused = decide(&server, &call, json!({ "approve": true })).await;
        refused.expect_error(409, "CONFLICT");
        assert!(refused.body["message"].as_str().unwrap().contains("is off"), "{refused:?}");
        assert_eq!(server.get(&at(&call)).await.expect(200)["status"], "pending");
        decide(&server, &call, json!({ "approve": false })).await.expect(200);
    }

    async fn an_override_decides_whether_somebody_is_asked(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        put(&server, &override_path("builtin", "read_file"), &json!({ "requiresConfirmation": true })).await.expect(200);
        let call = ask(&server, &chat, "read_file", json!({ "path": "a" })).await.expect(202);
        assert_eq!(call["status"], "pending");
        put(&server, &override_path("builtin", "run_command"), &json!({ "requiresConfirmation": false })).await.expect(200);
        let call = ask(&server, &chat, "run_command", json!({ "command": "true" })).await.expect(200);
        assert_eq!((&call["requiresConfirmation"], &call["decision"]), (&json!(false), &Value::Null));
        let store = database.open().await;
        let lines = store.read(&OrgId::local()).await.unwrap().audit_trail(200).await.unwrap();
        let lowered = lines.iter().find(|line| line.action == "override.set" && line.subject.contains("run_command"));
        assert_eq!(lowered.unwrap().details["requiresConfirmation"], false);
    }

    async fn a_chat_that_went_elsewhere_is_not_worked_in(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let messages = format!("{CHATS}/{chat}/messages");
        let top = server.post(&messages, &json!({ "role": "user", "content": "a" })).await.expect(201);
        let call = pending(&server, &chat).await;
        server.post(&messages, &json!({ "role": "user", "content": "b", "parentId": top["id"] })).await.expect(201);
        decide(&server, &call, json!({ "approve": true })).await.expect_error(409, "CONFLICT");
        server.post(&format!("{CHATS}/{chat}/active-leaf"), &json!({ "messageId": call["messageId"] })).await.expect(200);
        decide(&server, &call, json!({ "approve": true })).await.expect(200);
    }
}
