//! Tool calls up to the moment they run: which are refused, and what a refusal says; keys; lists; cancelling.

use kitbag_testkit::database::add_token;
use kitbag_testkit::{Answer, Server, on_both};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::kit::{TOOLSETS, import, manifest, override_path, put, tool, with_manifest};
use crate::{CHATS, new_chat, serve, whole_list};

pub(crate) fn calls(chat: &str) -> String {
    format!("{CHATS}/{chat}/tool-calls")
}

pub(crate) fn asking(server: &Server, chat: &str, tool: &str, args: &Value) -> RequestBuilder {
    server.request(Method::POST, &calls(chat)).json(&json!({ "toolId": tool, "args": args }))
}

pub(crate) async fn ask(server: &Server, chat: &str, tool: &str, args: Value) -> Answer {
    Answer::of(asking(server, chat, tool, &args)).await
}

/// A call that waits for a yes.
pub(crate) async fn pending(server: &Server, chat: &str) -> Value {
    let call = ask(server, chat, "run_command", json!({ "command": "echo hello" })).await.expect(202);
    assert_eq!(call["status"], "pending", "{call}");
    call
}

pub(crate) fn at(call: &Value) -> String {
    format!("{}/{}", calls(call["chatId"].as_str().unwrap()), call["id"].as_str().unwrap())
}

