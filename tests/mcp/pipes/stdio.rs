//! Pipes, line by line: sessions, questions, flags, the end, and a server that goes away meanwhile.

use kitbag_testkit::{Program, Server, TestDatabase};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Pipe, install};
use crate::kit::{CHATS, add, connect, connected, node, twin, until, with};
use crate::{BINARY, serve};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_everything_in_it() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "everything", node("server-everything", &["stdio"])).await;
    let mut pipe = Pipe::start(&database, &[]);
    pipe.line("this is no message").await;
    let error = pipe.next().await;
    assert_eq!((&error["error"]["code"], error.get("id")), (&json!(-32700), None), "{error}");
    let early = pipe.ask(1, "tools/list", json!({})).await;
    assert!(early["error"]["message"].as_str().unwrap().contains("initialize"), "{early}");
    let hello = pipe.begin(json!({})).await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18", "{hello}");
    let names = pipe.names(2).await;
    assert!(names.contains(&"mcp__everything__echo".to_owned()), "{names:?}");
    assert!(pipe.text(3, "mcp__everything__echo", json!({ "message": "hello" })).await.contains("hello"));

    // How far it is comes before the answer.
    let long = "mcp__everything__trigger-long-running-operation";
    let params =
        json!({ "name": long, "arguments": { "duration": 1, "steps": 4 }, "_meta": { "progressToken": "far" } });
    pipe.say(json!({ "id": 4, "method": "tools/call", "params": params })).await;
    let mut far = Vec::new();
    let answer = loop {
        let message = pipe.next().await;
        match message["method"].as_str() {
            Some("notifications/progress") => far.push(message["params"]["progress"].as_f64().unwrap()),
            // A server's tools may be heard of at any time.
            Some("notifications/tools/list_changed") => {}
            _ => break message,
        }
    };
    assert!(answer["id"] == 4 && far.len() >= 3 && far.is_sorted(), "{answer} {far:?}");

    // What is taken back ends, unanswered; the rest goes on.
    let params =
        json!({ "name": long, "arguments": { "duration": 3600, "steps": 36000 }, "_meta": { "progressToken": 5 } });
    pipe.say(json!({ "id": 5, "method": "tools/call", "params": params })).await;
    pipe.until(|message| message["method"] == "notifications/progress").await;
    pipe.say(json!({ "method": "notifications/cancelled", "params": { "requestId": 5 } })).await;
    let chat = server.get(CHATS).await.expect(200)["items"][0]["id"].as_str().unwrap().to_owned();
    let is_over =
        |calls: &Value| calls["items"].as_array().unwrap().iter().any(|call| call["error"]["code"] == "CANCELLED");
    until(&server, &format!("{CHATS}/{chat}/tool-calls"), is_over).await;

    // What is said by itself is heard.
    install(&server).await;
    pipe.until(|message| message["method"] == "notifications/tools/list_changed").await;
    assert!(pipe.names(6).await.iter().any(|name| name.ends_with("greet")));

    // What is under way when the pipe is closed is answered, then that is all.
    pipe.say(json!({ "id": 7, "method": "tools/call", "params": { "name": long, "arguments": { "duration": 1, "steps": 1 } } })).await;
    assert!(!pipe.answered.contains(&json!(5)), "{:?}", pipe.answered);
    let (rest, code, beside) = pipe.close().await;
    assert!(rest.iter().any(|message| message["id"] == 7 && message["result"].is_object()), "{rest:?}");
    assert!(rest.iter().all(|message| message["id"] != 5), "{rest:?}");
    assert_eq!((code, beside.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_person_is_asked() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    add(&server, "twin", with(twin(&[]), json!({ "requiresConfirmation": true }))).await;
    connected(&server, "twin").await;
    let mut pipe = Pipe::start(&database, &["--server", "twin"]);
    pipe.begin(json!({ "elicitation": {} })).await;
    for (id, action, wanted) in [(1, "accept", "please"), (2, "decline", "DENIED")] {
        let params = json!({ "name": "echo", "arguments": { "text": "please" } });
        pipe.say(json!({ "id": id, "method": "tools/call", "params": params })).await;
        let question = pipe.until(|message| message["method"] == "elicitation/create").await;
        pipe.say(json!({ "id": question["id"], "result": { "action": action, "content": {} } })).await;
        let answer = pipe.until(|message| message["id"] == id && message.get("method").is_none()).await;
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().starts_with(wanted), "{answer}");
    }
    assert_eq!(pipe.close().await.1, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_say_which_tools() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "twin", twin(&[])).await;
    install(&server).await;
    let chat = crate::kit::new_chat(&server).await;
    let listed = async |flags: &[&str]| {
        let mut pipe = Pipe::start(&database, flags);
        pipe.begin(json!({})).await;
        let names = pipe.names(1).await;
        assert_eq!(pipe.close().await.1, Some(0));
        names
    };
    let all = listed(&[]).await;
    let some =
        listed(&["--toolsets", "builtin", "--enabled-tools", "mcp:twin~twin:echo", "--disabled-tools", "write_file"])
            .await;
    assert!(some.contains(&"read_file".to_owned()) && some.contains(&"mcp__twin__echo".to_owned()), "{some:?}");
    assert!(!some.contains(&"write_file".to_owned()) && some.len() < all.len(), "{some:?}");
    assert!(listed(&["--dynamic"]).await.contains(&"call_tool".to_owned()));
    assert!(listed(&["--toolset", "twin"]).await.contains(&"echo".to_owned()));
    assert!(listed(&["--server", "twin~twin"]).await.contains(&"echo".to_owned()));

    // The chat is the one that is named.
    let mut pipe = Pipe::start(&database, &["--chat", &chat]);
    pipe.begin(json!({})).await;
    pipe.text(1, "write_file", json!({ "path": "here.txt", "content": "x" })).await;
    let files = server.get(&format!("{CHATS}/{chat}/workspace/files")).await.expect(200);
    assert!(files.to_string().contains("here.txt"), "{files}");
    assert_eq!(pipe.close().await.1, Some(0));

    // What is wrong with the lists is what the client is told; what is not there at all ends it.
    let mut pipe = Pipe::start(&database, &["--toolsets", "nothing", "--disabled-tools", "never"]);
    let refused = pipe.begin(json!({})).await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("Unknown toolset: nothing") && message.contains("Unknown disabled tool: never"),
        "{refused}"
    );
    assert_eq!(pipe.close().await.1, Some(0));
    for flags in [["--toolset", "nothing"], ["--server", "nothing"]] {
        let (said, code, beside) = Pipe::start(&database, &flags).close().await;
        assert!(said.is_empty() && code == Some(1) && beside.contains("nothing"), "{said:?} {code:?} {beside}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_first_serves_and_others_go_on_when_it_leaves() {
    let database = TestDatabase::sqlite();
    let mut first = Pipe::start(&database, &[]);
    first.begin(json!({})).await;
    // The second one, and commands, use the server of the first.
    let mut second = Pipe::start(&database, &[]);
    second.begin(json!({})).await;
    second.text(1, "write_file", json!({ "path": "a.txt", "content": "kept" })).await;
    assert!(first.text(1, "read_file", json!({ "path": "a.txt" })).await.contains("kept"));
    let program = Program::on(BINARY, &database);
    assert_eq!(program.run(&["--json", "chat", "list"]).json()["items"].as_array().unwrap().len(), 1);
    let (rest, code, beside) = first.close().await;
    assert_eq!((rest, code, beside.as_str()), (Vec::new(), Some(0), ""));
    // Its session is begun again where there is a server then, which is itself.
    assert!(second.text(2, "read_file", json!({ "path": "a.txt" })).await.contains("kept"));
    assert_eq!(second.close().await.1, Some(0));
    assert!(!database.data().join("server.json").exists());
    assert_eq!(program.run(&["--json", "chat", "list"]).json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restarted_is_found_again() {
    let database = TestDatabase::sqlite();
    let mut server = serve(&database);
    connect(&server, "twin", twin(&[])).await;
    let mut pipe = Pipe::start(&database, &[]);
    pipe.begin(json!({})).await;
    let before = pipe.names(1).await;
    pipe.say(json!({ "id": 2, "method": "tools/call", "params": { "name": "mcp__twin__sleep", "arguments": { "seconds": 600 } } })).await;
    let chat = until(&server, CHATS, |chats| !chats["items"][0].is_null()).await["items"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    until(&server, &format!("{CHATS}/{chat}/tool-calls"), |calls| calls["items"][0]["status"] == "running").await;
    server.signal(Signal::KILL);
    server.wait();
    // What was under way is not lost without a word.
    let lost = pipe.until(|message| message["id"] == 2).await;
    assert!(lost["error"]["message"].as_str().unwrap().contains("went away"), "{lost}");
    let server = Server::start(BINARY, &database, &[]);
    assert_eq!(pipe.names(3).await, before);
    // And what is said by itself is heard again.
    install(&server).await;
    pipe.until(|message| message["method"] == "notifications/tools/list_changed").await;
    let (_, code, _) = pipe.close().await;
    assert_eq!(code, Some(0));
}
