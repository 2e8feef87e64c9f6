//! One server behind its own address: what Kitbag has no name for goes to it and comes from it all the same.

use kitbag_testkit::TestDatabase;
use kitbag_testkit::endpoint::Stream;
use serde_json::{Value, json};

use super::Client;
use crate::kit::{connect, rich};
use crate::serve;

const PATH: &str = "/v1/orgs/local/mcp-servers/rich~rich/mcp";
const BIG: &str = "123456789012345678901234567890";

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_here_knows_is_the_servers_to_answer() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "rich", rich(&[])).await;
    let mut client = Client::new(&server, PATH);
    client.begin().await;
    let mut number = 0;
    for newest in [true, false] {
        let mut ask = async |method: &str, params: Value| {
            number += 1;
            if newest { client.ask(method, params).await } else { client.request(number, method, params).await }
        };
        assert_eq!(ask("example/double", json!({ "number": 21 })).await.result()["doubled"], 42);
        assert_eq!(ask("example/unknown", json!({})).await.error()["code"], -32601);
        // Nothing of what a server says of its refusal is lost.
        let refused = ask("example/refuse", json!({})).await;
        assert_eq!((&refused.error()["code"], &refused.error()["data"]), (&json!(-32055), &json!({ "why": "so" })));
        assert_eq!(refused.error()["message"].as_str().unwrap().len(), 9000);
        // What is about the connection is between the client and us, and tasks are of ours.
        for ours in ["notifications/example", "tasks/list", "tasks/result", "subscriptions/other"] {
            assert_eq!(ask(ours, json!({})).await.error()["code"], -32601, "{ours}");
        }
    }
    let heard: Value = serde_json::from_str(client.call("heard", json!({})).await.text()).unwrap();
    let heard = heard.to_string();
    assert!(heard.contains("example/unknown"), "{heard}");
    for ours in ["notifications/example", "tasks/", "subscriptions/"] {
        assert!(!heard.contains(ours), "{heard}");
    }
    // Elsewhere there is more than one who could be meant.
    let everything = Client::new(&server, "/mcp");
    assert_eq!(everything.ask("example/double", json!({ "number": 1 })).await.error()["code"], -32601);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_says_of_itself_reaches_the_server_that_asked() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "rich", rich(&[])).await;
    for path in [PATH, "/mcp"] {
        let tool = |name: &str| if path == PATH { name.to_owned() } else { format!("mcp__rich__{name}") };
        let mut client = Client::new(&server, path).offering(json!({ "roots": { "listChanged": true } }));
        client.begin().await;
        let roots = json!({ "roots": [{ "uri": "file:///a" }] });
        // From the second time on it has a connection of its own.
        for id in [1, 2] {
            let (question, _) = client.answering(id, &tool("ask"), json!({ "what": "roots" }), roots.clone()).await;
            assert_eq!(question["method"], "roots/list");
        }
        for said in ["notifications/roots/list_changed", "notifications/example"] {
            let body = json!({ "jsonrpc": "2.0", "method": said, "params": { "from": path } });
            assert_eq!(client.in_session(&body).send().await.unwrap().status(), 202);
        }
        let heard = async || {
            let heard = client.request(3, "tools/call", json!({ "name": tool("heard"), "arguments": {} })).await;
            serde_json::from_str::<Value>(heard.text()).unwrap()
        };
        let has = |heard: &Value, method: &str| heard.as_array().unwrap().iter().any(|one| one["method"] == method);
        let mut now = heard().await;
        while !has(&now, "notifications/roots/list_changed") {
            now = heard().await;
        }
        assert_eq!(has(&now, "notifications/example"), path == PATH, "{now}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_says_by_itself_reaches_whom_it_is_for() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "rich", rich(&[])).await;
    let log = async |client: &Client<'_>, level: &str, text: &str| {
        let params = json!({ "name": "log", "arguments": { "level": level, "text": text } });
        assert_eq!(client.request(9, "tools/call", params).await.text(), "soon");
    };
    let mut one = Client::new(&server, PATH).offering(json!({ "elicitation": { "url": {} } }));
    let (mut two, mut everything) = (Client::new(&server, PATH), Client::new(&server, "/mcp"));
    one.begin().await;
    two.begin().await;
    everything.begin().await;
    let (mut to_one, mut to_two) = (one.listen(None).await, two.listen(None).await);
    let mut to_all = everything.listen(None).await;
    two.request(1, "logging/setLevel", json!({ "level": "error" })).await;
    // On the connection that both share: to both, as far as they want it.
    log(&one, "info", "for those who read all").await;
    assert_eq!(to_one.until("notifications/message").await["params"]["data"], "for those who read all");
    log(&one, "error", "for both").await;
    assert_eq!(to_one.until("notifications/message").await["params"]["data"], "for both");
    assert_eq!(to_two.until("notifications/message").await["params"]["data"], "for both");
    // One is sent somewhere, and then has a connection of its own. That it is done there is told to nobody else, on either connection.
    let visit = json!({ "what": "url", "finish": true });
    for id in [1, 2] {
        let (question, _) = one.answering(id, "ask", visit.clone(), json!({ "action": "accept" })).await;
        assert_eq!(question["params"]["elicitationId"], "visit-1");
        let done = to_one.until("notifications/elicitation/complete").await;
        assert_eq!(done["params"], json!({ "elicitationId": "visit-1" }));
    }
    log(&one, "error", "for one alone").await;
    assert_eq!(to_one.until("notifications/message").await["params"]["data"], "for one alone");
    log(&two, "error", "for two alone").await;
    let next = to_two.next().await.unwrap();
    assert_eq!(next["params"]["data"], "for two alone", "and nothing else meanwhile");
    // Who came for everything hears of no server what it said to nobody.
    server.post("/v1/orgs/local/toolsets", &json!({ "id": "new", "name": "New" })).await.expect(201);
    assert_eq!(to_all.next().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_offered_all_that_a_client_may_have_and_told_what_this_one_has_not() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "rich", rich(&[])).await;
    let offered: Value =
        serde_json::from_str(Client::new(&server, PATH).call("offered", json!({})).await.text()).unwrap();
    assert_eq!(offered["elicitation"], json!({ "form": {}, "url": {} }));
    assert_eq!(offered["sampling"], json!({ "context": {}, "tools": {} }));
    for (what, able, unable, missing) in [
        ("url", json!({ "elicitation": { "url": {} } }), json!({ "elicitation": {} }), "elicitation/url"),
        ("form", json!({ "elicitation": {} }), json!({ "elicitation": { "url": {} } }), "elicitation/form"),
        ("tools", json!({ "sampling": { "tools": {} } }), json!({ "sampling": {} }), "sampling/tools"),
    ] {
        let mut client = Client::new(&server, PATH).offering(able);
        client.begin().await;
        let answer = json!({ "action": "accept", "role": "assistant" });
        let (question, result) = client.answering(1, "ask", json!({ "what": what }), answer).await;
        assert!(question["method"].is_string() && result["content"][0]["text"].as_str().unwrap().contains("accept"));
        let newest = Client::new(&server, PATH).offering(unable.clone());
        let refused = newest.call("ask", json!({ "what": what, "strict": true })).await;
        assert_eq!(refused.error()["code"], -32021, "{what}");
        let needed = &refused.error()["data"]["requiredCapabilities"];
        assert!(needed.pointer(&format!("/{missing}")).is_some(), "{needed}");
        let mut session = Client::new(&server, PATH).offering(unable);
        session.begin().await;
        let told = session.request(1, "tools/call", json!({ "name": "ask", "arguments": { "what": what } })).await;
        assert!(told.text().contains("-32602"), "{}", told.text());
    }
}

