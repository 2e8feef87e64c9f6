//! Clients without sessions, whose next request comes to another node: what a request left open, and tasks.

use kitbag_testkit::endpoint::{Client, Heard, token};
use kitbag_testkit::{Behind, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{import, nodes, until};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const PATH: &str = "/v1/orgs/local/toolsets/app/mcp";
const MANIFEST: &str = r#"
id: app
name: An app
version: "1.0.0"
tools:
  - {id: wait, entrypoint: "tools.t:wait"}
  - {id: careful, entrypoint: "tools.t:careful"}
"#;
const TOOLS: &str = r#"
import time
from covalt_toolset import tool

@tool
def wait(seconds: float) -> dict:
    time.sleep(seconds)
    return {"waited": seconds}

@tool(requires_confirmation=True)
def careful(word: str) -> str:
    return word.upper()
"#;

/// An agent of the first of some nodes, whose tools are there.
async fn agent<'a>(servers: &'a [Server; 2], offers: Value) -> Client<'a> {
    import(&servers[0], MANIFEST, &[("tools/t.py", TOOLS)]).await;
    let token = token(&servers[0], "an agent", &["use"]).await;
    Client::new(&servers[0], PATH).with_token(&token).offering(offers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_one_node_is_answered_at_another() {
    let (_installation, mut servers) = nodes::<2>().await;
    let here = agent(&servers, json!({ "elicitation": {} })).await;
    let there = here.at(&servers[1]);
    let again = |asked: &Value, arguments: Value, action: &str| {
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let answers = json!({ key: { "action": action, "content": {} } });
        json!({ "name": "careful", "arguments": arguments, "requestState": asked["requestState"], "inputResponses": answers })
    };
    let call = json!({ "name": "careful", "arguments": { "word": "yes" } });
    for (asking, answering) in [(&here, &there), (&there, &here)] {
        let asked = asking.ask("tools/call", call.clone()).await.result().clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        // Elsewhere, too, it is for its request and its owner, and good once.
        let other = answering.ask("tools/call", again(&asked, json!({ "word": "other" }), "accept")).await;
        assert_eq!(other.error()["code"], -32602);
        let accepted = again(&asked, json!({ "word": "yes" }), "accept");
        let thief = token(&servers[0], "a thief", &["use"]).await;
        let thief = answering.at(&servers[1]).with_token(&thief);
        assert_eq!(thief.ask("tools/call", accepted.clone()).await.error()["code"], -32602);
        assert_eq!(answering.ask("tools/call", accepted.clone()).await.text(), "YES");
        assert_eq!(asking.ask("tools/call", accepted).await.error()["code"], -32602);
        let asked = asking.ask("tools/call", call.clone()).await.result().clone();
        let denied = answering.ask("tools/call", again(&asked, json!({ "word": "yes" }), "decline")).await;
        assert!(denied.result()["isError"] == true && denied.text().starts_with("DENIED"), "{:?}", denied.messages);
    }

    // What was open at a node that is gone is gone, and its client is told to ask again.
    let asked = there.ask("tools/call", call.clone()).await.result().clone();
    let (token, late) = (servers[0].token.clone(), again(&asked, json!({ "word": "yes" }), "accept"));
    servers[1].signal(Signal::KILL);
    servers[1].wait();
    let agent = Client::new(&servers[0], PATH).with_token(&token).offering(json!({ "elicitation": {} }));
    until("it is known that the node is gone", async || {
        let heard = agent.ask("tools/call", late.clone()).await;
        heard.messages.last().is_some_and(|last| last["error"]["code"] == -32602).then_some(())
    })
    .await;
    let asked = agent.ask("tools/call", call).await.result().clone();
    let done = agent.ask("tools/call", again(&asked, json!({ "word": "yes" }), "accept")).await;
    assert_eq!(done.text(), "YES");
}

/// What is asked in a round.
fn question(heard: &Heard) -> &str {
    let asked = heard.result()["inputRequests"].as_object().expect("questions").values().next().unwrap();
    asked["params"]["message"].as_str().unwrap()
}

/// A server behind that asks back has a call made in two rounds; the yes to it is spent at one node, wherever the second round arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_yes_of_one_node_is_good_for_one_more_round_at_all_of_them() {
    let (_installation, mut servers) = nodes::<2>().await;
    let behind = Behind::start(true).await;
    let launch = json!({
        "id": "behind", "serverType": "streamable-http", "url": behind.url(), "requiresConfirmation": true,
    });
    servers[0].post("/v1/orgs/local/mcp-servers", &launch).await.expect(201);
    for server in &servers {
        until("its tools are known", async || {
            let shown = server.get("/v1/orgs/local/mcp-servers/behind").await.expect(200);
            (shown["status"] == "connected" && !shown["toolsSeenAt"].is_null()).then_some(())
        })
        .await;
    }
    let agent = token(&servers[0], "an agent", &["use"]).await;
    let path = "/v1/orgs/local/toolsets/behind/mcp";
    let here = Client::new(&servers[0], path).with_token(&agent).offering(json!({ "elicitation": {} }));
    let there = here.at(&servers[1]);
    let call = json!({ "name": "question", "arguments": { "a": 1 } });
    let again = |asked: &Heard, content: Value| {
        let asked = asked.result();
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let answers = json!({ key: { "action": "accept", "content": content } });
        let mut again = call.clone();
        (again["requestState"], again["inputResponses"]) = (asked["requestState"].clone(), answers);
        again
    };
    for (asking, answering) in [(&here, &there), (&there, &here)] {
        let asked = asking.ask("tools/call", call.clone()).await;
        assert!(question(&asked).starts_with("Allow the tool"), "{}", question(&asked));
        let theirs = answering.ask("tools/call", again(&asked, json!({}))).await;
        assert_eq!(question(&theirs), "Which color?");
        let done = answering.ask("tools/call", again(&theirs, json!({ "color": "red" }))).await;
        assert!(done.text().contains("red"), "{}", done.text());
        let heard = behind.calls().len();
        for client in [asking, answering] {
            let asked = client.ask("tools/call", again(&theirs, json!({ "color": "blue" }))).await;
            assert!(question(&asked).starts_with("Allow the tool"), "{}", question(&asked));
        }
        assert_eq!(behind.calls().len(), heard, "nobody said yes to another round");
    }

    // The node that knew of a yes is gone: a person is asked again.
    let asked = there.ask("tools/call", call.clone()).await;
    let theirs = there.ask("tools/call", again(&asked, json!({}))).await;
    assert_eq!(question(&theirs), "Which color?");
    let heard = behind.calls().len();
    servers[1].signal(Signal::KILL);
    servers[1].wait();
    let here = Client::new(&servers[0], path).with_token(&agent).offering(json!({ "elicitation": {} }));
    let asked = until("it is known that the node is gone", async || {
        let asked = here.ask("tools/call", again(&theirs, json!({ "color": "red" }))).await;
        asked.messages.last().is_some_and(|last| last.get("result").is_some()).then_some(asked)
    })
    .await;
    assert!(question(&asked).starts_with("Allow the tool"), "{}", question(&asked));
    assert_eq!(behind.calls().len(), heard);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_found_answered_and_taken_back_from_every_node() {
    let (_installation, servers) = nodes::<2>().await;
    let here = agent(&servers, json!({ "extensions": { TASKS: {} }, "elicitation": {} })).await;
    let there = here.at(&servers[1]);
    let on = async |client: &Client<'_>, method: &str, task: &str, mut params: Value| {
        params["taskId"] = json!(task);
        client.ask(method, params).await.result().clone()
    };
    let begin = async |client: &Client<'_>, tool: &str, arguments: Value| {
        let task = client.call(tool, arguments).await.result().clone();
        assert_eq!(task["resultType"], "task", "{task}");
        task["taskId"].as_str().unwrap().to_owned()
    };
    for (asking, other) in [(&here, &there), (&there, &here)] {
        let comes_to = async |task: &str, status: &str| {
            until(&format!("the task is {status}"), async || {
                let now = on(other, "tasks/get", task, json!({})).await;
                (now["status"] == status).then_some(now)
            })
            .await
        };
        let task = begin(asking, "wait", json!({ "seconds": 1.0 })).await;
        assert_eq!(comes_to(&task, "completed").await["result"]["structuredContent"], json!({ "waited": 1.0 }));

        let task = begin(asking, "careful", json!({ "word": "yes" })).await;
        comes_to(&task, "input_required").await;
        let answers = json!({ "inputResponses": { "confirm": { "action": "accept", "content": {} } } });
        on(other, "tasks/update", &task, answers).await;
        assert_eq!(comes_to(&task, "completed").await["result"]["content"][0]["text"], "YES");

        let task = begin(asking, "wait", json!({ "seconds": 600 })).await;
        on(other, "tasks/cancel", &task, json!({})).await;
        comes_to(&task, "cancelled").await;
        assert_eq!(on(asking, "tasks/get", &task, json!({})).await["status"], "cancelled");
    }
}
