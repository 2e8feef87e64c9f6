//! Pages of tools for hosts that show MCP Apps: over HTTP in both eras, and in a real browser.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test starts a browser")]

use std::time::Duration;

use kitbag_testkit::{Server, TestDatabase};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::kit::{CHATS, TOOLSETS, ask, bundle, connect, import, new_chat, set_override, twin};
use crate::serve;
use crate::speaker::Speaker;

const APP: &str = "text/html;profile=mcp-app";

const CODE: &str = r#"
from covalt_toolset import tool

@tool
def chart(title: str, count: int) -> dict:
    """Draws."""
    return {"points": list(range(count)), "odd": "</script><!--<script>\u2028&amp;"}

@tool
def words(text: str) -> str:
    """Says it again."""
    return text
"#;

const MANIFEST: &str = r#"
tools:
  - {id: chart, entrypoint: "tools.t:chart"}
  - {id: words, entrypoint: "tools.t:words"}
  - {id: later, entrypoint: "tools.t:words"}
tool_overrides:
  - tool_id: chart
    renderer: html
    renderer_config:
      artifact: artifacts/chart.html
      data: {all: "$return", last: "$return.points.2", text: "${args.title}: $return.points", cost: "$$5"}
  - {tool_id: words, renderer: html, renderer_config: {content: "<b id=said>$return</b><script>const said = document.getElementById('said').textContent; top.postMessage({rendered: {said, data: window.__TOOL_DATA__}}, '*')</script>"}}
  - {tool_id: later, renderer: html, renderer_config: {artifact: "$return.page"}}
"#;

/// A page that tells the topmost page what it finds, and tries to reach something.
const PAGE: &str = r#"<!doctype html><html lang="de"><head><script>
    const data = window.__TOOL_DATA__;
    (async () => {
        const tried = { data, mode: document.compatMode, lang: document.documentElement.lang, origin: self.origin };
        tried.fetch = await fetch('REACHED').then(() => 'reached', error => error.name);
        try { tried.storage = String(localStorage.length); } catch (error) { tried.storage = error.name; }
        top.postMessage({ rendered: tried }, '*');
    })();
</script></head><body style="height: 321px"></body></html>"#;

fn kit(page: &str) -> Vec<u8> {
    bundle("kit", "1.0.0", MANIFEST, &[("tools/t.py", CODE), ("artifacts/chart.html", page)])
}

fn tool<'v>(list: &'v Value, name: &str) -> &'v Value {
    list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{list}"))
}

/// The document that a host gets for a tool.
async fn document(speaker: &mut Speaker<'_>, uri: &str) -> String {
    let read = speaker.ask("resources/read", json!({ "uri": uri })).await;
    let content = &read["contents"][0];
    assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri), &json!(APP)));
    let nothing = json!({ "connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": [] });
    assert_eq!(content["_meta"]["ui"]["csp"], nothing);
    content["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tools_page_is_a_resource() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    import(&server, kit(PAGE)).await;
    for (path, prefix) in [(format!("{TOOLSETS}/kit/mcp"), ""), ("/mcp".to_owned(), "kit__")] {
        for mut speaker in Speaker::both(&server, &path).await {
            let offered = &speaker.hello["capabilities"]["extensions"]["io.modelcontextprotocol/ui"];
            assert_eq!(*offered, json!({ "mimeTypes": [APP] }));
            let list = speaker.ask("tools/list", json!({})).await;
            let chart = tool(&list, &format!("{prefix}chart"));
            assert_eq!(chart["_meta"]["ui"]["resourceUri"], "ui://kit/chart", "{chart}");
            // Which page that would be is known only after a call.
            assert_eq!(tool(&list, &format!("{prefix}later")).get("_meta"), None);
            let page = document(&mut speaker, "ui://kit/chart").await;
            assert!(page.contains("ui/initialize") && page.contains("default-src 'none'"), "{page}");
            document(&mut speaker, "ui://kit/words").await;
            let missing = if speaker.is_newest() { -32602 } else { -32002 };
            for uri in ["ui://kit/later", "ui://kit/none", "ui://other/chart"] {
                assert_eq!(speaker.refused("resources/read", json!({ "uri": uri })).await, missing, "{uri}");
            }
            // A host finds pages by their tools.
            let resources = speaker.ask("resources/list", json!({})).await;
            assert!(!resources.to_string().contains("ui://"), "{resources}");
        }
        let narrowed = format!("{path}?disabled_tools=kit:chart");
        for mut speaker in Speaker::both(&server, &narrowed).await {
            let missing = if speaker.is_newest() { -32602 } else { -32002 };
            assert_eq!(speaker.refused("resources/read", json!({ "uri": "ui://kit/chart" })).await, missing);
        }
    }
}

