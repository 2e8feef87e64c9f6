//! Long calls as tasks: they are found again, asked, answered and taken back, by their owner alone, and after a restart.

use std::time::Duration;

use kitbag_testkit::{Server, TestDatabase, on_both};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Client, Heard, token};
use crate::conformance::Fixture;
use crate::kit::{CHATS, TOOLSETS, bundle, connect, import};
use crate::{BINARY, serve};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const APP: &str = "/v1/orgs/local/toolsets/app/mcp";

/// Each takes longer than a client waits for an answer.
const LONG: &str = r#"
import time
from covalt_toolset import tool

@tool
def wait(seconds: float) -> dict:
    time.sleep(seconds)
    return {"waited": seconds}

@tool
def much(size: int) -> str:
    time.sleep(1)
    return "x" * size

@tool
def rows(count: int) -> dict:
    return {"rows": ["x" * 100] * count}

@tool
def fail() -> str:
    time.sleep(1)
    raise ValueError("it did not work")

@tool(requires_confirmation=True)
def careful(word: str) -> str:
    return word.upper()
"#;

async fn with_tools(database: &TestDatabase) -> Server {
    let server = serve(database);
    let names = ["wait", "much", "rows", "fail", "careful"];
    let tools: String =
        names.iter().map(|name| format!("  - {{id: {name}, entrypoint: \"tools.t:{name}\"}}\n")).collect();
    import(&server, bundle("app", "1.0.0", &format!("tools:\n{tools}"), &[("tools/t.py", LONG)])).await;
    server
}

/// A client that knows tasks, and can ask its person if it `asks`.
fn client<'a>(server: &'a Server, path: &str, asks: bool) -> Client<'a> {
    let mut offers = json!({ "extensions": { TASKS: {} } });
    if asks {
        offers["elicitation"] = json!({});
    }
    Client::new(server, path).offering(offers)
}

/// A call that becomes a task. Its name.
async fn begin(client: &Client<'_>, tool: &str, args: Value) -> String {
    let heard = client.call(tool, args).await;
    let task = heard.result();
    assert_eq!(task["resultType"], "task", "{task}");
    for absent in ["result", "error", "inputRequests", "requestState"] {
        assert!(task.get(absent).is_none(), "{task}");
    }
    task["taskId"].as_str().unwrap().to_owned()
}

async fn on(client: &Client<'_>, method: &str, task: &str) -> Heard {
    let params = match method {
        "tasks/update" => json!({ "taskId": task, "inputResponses": {} }),
        _ => json!({ "taskId": task }),
    };
    client.ask(method, params).await
}

async fn get(client: &Client<'_>, task: &str) -> Value {
    on(client, "tasks/get", task).await.result().clone()
}

