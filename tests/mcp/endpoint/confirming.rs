//! A tool that needs a yes, over the protocol: the client's person is asked, or somebody decides elsewhere; there is no way around.

use kitbag_testkit::{Server, TestDatabase};
use serde_json::{Value, json};

use super::{Client, token};
use crate::kit::{CHATS, add, connected, twin, until, with};
use crate::serve;

/// A server whose tools need a yes, and a token that may not give it.
async fn asking(server: &Server) -> String {
    add(server, "twin", with(twin(&[]), json!({ "requiresConfirmation": true }))).await;
    connected(server, "twin").await;
    token(server, "an agent", &["use"]).await
}

const PATH: &str = "/v1/orgs/local/toolsets/twin/mcp";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_sessions_asks_its_person_and_comes_back_with_the_answer() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let agent = asking(&server).await;
    let client = Client::new(&server, PATH).with_token(&agent).offering(json!({ "elicitation": {} }));
    let params = json!({ "name": "echo", "arguments": { "text": "once" } });
    let first = client.ask("tools/call", params.clone()).await;
    assert_eq!(first.result()["resultType"], "input_required");
    let (key, question) = first.result()["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("once"), "{question}");
    let again = |state: &Value, arguments: Value, action: &str| {
        json!({
            "name": "echo", "arguments": arguments, "requestState": state,
            "inputResponses": { key: { "action": action, "content": {} } },
        })
    };
    let state = &first.result()["requestState"];

    // A state is for its request, for its owner, and as it is.
    let other = client.ask("tools/call", again(state, json!({ "text": "other" }), "accept")).await;
    assert_eq!(other.error()["code"], -32602);
    let tampered = json!(format!("{}x", state.as_str().unwrap()));
    assert_eq!(
        client.ask("tools/call", again(&tampered, json!({ "text": "once" }), "accept")).await.error()["code"],
        -32602
    );
    let thief = token(&server, "a thief", &["use"]).await;
    let thief = Client::new(&server, PATH).with_token(&thief).offering(json!({ "elicitation": {} }));
    assert_eq!(
        thief.ask("tools/call", again(state, json!({ "text": "once" }), "accept")).await.error()["code"],
        -32602
    );

    let done = client.ask("tools/call", again(state, json!({ "text": "once" }), "accept")).await;
    assert!(done.text().contains("once"), "{:?}", done.messages);
    // It is good once.
    assert_eq!(
        client.ask("tools/call", again(state, json!({ "text": "once" }), "accept")).await.error()["code"],
        -32602
    );

    let second = client.ask("tools/call", params).await;
    let no = again(&second.result()["requestState"], json!({ "text": "once" }), "decline");
    let denied = client.ask("tools/call", no).await;
    assert!(denied.result()["isError"] == true && denied.text().starts_with("DENIED"), "{:?}", denied.messages);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_asks_its_person_on_its_stream() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let agent = asking(&server).await;
    let mut client = Client::new(&server, PATH).with_token(&agent).offering(json!({ "elicitation": {} }));
    client.begin().await;
    let params = json!({ "name": "echo", "arguments": { "text": "yes" } });
    let body = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    let mut stream = client.in_session(&body).send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut heard = String::new();
    let question: Value = loop {
        let part = stream.chunk().await.unwrap().expect("a question");
        heard.push_str(std::str::from_utf8(&part).unwrap());
        let lines = heard.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        if let Some(question) = lines.into_iter().find(|message| message["method"] == "elicitation/create") {
            break question;
        }
    };
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } });
    assert_eq!(client.in_session(&answer).send().await.unwrap().status(), 202);
    let rest = stream.text().await.unwrap();
    assert!(rest.contains("\"id\":5") && rest.contains("yes"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_ask_waits_for_somebody_who_decides() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let agent = asking(&server).await;
    let client = Client::new(&server, PATH).with_token(&agent);
    let calling = client.call("echo", json!({ "text": "later" }));
    let deciding = async {
        let chats = until(&server, CHATS, |chats| chats["items"].as_array().is_some_and(|all| !all.is_empty())).await;
        let chat = chats["items"][0]["id"].as_str().unwrap().to_owned();
        let path = format!("{CHATS}/{chat}/tool-calls");
        let calls = until(&server, &path, |calls| calls["items"][0]["status"] == "pending").await;
        let call = format!("{path}/{}", calls["items"][0]["id"].as_str().unwrap());
        // The agent's own token cannot.
        let body = json!({ "approve": true });
        let own = server.anonymous(reqwest::Method::POST, &format!("{call}/decision")).bearer_auth(&agent).json(&body);
        assert_eq!(own.send().await.unwrap().status(), 403);
        server.post(&format!("{call}/decision"), &body).await.expect(200);
    };
    let (heard, ()) = tokio::join!(calling, deciding);
    assert!(heard.text().contains("later"), "{:?}", heard.messages);
}