/// A server's own pages are left as they are; where there are many servers, they say whose they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_servers_pages_pass() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "far", twin(&["--app"])).await;
    let servers = format!("{}/far~far/mcp", crate::kit::SERVERS);
    for (path, name, uri) in [
        (servers, "shown", "ui://twin/page"),
        (format!("{TOOLSETS}/far/mcp"), "shown", "ui://twin/page"),
        ("/mcp".to_owned(), "mcp__far__shown", "kitbag-mcp:far~far/ui://twin/page"),
    ] {
        for mut speaker in Speaker::both(&server, &path).await {
            let list = speaker.ask("tools/list", json!({})).await;
            let ui = &tool(&list, name)["_meta"]["ui"];
            assert_eq!(*ui, json!({ "resourceUri": uri, "visibility": ["app"] }), "{path}");
            let read = speaker.ask("resources/read", json!({ "uri": uri })).await;
            let content = &read["contents"][0];
            assert_eq!((&content["uri"], &content["text"]), (&json!(uri), &json!("<p>theirs</p>")), "{path}");
            assert_eq!(content["_meta"]["ui"]["csp"], json!({ "connectDomains": ["https://example.org"] }), "{path}");
        }
    }
    // What somebody says about showing it goes before what its server does.
    let body = json!({ "renderer": "html", "rendererConfig": { "content": "<p>ours</p>" } });
    set_override(&server, "far", "far:shown", body).await;
    for mut speaker in Speaker::both(&server, "/mcp").await {
        let list = speaker.ask("tools/list", json!({})).await;
        let ui = &tool(&list, "mcp__far__shown")["_meta"]["ui"];
        assert_eq!(*ui, json!({ "resourceUri": "ui://far/far/shown", "visibility": ["app"] }));
        assert!(document(&mut speaker, "ui://far/far/shown").await.contains("ours"));
    }
}

/// An app knows its server's tools and pages by the names that they have there, and hosts pass those on as they are.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_calls_its_servers_tools_by_their_own_names() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "far", twin(&["--app"])).await;
    connect(&server, "near", twin(&[])).await;
    for mut speaker in Speaker::both(&server, "/mcp").await {
        let shown = speaker.ask("tools/call", json!({ "name": "shown", "arguments": {} })).await;
        assert_eq!(shown["content"][0]["text"], "shown", "{shown}");
        let read = speaker.ask("resources/read", json!({ "uri": "ui://twin/page" })).await;
        assert_eq!(read["contents"][0]["text"], "<p>theirs</p>", "{read}");
        // Both servers have such a one.
        assert_eq!(speaker.refused("tools/call", json!({ "name": "echo", "arguments": {} })).await, -32602);
    }
    // What a request leaves out is no more there under one name than under another.
    for path in ["/mcp?disabled_tools=shown", "/mcp?toolsets=near"] {
        for mut speaker in Speaker::both(&server, path).await {
            assert_eq!(
                speaker.refused("tools/call", json!({ "name": "shown", "arguments": {} })).await,
                -32602,
                "{path}"
            );
            let missing = if speaker.is_newest() { -32602 } else { -32002 };
            assert_eq!(speaker.refused("resources/read", json!({ "uri": "ui://twin/page" })).await, missing, "{path}");
        }
    }
    // At a toolset's endpoint the name that models see everywhere is good, too: it stays so when the toolset gets another tool of that name.
    for mut speaker in Speaker::both(&server, &format!("{TOOLSETS}/far/mcp")).await {
        for name in ["shown", "mcp__far__shown"] {
            let shown = speaker.ask("tools/call", json!({ "name": name, "arguments": {} })).await;
            assert_eq!(shown["content"][0]["text"], "shown", "{shown}");
        }
    }
}