/// Asks until it is like this, and no more than it is on the way there.
async fn until(client: &Client<'_>, task: &str, status: &str) -> Value {
    for _ in 0..1200 {
        let now = get(client, task).await;
        assert_eq!((&now["taskId"], &now["resultType"]), (&json!(task), &json!("complete")), "{now}");
        if now["status"] == status {
            return now;
        }
        assert!(["working", "input_required"].contains(&now["status"].as_str().unwrap()), "{now}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never was {status}: {}", get(client, task).await);
}

async fn answer(client: &Client<'_>, task: &str, answers: Value) {
    let heard = client.ask("tasks/update", json!({ "taskId": task, "inputResponses": answers })).await;
    assert_eq!(heard.result(), &json!({ "resultType": "complete" }));
}

on_both! {
    async fn a_long_call_is_a_task_and_a_short_one_is_not(database: TestDatabase) {
        let server = with_tools(&database).await;
        let client = client(&server, APP, true);
        let offered = client.ask("server/discover", json!({})).await;
        assert_eq!(offered.result()["capabilities"]["extensions"][TASKS], json!({}));
        let task = begin(&client, "wait", json!({ "seconds": 1.5 })).await;
        let first = get(&client, &task).await;
        assert_eq!((&first["status"], &first["ttlMs"]), (&json!("working"), &Value::Null), "{first}");
        let done = until(&client, &task, "completed").await;
        assert_eq!(done["result"]["structuredContent"], json!({ "waited": 1.5 }));
        assert!(done["lastUpdatedAt"].as_str() > first["createdAt"].as_str() && done.get("error").is_none(), "{done}");
        // All of it, also of what a record has only the beginning of.
        let large = begin(&client, "much", json!({ "size": 1_000_000 })).await;
        let large = until(&client, &large, "completed").await;
        assert_eq!(large["result"]["content"][0]["text"].as_str().unwrap().len(), 1_000_000);
        let failed = begin(&client, "fail", json!({})).await;
        let failed = until(&client, &failed, "completed").await;
        assert_eq!(failed["result"]["isError"], true);
        assert!(failed["result"]["content"][0]["text"].as_str().unwrap().contains("it did not work"), "{failed}");
        // Who does not know tasks waits.
        let plain = Client::new(&server, APP);
        assert_eq!(plain.call("wait", json!({ "seconds": 1.0 })).await.result()["structuredContent"], json!({ "waited": 1.0 }));
        // They get all of it, too, in both eras.
        let mut plain = plain;
        plain.begin().await;
        let text = json!({ "name": "much", "arguments": { "size": 1_000_000 } });
        let rows = json!({ "name": "rows", "arguments": { "count": 5000 } });
        for heard in [plain.ask("tools/call", text.clone()).await, plain.request(1, "tools/call", text).await] {
            assert_eq!(heard.text().len(), 1_000_000);
        }
        for heard in [plain.ask("tools/call", rows.clone()).await, plain.request(2, "tools/call", rows).await] {
            assert_eq!(heard.result()["structuredContent"]["rows"].as_array().unwrap().len(), 5000);
            let text: Value = serde_json::from_str(heard.text()).unwrap();
            assert_eq!(text, heard.result()["structuredContent"]);
        }
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let refused = on(&plain, method, &task).await;
            assert_eq!((refused.status.as_u16(), &refused.error()["code"]), (400, &json!(-32021)));
            assert_eq!(refused.error()["data"]["requiredCapabilities"]["extensions"][TASKS], json!({}));
        }
        for method in ["tasks/result", "tasks/list"] {
            let unknown = on(&client, method, &task).await;
            assert_eq!((unknown.status.as_u16(), &unknown.error()["code"]), (404, &json!(-32601)));
        }
    }

    async fn a_task_is_taken_back_by_its_owner_alone(database: TestDatabase) {
        let server = with_tools(&database).await;
        let (agent, other) = (token(&server, "an agent", &["use"]).await, token(&server, "another", &["use"]).await);
        let owner = client(&server, APP, true).with_token(&agent);
        let task = begin(&owner, "wait", json!({ "seconds": 600 })).await;
        for stranger in [client(&server, APP, true).with_token(&other), client(&server, APP, true)] {
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                assert_eq!(on(&stranger, method, &task).await.error()["code"], -32602, "{method}");
            }
        }
        for wrong in ["nothing", "a.b", &task[1..]] {
            assert_eq!(on(&owner, "tasks/get", wrong).await.error()["code"], -32602, "{wrong}");
        }
        assert_eq!(get(&owner, &task).await["status"], "working");
        for _ in 0..2 {
            assert_eq!(on(&owner, "tasks/cancel", &task).await.result(), &json!({ "resultType": "complete" }));
            let now = get(&owner, &task).await;
            assert_eq!(now["status"], "cancelled", "{now}");
            assert!(now.get("result").is_none() && now.get("error").is_none(), "{now}");
        }
    }

    async fn tasks_are_found_after_a_kill(database: TestDatabase) {
        let mut server = with_tools(&database).await;
        let (over, cut, waits) = {
            let client = client(&server, APP, true);
            let over = begin(&client, "wait", json!({ "seconds": 1.0 })).await;
            until(&client, &over, "completed").await;
            let waits = begin(&client, "careful", json!({ "word": "yes" })).await;
            (over, begin(&client, "wait", json!({ "seconds": 600 })).await, waits)
        };
        server.signal(Signal::KILL);
        server.wait();
        let server = serve(&database);
        let client = client(&server, APP, true);
        assert_eq!(get(&client, &over).await["result"]["structuredContent"], json!({ "waited": 1.0 }));
        let failed = get(&client, &cut).await;
        assert_eq!((&failed["status"], &failed["error"]["data"]["code"]), (&json!("failed"), &json!("INTERRUPTED")), "{failed}");
        assert!(failed["error"]["code"].is_i64() && failed.get("result").is_none(), "{failed}");
        // Nobody has decided yet.
        let asked = get(&client, &waits).await;
        assert_eq!(asked["status"], "input_required");
        answer(&client, &waits, json!({ "confirm": { "action": "accept", "content": {} } })).await;
        assert_eq!(until(&client, &waits, "completed").await["result"]["content"][0]["text"], "YES");
    }

    async fn a_task_waits_for_a_yes(database: TestDatabase) {
        let server = with_tools(&database).await;
        let agent = token(&server, "an agent", &["use"]).await;
        let asks = client(&server, APP, true).with_token(&agent);
        let task = begin(&asks, "careful", json!({ "word": "secret" })).await;
        let now = get(&asks, &task).await;
        assert_eq!(now["status"], "input_required");
        assert_eq!(now["inputRequests"]["confirm"]["method"], "elicitation/create");
        assert!(now["inputRequests"]["confirm"]["params"]["message"].as_str().unwrap().contains("secret"), "{now}");
        // What is not asked is passed over.
        answer(&asks, &task, json!({ "other": { "action": "accept" } })).await;
        assert_eq!(get(&asks, &task).await["status"], "input_required");
        answer(&asks, &task, json!({ "confirm": { "action": "decline" } })).await;
        let denied = until(&asks, &task, "completed").await;
        assert_eq!(denied["result"]["isError"], true);
        assert!(denied["result"]["content"][0]["text"].as_str().unwrap().starts_with("DENIED"), "{denied}");
        // It is decided once.
        answer(&asks, &task, json!({ "confirm": { "action": "accept" } })).await;
        assert_eq!(get(&asks, &task).await["result"], denied["result"]);
        // Who cannot ask its person waits for somebody else.
        let cannot = client(&server, APP, false).with_token(&agent);
        let task = begin(&cannot, "careful", json!({ "word": "later" })).await;
        let now = get(&cannot, &task).await;
        assert!(now["status"] == "working" && now.get("inputRequests").is_none(), "{now}");
        // Its own word is no person's.
        answer(&cannot, &task, json!({ "confirm": { "action": "accept", "content": {} } })).await;
        let now = get(&cannot, &task).await;
        assert_eq!(now["status"], "working", "{now}");
        let (chat, call) = task.split_once('.').unwrap();
        assert!(now["statusMessage"].as_str().unwrap().contains(&format!("tool decide {call} --chat {chat} --yes")), "{now}");
        server.post(&format!("{CHATS}/{chat}/tool-calls/{call}/decision"), &json!({ "approve": true })).await.expect(200);
        assert_eq!(until(&cannot, &task, "completed").await["result"]["content"][0]["text"], "LATER");
    }
}

