//! Several servers at one address: all of theirs is there under names that say whose it is, whether they sleep or hang.

use std::time::Duration;

use kitbag_testkit::{Server, TestDatabase};
use serde_json::{Value, json};

use super::Client;
use crate::kit::{at, bundle, connect, import, rich, until_status};
use crate::{BINARY, serve};

/// What stands in a list, by one field of its entries.
fn fields<'v>(result: &'v Value, list: &str, field: &str) -> Vec<&'v str> {
    result[list].as_array().unwrap().iter().map(|one| one[field].as_str().unwrap()).collect()
}

const ONE: &str = "kitbag-mcp:a~a/thing://one";

/// What two servers have, to a client of `/mcp`.
async fn has_all(client: &Client<'_>) {
    let resources = client.ask("resources/list", json!({})).await;
    assert_eq!(fields(resources.result(), "resources", "uri"), [ONE, "kitbag-mcp:b~b/thing://one"]);
    let templates = client.ask("resources/templates/list", json!({})).await;
    let templates = fields(templates.result(), "resourceTemplates", "uriTemplate").join(" ");
    assert!(templates.ends_with("kitbag-mcp:a~a/thing://{name} kitbag-mcp:b~b/thing://{name}"), "{templates}");
    let prompts = client.ask("prompts/list", json!({})).await;
    assert_eq!(fields(prompts.result(), "prompts", "name"), ["a~a/say", "b~b/say"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_servers_have_is_found_and_used_under_names_that_say_whose_it_is() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "a", rich(&["a"])).await;
    connect(&server, "b", rich(&["b"])).await;
    let client = Client::new(&server, "/mcp");
    has_all(&client).await;
    // What a prompt brings along can be read under the name that it has there.
    let prompt = client.ask("prompts/get", json!({ "name": "a~a/say" })).await;
    assert_eq!(prompt.result()["messages"][0]["content"]["resource"]["uri"], ONE);
    assert_eq!(prompt.result()["messages"][1]["content"]["text"], "x");
    let read = client.ask("resources/read", json!({ "uri": ONE })).await;
    assert_eq!(read.result()["contents"][0]["uri"], ONE);
    for (about, own) in [
        (json!({ "type": "ref/prompt", "name": "b~b/say" }), "say"),
        (json!({ "type": "ref/resource", "uri": "kitbag-mcp:b~b/thing://{name}" }), "thing://{name}"),
    ] {
        let params = json!({ "ref": about, "argument": { "name": "name", "value": "x" } });
        let completed = client.ask("completion/complete", params).await;
        assert_eq!(completed.result()["completion"]["values"], json!([format!("{own} x")]));
    }
    // How much of the log is wanted both are told.
    let mut session = Client::new(&server, "/mcp");
    session.begin().await;
    session.request(1, "logging/setLevel", json!({ "level": "error" })).await.result();
    for id in ["a", "b"] {
        let heard = client.call(&format!("mcp__{id}__heard"), json!({})).await;
        assert!(
            heard.text().contains("{\"method\": \"logging/setLevel\", \"params\": {\"level\": \"error\"}}"),
            "{id}"
        );
    }
    // Where the client says that it is goes along, though nothing is traced here.
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let params = json!({ "name": "mcp__a__link", "arguments": {}, "_meta": { "traceparent": trace } });
    session.request(2, "tools/call", params).await.result();
    assert!(client.call("mcp__a__heard", json!({})).await.text().contains(trace));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_keeps_nobody_elses_lists() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "a", rich(&["a"])).await;
    connect(&server, "b", rich(&["b"])).await;
    connect(&server, "hangs", rich(&["--hang", "resources/list"])).await;
    let client = Client::new(&server, "/mcp");
    let resources = tokio::time::timeout(Duration::from_secs(60), client.ask("resources/list", json!({}))).await;
    let resources = resources.expect("it comes long before a call would be given up");
    assert_eq!(fields(resources.result(), "resources", "uri"), [ONE, "kitbag-mcp:b~b/thing://one"]);
    // Its other lists are there.
    let prompts = client.ask("prompts/list", json!({})).await;
    assert_eq!(fields(prompts.result(), "prompts", "name"), ["a~a/say", "b~b/say", "hangs~hangs/say"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sleeping_servers_have_is_listed_after_a_restart() {
    let database = TestDatabase::sqlite();
    let mut server = serve(&database);
    connect(&server, "a", rich(&["a"])).await;
    connect(&server, "b", rich(&["b"])).await;
    connect(&server, "plain", crate::kit::twin(&[])).await;
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    let server = Server::start(BINARY, &database, &[]);
    until_status(&server, "a", "disconnected").await;
    has_all(&Client::new(&server, "/mcp")).await;
    // One that has no such lists is not woken for them.
    assert_eq!(server.get(&at("plain")).await.expect(200)["status"], "disconnected");
}

/// Makes more files than are on one page.
const MANY: &str = r#"
from covalt_toolset import tool

@tool
def fill() -> str:
    for number in range(1500):
        with open(f"f {number:04}.txt", "w", encoding="utf-8") as file:
            file.write("x")
    return "full"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_many_files_goes_on() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let tools = "tools:\n  - {id: fill, entrypoint: \"tools.t:fill\"}\n";
    import(&server, bundle("app", "1.0.0", tools, &[("tools/t.py", MANY)])).await;
    let client = Client::new(&server, "/v1/orgs/local/toolsets/app/mcp");
    assert_eq!(client.call("fill", json!({})).await.text(), "full");
    connect(&server, "a", rich(&["a"])).await;
    // With servers behind an address and without.
    for client in [client, Client::new(&server, "/mcp")] {
        let (mut found, mut params) = (Vec::new(), json!({}));
        loop {
            let page = client.ask("resources/list", params).await.result().clone();
            found.extend(fields(&page, "resources", "uri").into_iter().map(ToOwned::to_owned));
            let Some(next) = page.get("nextCursor") else { break };
            params = json!({ "cursor": next });
        }
        found.retain(|uri| uri.starts_with("workspace:///"));
        let expected: Vec<String> = (0..1500).map(|number| format!("workspace:///f%20{number:04}.txt")).collect();
        assert_eq!(found, expected);
    }
    let other = Client::new(&server, "/mcp").ask("resources/list", json!({ "cursor": "kitbag-workspace:/../x" })).await;
    assert_eq!(other.error()["code"], -32602);
}