/// What the page is told about the app of a call, and what it finds on the stage.
#[tokio::test(flavor = "multi_thread")]
async fn a_servers_page_is_on_the_stage() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "far", twin(&["--app"])).await;
    let chat = new_chat(&server).await;
    let app_of = async |tool: &str| {
        let call = ask(&server, &chat, &format!("mcp:far~far:{tool}"), json!({})).await.expect(200);
        let path = format!("{CHATS}/{chat}/tool-calls/{}/app", call["id"].as_str().unwrap());
        server.get(&path).await.expect(200)
    };
    let app = app_of("shown").await;
    assert_eq!(app["tool"]["_meta"]["ui"]["resourceUri"], "ui://twin/page");
    let tools = app["tools"].as_array().unwrap();
    assert!(tools.contains(&json!({ "name": "shown", "id": "mcp:far~far:shown" })), "{app}");
    let host = app["url"].as_str().unwrap().strip_prefix("http://").unwrap().strip_suffix('/').unwrap();
    assert!(host.contains(".localhost:"), "{app}");
    let at = async |path: &str| {
        let answer = server.anonymous(Method::GET, path).header("host", host).send().await.unwrap();
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        (answer.status().as_u16(), policy, answer.text().await.unwrap())
    };
    let (status, policy, around) = at("/").await;
    assert_eq!(status, 200);
    assert!(around.contains("frame.src = '/app'") && !around.contains("theirs"), "{around}");
    assert!(policy.contains("frame-src 'self'") && policy.contains("frame-ancestors http://localhost:*"), "{policy}");
    let (status, policy, page) = at("/app").await;
    assert_eq!((status, page.as_str()), (200, "<p>theirs</p>"));
    assert!(policy.starts_with("sandbox allow-scripts; default-src 'none'; "), "{policy}");
    assert!(policy.contains("connect-src https://example.org; "), "{policy}");
    assert_eq!(at("/healthz").await.0, 404);
    // A tool without a page, and a tool of ours.
    assert_eq!(app_of("echo").await, json!({ "url": null, "tool": null, "tools": [] }));
    let ours = ask(&server, &chat, "list_files", json!({})).await.expect(200);
    let path = format!("{CHATS}/{chat}/tool-calls/{}/app", ours["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.expect(200)["url"], Value::Null);
}

/// The host's side of an app: it shows the document as the specification has it, plays the handshake, and tells everything that it
/// hears.
const HOST: &str = r#"<!doctype html><title>host</title><script>
    const report = value => fetch('/report', { method: 'POST', body: JSON.stringify(value) });
    const play = PLAY;
    let frame;
    addEventListener('message', ({ source, data }) => {
        if (data.rendered) return report({ said: data, inside: source !== frame.contentWindow });
        const say = message => frame.contentWindow.postMessage({ jsonrpc: '2.0', ...message }, '*');
        if (data.method === 'ui/initialize') {
            const result = { protocolVersion: data.params.protocolVersion, hostInfo: { name: 'test', version: '1' }, hostCapabilities: {}, hostContext: {} };
            say({ id: data.id, result });
        } else if (data.method === 'ui/notifications/initialized') {
            say({ id: 7, method: 'ping' });
            say({ method: 'ui/notifications/tool-input', params: { arguments: play.arguments } });
            say({ method: 'ui/notifications/tool-result', params: play.results.shift() });
        } else if (data.method === 'ui/notifications/size-changed' && data.params.height >= 321 && play.results.length) {
            say({ method: 'ui/notifications/tool-result', params: play.results.shift() });
        }
        report({ heard: data });
    });
</script><body><script>
    frame = document.createElement('iframe');
    frame.setAttribute('sandbox', 'allow-scripts');
    frame.srcdoc = play.document;
    document.body.append(frame);
</script>"#;

/// Everything that a host heard, until it has heard enough.
async fn hosted(play: &Value, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let page = HOST.replace("PLAY", &play.to_string().replace('<', "\\u003c").replace("REACHED", &address));
    let (send, mut reports) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (page, send) = (page.clone(), send.clone());
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let body = loop {
                    if stream.read_buf(&mut bytes).await.unwrap() == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head
                        .lines()
                        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
                    if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                        break body.to_owned();
                    }
                };
                let head = String::from_utf8_lossy(&bytes).into_owned();
                let said = if head.starts_with("GET / ") { page } else { String::new() };
                if head.starts_with("POST /report ") {
                    let _ = send.send(serde_json::from_str::<Value>(&body).unwrap());
                } else if !head.starts_with("GET / ") && !head.starts_with("GET /favicon") {
                    let _ = send.send(json!({ "reached": head.lines().next() }));
                }
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}",
                    said.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    let profile = tempfile::tempdir().unwrap();
    let _browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--remote-debugging-port=0", &address])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("Chromium starts; install it: apt-get install chromium");
    let mut heard = Vec::new();
    while !enough(&heard) {
        let said = tokio::time::timeout(Duration::from_secs(60), reports.recv()).await;
        heard.push(said.unwrap_or_else(|_| panic!("no more is heard after {heard:#?}")).unwrap());
    }
    heard
}