/// A server that asks when its client has a task already is answered through the task, whatever its era.
#[tokio::test(flavor = "multi_thread")]
async fn questions_that_come_late_are_asked_by_the_task() {
    let database = TestDatabase::sqlite();
    let server = Server::start(BINARY, &database, &[]);
    for era in ["session", "stateless"] {
        let fixture = Fixture::start(era).await;
        connect(&server, era, json!({ "serverType": "streamable-http", "url": fixture.url })).await;
        let client = client(&server, &format!("{TOOLSETS}/{era}/mcp"), true);
        let task = begin(&client, "late_question", json!({})).await;
        let asked = until(&client, &task, "input_required").await;
        let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(question["params"]["message"], "What is your name?", "{asked}");
        answer(&client, &task, json!({ key: { "action": "accept", "content": { "name": "Alice" } } })).await;
        let done = until(&client, &task, "completed").await;
        assert_eq!(done["result"]["content"][0]["text"], "Late, Alice.");
    }
}

/// A client that listens hears how its tasks are, and of nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_tells_how_tasks_are() {
    let database = TestDatabase::sqlite();
    let server = with_tools(&database).await;
    let (client, stranger) = (client(&server, APP, true), token(&server, "another", &["use"]).await);
    let task = begin(&client, "careful", json!({ "word": "yes" })).await;
    let wanted = json!({ "notifications": { "taskIds": [task, "nothing"] } });
    let stranger = self::client(&server, APP, true).with_token(&stranger);
    let mut deaf = Stream::open(&stranger, &wanted).await;
    assert_eq!(deaf.next().await["params"]["notifications"], json!({}));
    let refused = Client::new(&server, APP).ask("subscriptions/listen", wanted.clone()).await;
    assert_eq!(refused.error()["code"], -32021);
    let mut stream = Stream::open(&client, &wanted).await;
    assert_eq!(stream.next().await["params"]["notifications"], json!({ "taskIds": [task] }));
    let next = async |stream: &mut Stream| {
        let told = stream.next().await;
        assert_eq!(
            (&told["method"], &told["params"]["taskId"]),
            (&json!("notifications/tasks"), &json!(task)),
            "{told}"
        );
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
        told["params"].clone()
    };
    assert!(next(&mut stream).await["inputRequests"]["confirm"].is_object());
    answer(&client, &task, json!({ "confirm": { "action": "accept", "content": {} } })).await;
    let done = loop {
        let told = next(&mut stream).await;
        if told["status"] == "completed" {
            break told;
        }
    };
    assert_eq!(done["result"]["content"][0]["text"], "YES");
    assert!(done.get("resultType").is_none(), "{done}");
}

