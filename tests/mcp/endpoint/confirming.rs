//! A tool that needs a yes, over the protocol: the client's person is asked, or somebody decides elsewhere; there is no way around.

use kitbag_testkit::{Behind, Server, TestDatabase};
use serde_json::{Value, json};

use super::{Client, Heard, token};
use crate::kit::{CHATS, add, connected, twin, until, with};
use crate::{BINARY, serve};

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
    let question = asked_on(&mut stream).await;
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } });
    assert_eq!(client.in_session(&answer).send().await.unwrap().status(), 202);
    let rest = stream.text().await.unwrap();
    assert!(rest.contains("\"id\":5") && rest.contains("yes"), "{rest}");
}

/// The question that comes on a stream.
async fn asked_on(stream: &mut reqwest::Response) -> Value {
    let mut heard = String::new();
    loop {
        let part = stream.chunk().await.unwrap().expect("a question");
        heard.push_str(std::str::from_utf8(&part).unwrap());
        let lines = heard.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        if let Some(question) = lines.into_iter().find(|message| message["method"] == "elicitation/create") {
            return question;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_client_that_cannot_ask_after_all_ends_with_its_client() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let agent = asking(&server).await;
    let mut client = Client::new(&server, PATH).with_token(&agent).offering(json!({ "elicitation": {} }));
    client.begin().await;
    let params = json!({ "name": "echo", "arguments": { "text": "yes" } });
    let body = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    let mut stream = client.in_session(&body).send().await.unwrap();
    let question = asked_on(&mut stream).await;
    let error = json!({ "code": -32603, "message": "there is nobody to ask" });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
    assert_eq!(client.in_session(&answer).send().await.unwrap().status(), 202);
    // Somebody else still could.
    let call = pending(&server).await;
    let stop = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } });
    assert_eq!(client.in_session(&stop).send().await.unwrap().status(), 202);
    let over = until(&server, &call, |call| call["status"] != "pending").await;
    assert_eq!(over["error"]["code"], "CANCELLED", "{over}");
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