/// What a client says beside its refusal is for the server that asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_a_client_reaches_the_server_whole() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "rich", rich(&[])).await;
    let mut client = Client::new(&server, PATH).offering(json!({ "elicitation": {} }));
    client.begin().await;
    let error = json!({ "code": -32042, "message": "not now", "data": { "until": "tomorrow" } });
    let call = json!({ "name": "ask", "arguments": { "what": "form" } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
    let mut stream = Stream::of(client.in_session(&body).send().await.unwrap());
    let question = stream.until("elicitation/create").await;
    let refusal = json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
    assert_eq!(client.in_session(&refusal).send().await.unwrap().status(), 202);
    let told = stream.next().await.unwrap();
    let told: Value = serde_json::from_str(told["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(told, error);
}

/// How far a client is with what a server asked of it, that server hears, wherever the client came in.
#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_a_client_reaches_the_server_that_asked() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "rich", rich(&[])).await;
    connect(&server, "other", rich(&["other"])).await;
    for (path, front) in [(PATH, ""), ("/v1/orgs/local/toolsets/rich/mcp", ""), ("/mcp", "mcp__rich__")] {
        let mut client = Client::new(&server, path).offering(json!({ "sampling": { "tools": {} } }));
        client.begin().await;
        let (ask, answer) = (format!("{front}ask"), json!({ "role": "assistant" }));
        // From the second time on it has a connection of its own.
        client.answering(1, &ask, json!({ "what": "tools" }), answer.clone()).await;
        let call = json!({ "name": ask, "arguments": { "what": "tools" } });
        let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call });
        let mut stream = Stream::of(client.in_session(&body).send().await.unwrap());
        let question = stream.until("sampling/createMessage").await;
        let token = &question["params"]["_meta"]["progressToken"];
        let params = json!({ "progressToken": token, "progress": 1, "message": path });
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        assert_eq!(client.in_session(&progress).send().await.unwrap().status(), 202);
        let said = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
        assert_eq!(client.in_session(&said).send().await.unwrap().status(), 202);
        stream.next().await.unwrap();
        let heard = client.request(3, "tools/call", json!({ "name": format!("{front}heard"), "arguments": {} })).await;
        let heard: Value = serde_json::from_str(heard.text()).unwrap();
        let wanted = json!({ "method": "notifications/progress", "params": params });
        assert!(heard.as_array().unwrap().contains(&wanted), "{path}: {heard}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_any_size_come_back_as_they_were_said() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "rich", rich(&[])).await;
    connect(&server, "other", rich(&["other"])).await;
    let client = Client::new(&server, "/mcp");
    for (method, params) in [
        ("tools/call", json!({ "name": "mcp__rich__link", "arguments": {} })),
        ("resources/list", json!({})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "rich~rich/say" })),
        ("resources/read", json!({ "uri": "kitbag-mcp:rich~rich/thing://one" })),
    ] {
        let text = client.asking(method, params).send().await.unwrap().text().await.unwrap();
        assert!(text.contains(BIG), "{method}: {text}");
        assert!(method == "prompts/list" || text.contains("kitbag-mcp:rich~rich/thing://one"), "{method}: {text}");
    }
    let listed = client.asking("tools/list", json!({})).send().await.unwrap().text().await.unwrap();
    assert!(listed.contains("18446744073709551615"), "{listed}");
}