fn rendered(heard: &[Value]) -> Vec<&Value> {
    heard.iter().filter_map(|said| said["said"].get("rendered")).collect()
}

/// The page of a tool of ours, and what a call of it returns, as its client gets it.
async fn called(server: &Server, name: &str, arguments: &Value) -> (String, Value) {
    let mut speaker = Speaker::new(server, &format!("{TOOLSETS}/kit/mcp"), crate::speaker::NEWEST).await;
    let uri = format!("ui://kit/{name}");
    let page = document(&mut speaker, &uri).await;
    (page, speaker.ask("tools/call", json!({ "name": name, "arguments": arguments })).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_shows_the_page_with_the_data_of_the_call() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    import(&server, kit(PAGE)).await;
    let arguments = json!({ "title": "Sales", "count": 4 });
    let (page, result) = called(&server, "chart", &arguments).await;
    let odd = "</script><!--<script>\u{2028}&amp;";
    assert_eq!(result["structuredContent"], json!({ "points": [0, 1, 2, 3], "odd": odd }), "{result}");
    let mut second = result.clone();
    second["structuredContent"]["points"] = json!([7, 8, 9]);
    let play = json!({ "document": page, "arguments": arguments, "results": [result, second] });
    // The page is in a frame of its own, so that there is a new one for each result. Where a host allows none, it is there too, once.
    let mut frameless = play.clone();
    frameless["document"] = play["document"].as_str().unwrap().replacen("frame.srcdoc =", "frame.title =", 1).into();
    assert_ne!(frameless, play);
    for (play, times, inside) in [(play, 2, true), (frameless, 1, false)] {
        let heard = hosted(&play, |heard| rendered(heard).len() == times).await;
        let data = |points: Value, last: i64, text: &str| json!({ "all": { "points": points, "odd": odd }, "last": last, "text": text, "cost": "$5" });
        let wanted = [data(json!([0, 1, 2, 3]), 2, "Sales: [0,1,2,3]"), data(json!([7, 8, 9]), 9, "Sales: [7,8,9]")];
        for (tried, wanted) in rendered(&heard).into_iter().zip(wanted) {
            assert_eq!(tried["data"], wanted);
            assert_eq!((&tried["mode"], &tried["lang"]), (&json!("CSS1Compat"), &json!("de")), "{tried}");
            // Nothing is reachable, and nothing is its own.
            assert_eq!((&tried["fetch"], &tried["storage"]), (&json!("TypeError"), &json!("SecurityError")), "{tried}");
            assert_eq!(tried["origin"], "null");
        }
        assert!(heard.iter().all(|said| said.get("reached").is_none()), "{heard:?}");
        assert!(
            heard.iter().filter(|said| said.get("said").is_some()).all(|said| said["inside"] == inside),
            "{heard:?}"
        );
        let first = &heard[0]["heard"];
        assert_eq!(
            (&first["method"], &first["params"]["protocolVersion"]),
            (&json!("ui/initialize"), &json!("2026-01-26"))
        );
        let said = |what: &Value| heard.iter().any(|said| said["heard"] == *what);
        assert!(said(&json!({ "jsonrpc": "2.0", "id": 7, "result": {} })), "{heard:?}");
    }
}

/// A page that is made of the result.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_shows_what_a_tool_says() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    import(&server, kit(PAGE)).await;
    // A text that looks like a number is a text still: the tool says that it returns one.
    let arguments = json!({ "text": "5" });
    let (page, result) = called(&server, "words", &arguments).await;
    let play = json!({ "document": page, "arguments": arguments, "results": [result] });
    let heard = hosted(&play, |heard| rendered(heard).len() == 1).await;
    assert_eq!(*rendered(&heard)[0], json!({ "said": "5", "data": "5" }));
}