/// The next call that waits for a yes.
async fn pending(server: &Server) -> String {
    for _ in 0..1200 {
        let chats = server.get(CHATS).await.expect(200);
        for chat in chats["items"].as_array().unwrap() {
            let path = format!("{CHATS}/{}/tool-calls", chat["id"].as_str().unwrap());
            let calls = server.get(&path).await.expect(200);
            let waiting = calls["items"].as_array().unwrap().iter().find(|call| call["status"] == "pending");
            if let Some(call) = waiting {
                return format!("{path}/{}", call["id"].as_str().unwrap());
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("no call waits for a yes");
}

/// A server over HTTP whose tools need a yes, and a token that may not give it.
async fn asking_behind(server: &Server, behind: &Behind) -> String {
    let launch = json!({ "serverType": "streamable-http", "url": behind.url(), "requiresConfirmation": true });
    add(server, "behind", launch).await;
    connected(server, "behind").await;
    token(server, "an agent", &["use"]).await
}

const BEHIND: &str = "/v1/orgs/local/toolsets/behind/mcp";

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_what_was_said_yes_to() {
    for is_newest in [true, false] {
        let database = TestDatabase::sqlite();
        let server = serve(&database);
        let behind = Behind::start(is_newest).await;
        let agent = asking_behind(&server, &behind).await;
        let mut client = Client::new(&server, BEHIND).with_token(&agent);
        client.begin().await;
        let asked = json!({ "name": "echo", "arguments": { "number": 1 }, "_meta": { "traceparent": "00-1-1-01" } });
        for era in ["stateless", "session"] {
            let calling = async {
                match era {
                    "session" => client.request(1, "tools/call", asked.clone()).await,
                    _ => client.ask("tools/call", asked.clone()).await,
                }
            };
            let deciding = async {
                let call = pending(&server).await;
                let body = json!({ "approve": true, "args": { "number": 2 } });
                server.post(&format!("{call}/decision"), &body).await.expect(200);
                server.get(&call).await.expect(200)
            };
            let (heard, record) = tokio::join!(calling, deciding);
            let ran = behind.calls().pop().unwrap();
            assert_eq!((heard.text(), &ran["arguments"]), ("{\"number\":2}", &json!({ "number": 2 })), "{era}");
            assert_eq!(record["args"], json!({ "number": 2 }));
        }
        // None are none, and a server gets an object.
        let calling = client.ask("tools/call", json!({ "name": "echo", "arguments": null }));
        let deciding = async {
            let call = pending(&server).await;
            server.post(&format!("{call}/decision"), &json!({ "approve": true })).await.expect(200);
        };
        assert_eq!(tokio::join!(calling, deciding).0.text(), "{}");
    }
}

/// One request of several rounds, and all that its client is asked.
struct Rounds<'a> {
    client: Client<'a>,
    call: Value,
}

impl Rounds<'_> {
    async fn first(&self) -> Heard {
        self.client.ask("tools/call", self.call.clone()).await
    }

    /// Asks again, with an answer to what was asked.
    async fn again(&self, asked: &Heard, answer: Value) -> Heard {
        let asked = asked.result();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let more = json!({ "requestState": asked["requestState"], "inputResponses": { key: answer } });
        self.client.ask("tools/call", with(self.call.clone(), more)).await
    }
}

/// What is asked in a round.
fn question(heard: &Heard) -> &str {
    let asked = heard.result()["inputRequests"].as_object().unwrap().values().next().unwrap();
    asked["params"]["message"].as_str().unwrap()
}

fn yes() -> Value {
    json!({ "action": "accept", "content": {} })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_is_good_for_one_more_round_of_the_same_call() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let behind = Behind::start(true).await;
    let agent = asking_behind(&server, &behind).await;
    let client = Client::new(&server, BEHIND).with_token(&agent).offering(json!({ "elicitation": {} }));
    let rounds = Rounds { client, call: json!({ "name": "question", "arguments": { "a": 1 } }) };
    let color = |color: &str| json!({ "action": "accept", "content": { "color": color } });

    let asked = rounds.first().await;
    assert!(question(&asked).starts_with("Allow the tool"), "{}", question(&asked));
    let theirs = rounds.again(&asked, yes()).await;
    assert_eq!(question(&theirs), "Which color?");
    let done = rounds.again(&theirs, color("red")).await;
    assert!(done.text().contains("red") && done.text().contains("theirs"), "{}", done.text());
    assert_eq!(behind.calls().len(), 2);

    // The same state again, with another answer: a person is asked, and the server hears nothing before.
    let asked = rounds.again(&theirs, color("blue")).await;
    assert!(question(&asked).starts_with("Allow the tool"), "{}", question(&asked));
    assert_eq!(behind.calls().len(), 2);
    let denied = rounds.again(&asked, json!({ "action": "decline" })).await;
    assert!(denied.text().starts_with("DENIED"), "{}", denied.text());
    assert_eq!(behind.calls().len(), 2);

    // It is the request's and its owner's.
    let theirs = rounds.again(&rounds.first().await, yes()).await;
    let thief = token(&server, "a thief", &["use"]).await;
    let thief = Client::new(&server, BEHIND).with_token(&thief).offering(json!({ "elicitation": {} }));
    let thief = Rounds { client: thief, call: rounds.call.clone() };
    assert_eq!(thief.again(&theirs, color("red")).await.error()["code"], -32602);
    let client = Client::new(&server, BEHIND).with_token(&agent).offering(json!({ "elicitation": {} }));
    let other = Rounds { client, call: json!({ "name": "question", "arguments": { "a": 2 } }) };
    assert_eq!(other.again(&theirs, color("red")).await.error()["code"], -32602);
    assert!(rounds.again(&theirs, color("red")).await.text().contains("red"));

    // A yes to other arguments is none to these.
    let client = Client::new(&server, BEHIND).with_token(&agent).offering(json!({ "elicitation": {} }));
    let first = Rounds { client, call: json!({ "name": "question", "arguments": { "a": 3 } }) };
    first.first().await;
    let call = pending(&server).await;
    let asked = first.first().await;
    server.post(&format!("{call}/decision"), &json!({ "approve": false })).await.expect(200);
    let call = pending(&server).await;
    let body = json!({ "approve": true, "args": { "a": 4 } });
    server.post(&format!("{call}/decision"), &body).await.expect(200);
    let theirs = first.again(&asked, yes()).await;
    assert_eq!(question(&theirs), "Which color?");
    let asked = first.again(&theirs, color("red")).await;
    assert!(question(&asked).starts_with("Allow the tool"), "{}", question(&asked));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waited_in_vain_is_told_where_somebody_says_yes() {
    let database = TestDatabase::sqlite();
    let server = Server::start(BINARY, &database, &["--confirmation-timeout", "1"]);
    let agent = asking(&server).await;
    let mut client = Client::new(&server, PATH).with_token(&agent);
    client.begin().await;
    let params = json!({ "name": "echo", "arguments": { "text": "late" } });
    for heard in [client.ask("tools/call", params.clone()).await, client.request(1, "tools/call", params).await] {
        assert_eq!(heard.result()["isError"], true);
        let chat = server.get(CHATS).await.expect(200)["items"][0]["id"].as_str().unwrap().to_owned();
        let calls = server.get(&format!("{CHATS}/{chat}/tool-calls")).await.expect(200);
        let ids: Vec<&str> =
            calls["items"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap()).collect();
        let told = heard.text();
        assert!(told.starts_with("DENIED: nobody answered in time"), "{told}");
        let says = |id: &&str| {
            told.contains(&format!("`kitbag tool decide {id} --chat {chat} --yes`"))
                && told.contains(&format!("{}/chats/{chat}/calls/{id}", server.url))
        };
        assert!(ids.iter().any(says), "{told} of {ids:?}");
    }
}
