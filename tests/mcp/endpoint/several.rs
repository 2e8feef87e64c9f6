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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tools_is_there_for_what_else_it_has() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "a", rich(&["a"])).await;
    let mut heard = Client::new(&server, "/mcp");
    heard.begin().await;
    let mut told = heard.listen(None).await;
    connect(&server, "bare", rich(&["--bare"])).await;
    let prompts = async |client: &Client<'_>| {
        let prompts = client.ask("prompts/list", json!({})).await;
        fields(prompts.result(), "prompts", "name").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    // Whoever listens hears of it, though no tool is another.
    let until = async |told: &mut kitbag_testkit::endpoint::Stream, wanted: &[&str]| {
        let all = async {
            while prompts(&heard).await != wanted {
                told.until("notifications/prompts/list_changed").await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.unwrap_or_else(|_| panic!("never {wanted:?}"));
    };
    until(&mut told, &["a~a/say", "bare~bare/say"]).await;
    let named = Client::new(&server, "/mcp").with("X-Mcp-Toolsets", "bare");
    assert_eq!(prompts(&named).await, ["say"].map(|name| format!("bare~bare/{name}")));
    assert!(named.ask("tools/list", json!({})).await.names().is_empty());
    let own = Client::new(&server, "/v1/orgs/local/toolsets/bare/mcp").with("X-Mcp-Toolsets", "bare");
    assert_eq!(prompts(&own).await, ["say"]);
    let read = own.ask("resources/read", json!({ "uri": "thing://one" })).await;
    assert_eq!(read.result()["contents"][0]["text"], "1");
    for without in [("X-Mcp-Toolsets", "a"), ("X-Mcp-Disabled-Tools", "mcp:bare~bare")] {
        assert_eq!(prompts(&Client::new(&server, "/mcp").with(without.0, without.1)).await, ["a~a/say"]);
    }
    let chat = crate::kit::new_chat(&server).await;
    for (selectors, wanted) in [(json!(["toolset:a"]), &["a~a/say"][..]), (json!(["-mcp:a~a"]), &["bare~bare/say"])] {
        let request = server.request(reqwest::Method::PATCH, &format!("{}/{chat}", crate::kit::CHATS));
        request.json(&json!({ "toolSelectors": selectors })).send().await.unwrap().error_for_status().unwrap();
        assert_eq!(prompts(&Client::new(&server, "/mcp").with("X-Mcp-Chat", &chat)).await, wanted, "{selectors}");
    }
    let request = server.request(reqwest::Method::DELETE, &at("bare"));
    request.send().await.unwrap().error_for_status().unwrap();
    until(&mut told, &["a~a/say"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_servers_say_of_their_use_reaches_who_has_them() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "a", rich(&["--says", "Look first."])).await;
    connect(&server, "b", rich(&["--says", "Then leap."])).await;
    for (path, said) in [
        ("/v1/orgs/local/mcp-servers/a~a/mcp", "Look first."),
        ("/v1/orgs/local/toolsets/a/mcp", "Look first."),
        ("/mcp?toolsets=a", "## Server a~a\n\nLook first."),
        ("/mcp", "## Server a~a\n\nLook first.\n\n## Server b~b\n\nThen leap."),
    ] {
        let mut client = Client::new(&server, path);
        assert_eq!(client.begin().await.result()["instructions"], said, "{path}");
        let found = client.ask("server/discover", json!({})).await;
        assert_eq!(found.result()["instructions"], said, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_chat_leaves_out_renames_nothing() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    let one = |id: &str| crate::kit::with(json!({ "id": id, "requiresConfirmation": false }), rich(&[id]));
    let body = json!({ "id": "two", "name": "Two", "mcpServers": [one("a"), one("b")] });
    server.post("/v1/orgs/local/toolsets", &body).await.expect(201);
    for id in ["two~a", "two~b"] {
        crate::kit::connected(&server, id).await;
    }
    let chat = crate::kit::new_chat(&server).await;
    let request = server.request(reqwest::Method::PATCH, &format!("{}/{chat}", crate::kit::CHATS));
    request.json(&json!({ "toolSelectors": ["mcp:two~a"] })).send().await.unwrap().error_for_status().unwrap();
    let mut client = Client::new(&server, "/v1/orgs/local/toolsets/two/mcp").with("X-Mcp-Chat", &chat);
    let names = client.tools().await;
    assert!(names.len() == 7 && names.iter().all(|name| name.starts_with("mcp__a__")), "{names:?}");
    let link = names.iter().find(|name| name.ends_with("link")).unwrap();
    for linked in [
        client.call(link, json!({})).await,
        client.request(2, "tools/call", json!({ "name": link, "arguments": {} })).await,
    ] {
        // What it points to can be read under the name that it has.
        let uri = linked.result()["content"][0]["uri"].as_str().unwrap().to_owned();
        let read = client.ask("resources/read", json!({ "uri": uri })).await;
        assert_eq!((uri.as_str(), &read.result()["contents"][0]["uri"]), ("kitbag-mcp:two~a/thing://one", &json!(uri)));
    }
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