/// What comes on a subscription.
pub(super) struct Stream {
    response: reqwest::Response,
    heard: String,
}

impl Stream {
    pub(super) async fn open(client: &Client<'_>, params: &Value) -> Self {
        let response = client.asking("subscriptions/listen", params.clone()).send().await.unwrap();
        Self { response, heard: String::new() }
    }

    pub(super) async fn next(&mut self) -> Value {
        loop {
            if let Some((line, rest)) = self.heard.split_once('\n') {
                let message = line.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap());
                self.heard = rest.to_owned();
                match message {
                    Some(message) => return message,
                    None => continue,
                }
            }
            let part = self.response.chunk().await.unwrap().expect("the stream goes on");
            self.heard.push_str(std::str::from_utf8(&part).unwrap());
        }
    }
}

/// A server's own task, early or late, is found under the call that it was the answer to.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_servers_are_passed_on() {
    let database = TestDatabase::sqlite();
    let server = Server::start(BINARY, &database, &[]);
    let fixture = Fixture::start("stateless").await;
    connect(&server, "fixture", json!({ "serverType": "streamable-http", "url": fixture.url })).await;
    for (path, prefix) in [(format!("{TOOLSETS}/fixture/mcp"), ""), ("/mcp".to_owned(), "mcp__fixture__")] {
        let client = client(&server, &path, true);
        let late = begin(&client, &format!("{prefix}late_task"), json!({})).await;
        assert_eq!(until(&client, &late, "completed").await["result"]["content"][0]["text"], "Late, but done.");
        let early = begin(&client, &format!("{prefix}slow_compute"), json!({ "seconds": 600 })).await;
        assert_eq!(on(&client, "tasks/cancel", &early).await.result()["resultType"], "complete");
        assert_eq!(until(&client, &early, "cancelled").await["ttlMs"], 600_000);
        let stranger = token(&server, "another", &["use"]).await;
        let stranger = self::client(&server, &path, true).with_token(&stranger);
        assert_eq!(on(&stranger, "tasks/get", &early).await.error()["code"], -32602);
    }
}