on_both! {
    async fn arguments_are_checked_before_anything_is_recorded(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let refused = ask(&server, &chat, "write_file", json!({ "path": 1, "extra": true })).await;
        refused.expect_error(400, "INVALID_ARGUMENTS");
        let mut pointers: Vec<&str> = refused.body["details"]["problems"].as_array().unwrap().iter()
            .map(|problem| problem["pointer"].as_str().unwrap()).collect();
        pointers.sort_unstable();
        assert_eq!(pointers, ["/content", "/extra", "/path"]);
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.contains("path, content"), "it says what is allowed: {message}");
        ask(&server, &chat, "run_command", json!({})).await.expect_error(400, "INVALID_ARGUMENTS");
        for (body, code) in [
            (json!({ "toolId": "read_file", "args": [] }), "BAD_REQUEST"),
            (json!({ "toolId": "read_file", "args": { "path": "a" }, "more": 1 }), "BAD_REQUEST"),
            (json!({ "args": {} }), "BAD_REQUEST"),
            (json!({ "toolId": "run_command", "args": { "command": "x" }, "messageId": "none" }), "BAD_REQUEST"),
            (json!({ "toolId": "run_command", "args": { "command": "x" }, "messageId": chat }), "BAD_REQUEST"),
        ] {
            server.post(&calls(&chat), &body).await.expect_error(400, code);
        }
        assert!(whole_list(&server, &calls(&chat), 50).await.is_empty());
        let messages = whole_list(&server, &format!("{CHATS}/{chat}/messages"), 50).await;
        assert!(messages.is_empty(), "a refused call leaves no message");
    }

    async fn only_tools_that_are_there_and_on_are_called(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        for none in ["nothing", "app:run", "not a tool", "", "mcp:a~b:c", "mcp:b:c"] {
            ask(&server, &chat, none, json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
        }
        put(&server, &override_path("builtin", "run_command"), &json!({ "enabled": false })).await.expect(200);
        let refused = ask(&server, &chat, "run_command", json!({ "command": "x" })).await;
        refused.expect_error(409, "CONFLICT");
        assert!(refused.body["message"].as_str().unwrap().contains("the tool run_command is off"), "{refused:?}");

        let tools = "tools:\n  - {id: run, entrypoint: \"tools.t:f\"}\n";
        import(&server, "", &with_manifest(&manifest("app", "1.0.0", tools))).await.expect(201);
        server.post(&format!("{TOOLSETS}/app/enable"), &json!({ "enabled": false })).await.expect(200);
        let refused = ask(&server, &chat, "app:run", json!({})).await;
        refused.expect_error(409, "CONFLICT");
        assert!(refused.body["message"].as_str().unwrap().contains("the toolset app is off"), "{refused:?}");
        ask(&server, &chat, "app:other", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
        server.post(&calls(&new_chat(&server).await.replace('0', "1")), &json!({ "toolId": "read_file" }))
            .await.expect_error(404, "NOT_FOUND");
    }

    async fn a_call_that_needs_a_yes_waits_for_it(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let answer = ask(&server, &chat, "run_command", json!({ "command": "echo hello" })).await;
        let location = answer.headers["location"].to_str().unwrap().to_owned();
        let call = answer.expect(202);
        assert_eq!(location, at(&call));
        for (field, value) in [
            ("toolId", json!("run_command")), ("chatId", json!(chat)), ("args", json!({ "command": "echo hello" })),
            ("status", json!("pending")), ("result", Value::Null), ("error", Value::Null), ("renderPlan", Value::Null),
            ("finishedAt", Value::Null), ("preManifestId", Value::Null), ("postManifestId", Value::Null),
            ("logs", json!([])), ("requiresConfirmation", json!(true)), ("decision", Value::Null),
        ] {
            assert_eq!(call[field], value, "{field}");
        }
        assert_eq!(server.get(&at(&call)).await.expect(200), call);
        server.get(&format!("{}/result", at(&call))).await.expect_error(404, "NOT_FOUND");
        // It has a message of its own below where the chat stood.
        let messages = whole_list(&server, &format!("{CHATS}/{chat}/messages"), 50).await;
        assert_eq!((messages.len(), &messages[0]["role"], &messages[0]["id"]), (1, &json!("tool"), &call["messageId"]));
        assert_eq!(messages[0]["content"][0]["toolCallId"], call["id"]);
    }

    async fn a_call_belongs_to_a_message_of_the_branch_that_the_chat_stands_at(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let say = async |body: Value| server.post(&format!("{CHATS}/{chat}/messages"), &body).await.expect(201)["id"].clone();
        let first = say(json!({ "role": "user", "content": "a" })).await;
        let second = say(json!({ "role": "assistant", "content": "b" })).await;
        let ask = async |message: &Value| {
            let body = json!({ "toolId": "run_command", "args": { "command": "x" }, "messageId": message });
            server.post(&calls(&chat), &body).await
        };
        for message in [&first, &second] {
            assert_eq!(ask(message).await.expect(202)["messageId"], *message);
        }
        let branch = say(json!({ "role": "user", "content": "c", "parentId": first })).await;
        ask(&branch).await.expect(202);
        ask(&first).await.expect(202);
        ask(&second).await.expect_error(409, "CONFLICT");
        let of_first = server.get(&format!("{}?messageId={}", calls(&chat), first.as_str().unwrap())).await.expect(200);
        assert_eq!(of_first["items"].as_array().unwrap().len(), 2);
        server.get(&format!("{}?messageId={chat}", calls(&chat))).await.expect_error(400, "BAD_REQUEST");
    }

    async fn calls_are_listed_in_the_order_they_were_asked_for(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(pending(&server, &chat).await["id"].clone());
        }
        let listed: Vec<Value> = whole_list(&server, &calls(&chat), 2).await.iter().map(|call| call["id"].clone()).collect();
        assert_eq!(listed, ids);
        let other = new_chat(&server).await;
        assert!(whole_list(&server, &calls(&other), 2).await.is_empty());
        // A call of another chat is not there.
        let path = format!("{}/{}", calls(&other), ids[0].as_str().unwrap());
        server.get(&path).await.expect_error(404, "NOT_FOUND");
        server.post(&format!("{path}/cancel"), &json!({})).await.expect_error(404, "NOT_FOUND");
        server.post(&format!("{path}/decision"), &json!({ "approve": true })).await.expect_error(404, "NOT_FOUND");
    }

    async fn a_key_makes_two_requests_one_call(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let keyed = |key: &'static str, command: &str| {
            let args = json!({ "command": command });
            Answer::of(asking(&server, &chat, "run_command", &args).header("Idempotency-Key", key))
        };
        let call = keyed("k-1", "a").await.expect(202);
        assert_eq!(keyed("k-1", "a").await.expect(202), call);
        let other = keyed("k-1", "b").await;
        other.expect_error(409, "CONFLICT");
        assert_eq!(other.body["details"]["callId"], call["id"]);
        assert_ne!(keyed("k-2", "a").await.expect(202)["id"], call["id"]);
        // The key is the chat's own.
        let elsewhere = new_chat(&server).await;
        let args = json!({ "command": "z" });
        let there = asking(&server, &elsewhere, "run_command", &args).header("Idempotency-Key", "k-1");
        Answer::of(there).await.expect(202);
        for bad in ["", "a b", &"x".repeat(256)] {
            let request = asking(&server, &chat, "run_command", &args).header("Idempotency-Key", bad);
            Answer::of(request).await.expect_error(400, "BAD_REQUEST");
        }
        let twice = asking(&server, &chat, "run_command", &args).header("Idempotency-Key", "a").header("Idempotency-Key", "b");
        Answer::of(twice).await.expect_error(400, "BAD_REQUEST");
        // All at the same moment.
        let all = futures_of(20, || keyed("k-3", "c")).await;
        assert!(all.iter().all(|answer| answer.status == 202 && answer.body["id"] == all[0].body["id"]), "{all:?}");
        assert_eq!(whole_list(&server, &calls(&chat), 50).await.len(), 3);
    }

    async fn a_call_that_waits_can_be_cancelled_once_and_for_all(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let call = pending(&server, &chat).await;
        let cancel = format!("{}/cancel", at(&call));
        let over = server.post(&cancel, &json!({})).await.expect(200);
        assert_eq!((&over["status"], &over["error"]["code"]), (&json!("error"), &json!("CANCELLED")));
        assert_eq!(server.post(&cancel, &json!({})).await.expect(200), over, "the second one changes nothing");
        let late = server.post(&format!("{}/decision", at(&call)), &json!({ "approve": true })).await;
        late.expect_error(409, "CONFLICT");
        assert!(late.body["message"].as_str().unwrap().contains("cancelled"), "{late:?}");
    }

    async fn too_many_that_wait_are_refused(database: TestDatabase) {
        let server = Server::start(crate::BINARY, &database, &["--max-queue-per-chat", "2"]);
        let chat = new_chat(&server).await;
        let first = pending(&server, &chat).await;
        pending(&server, &chat).await;
        let refused = ask(&server, &chat, "run_command", json!({ "command": "x" })).await;
        refused.expect_error(429, "RATE_LIMITED");
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
        pending(&server, &new_chat(&server).await).await;
        server.post(&format!("{}/cancel", at(&first)), &json!({})).await.expect(200);
        pending(&server, &chat).await;
    }

    async fn an_agent_may_ask_and_cancel_but_not_decide(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let store = database.open().await;
        let agent = add_token(&store, &kitbag_model::OrgId::local(), "use").await;
        let as_agent = |method, path: &str| server.anonymous(method, path).bearer_auth(&agent);
        let body = json!({ "toolId": "run_command", "args": { "command": "x" } });
        let call = Answer::of(as_agent(Method::POST, &calls(&chat)).json(&body)).await.expect(202);
        let decide = as_agent(Method::POST, &format!("{}/decision", at(&call))).json(&json!({ "approve": true }));
        Answer::of(decide).await.expect_error(403, "FORBIDDEN");
        assert_eq!(server.get(&at(&call)).await.expect(200)["status"], "pending");
        let prepare = as_agent(Method::POST, &format!("{TOOLSETS}/app/prepare"));
        Answer::of(prepare).await.expect_error(403, "FORBIDDEN");
        Answer::of(as_agent(Method::POST, &format!("{}/cancel", at(&call)))).await.expect(200);
    }

    async fn a_tool_whose_code_is_not_known_to_be_broken_has_no_problem(database: TestDatabase) {
        let server = serve(&database);
        let shown = tool(&server, "read_file").await;
        assert_eq!((&shown["problem"], &shown["available"]), (&Value::Null, &json!(true)));
        server.get(&format!("{CHATS}/{}/processes", new_chat(&server).await)).await.expect(200);
        let gone = format!("{CHATS}/{}/processes/x", new_chat(&server).await);
        server.delete(&gone).await.expect_error(404, "NOT_FOUND");
        server.post(&format!("{TOOLSETS}/none/prepare"), &json!({})).await.expect_error(404, "TOOLSET_NOT_FOUND");
    }
}

/// Many at the same time.
async fn futures_of<F: Future<Output = Answer>>(count: usize, make: impl Fn() -> F) -> Vec<Answer> {
    let mut running: Vec<_> = (0..count).map(|_| Box::pin(make())).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        running.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(answer) => {
                done.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}
