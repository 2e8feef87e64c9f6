//! Pages of tools and servers that tools started, whose addresses lead to any node.

use futures_util::{SinkExt, StreamExt};
use kitbag_testkit::{Answer, Server};
use reqwest::{Method, header};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::kit::{calls, import, new_chat, nodes, until};

const MANIFEST: &str = r#"
id: app
name: An app
version: "1.0.0"
permissions: {listen: true}
tools:
  - {id: show, entrypoint: "tools.t:show"}
  - {id: serve, entrypoint: "tools.t:serve"}
tool_overrides:
  - {tool_id: show, renderer: html, renderer_config: {artifact: "artifacts/show.html"}}
  - {tool_id: serve, renderer: frame, renderer_config: {port: $return.port}}
"#;

const TOOLS: &str = r#"
import sys
from pathlib import Path
from covalt_toolset import tool, get_context

@tool
def show() -> str:
    return "x"

@tool
def serve() -> dict:
    code = Path(__file__).with_name("loud.py").read_text()
    get_context().start_process([sys.executable, "-c", code], name="loud")
    return {"port": 3000}
"#;

/// A server with a page, and with a WebSocket that says everything again, louder.
const LOUD: &str = r#"
import base64, hashlib, socketserver

class Loud(socketserver.StreamRequestHandler):
    def handle(self):
        key, long = None, b"/long" in self.rfile.readline()
        while (line := self.rfile.readline().strip()):
            if line.lower().startswith(b"sec-websocket-key:"):
                key = line.split(b":")[1].strip()
        if key is None and long:
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nloud!")
            self.rfile.read()
            return
        if key is None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nloud!")
            return
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                         b"sec-websocket-accept: " + accept + b"\r\n\r\n")
        while (head := self.rfile.read(2)):
            mask = self.rfile.read(4)
            said = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(head[1] & 127)))
            if head[0] & 15 != 1:
                return
            self.wfile.write(bytes([0x81, len(said)]) + said.upper())

socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", 3000), Loud).serve_forever()
"#;

/// The toolset on two nodes, and a chat in which one of its tools was called at the first. Where its page is, as whoever asks the second is told.
async fn shown(servers: [&Server; 2], tool: &str) -> reqwest::Url {
    let files = [("artifacts/show.html", "<p>shown to you</p>"), ("tools/t.py", TOOLS), ("tools/loud.py", LOUD)];
    import(servers[0], MANIFEST, &files).await;
    let chat = new_chat(servers[0]).await;
    let call =
        servers[0].post(&calls(&chat), &json!({ "toolId": format!("app:{tool}"), "args": {} })).await.expect(200);
    assert_eq!(call["status"], "success", "{call}");
    let call = servers[1].get(&format!("{}/{}", calls(&chat), call["id"].as_str().unwrap())).await.expect(200);
    call["renderPlan"]["config"]["url"].as_str().unwrap_or_else(|| panic!("no address: {call}")).parse().unwrap()
}

/// The same page at the address of one of the servers.
fn host(server: &Server, url: &reqwest::Url) -> String {
    format!("{}:{}", url.host_str().unwrap(), server.url.rsplit(':').next().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_shown_by_whichever_node_its_address_leads_to() {
    let (_installation, [first, second]) = nodes::<2>().await;
    let url = shown([&first, &second], "show").await;
    for server in [&first, &second] {
        let request = server.anonymous(Method::GET, url.path()).header(header::HOST, host(server, &url));
        let page = request.send().await.unwrap();
        assert_eq!(page.status(), 200);
        assert!(page.text().await.unwrap().contains("shown to you"));
    }
    // A name that nobody gave out is nobody's, wherever it is asked for.
    let host = url.host_str().unwrap();
    let (label, below) = host.split_once('.').unwrap();
    let wrong = format!("{}.{below}", label.replace(|letter: char| letter.is_ascii_lowercase(), "a"));
    let request = second.anonymous(Method::GET, "/").header(header::HOST, wrong);
    assert_eq!(request.send().await.unwrap().status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_a_tool_started_is_reached_and_spoken_with_from_every_node() {
    let (_installation, [first, second]) = nodes::<2>().await;
    let url = shown([&first, &second], "serve").await;
    for server in [&first, &second] {
        until("the tool's server listens", async || {
            let request = server.anonymous(Method::GET, "/").header(header::HOST, host(server, &url));
            let answer = request.send().await.unwrap();
            (answer.status() == 200 && answer.text().await.unwrap() == "loud!").then_some(())
        })
        .await;
        let mut request = server.url.replace("http:", "ws:").into_client_request().unwrap();
        request.headers_mut().insert(header::HOST, host(server, &url).parse().unwrap());
        let stream = tokio::net::TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
        let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        for said in ["hello", "and again"] {
            socket.send(Message::text(said)).await.unwrap();
            let heard = socket.next().await.unwrap().unwrap();
            assert_eq!(heard.into_text().unwrap().as_str(), said.to_uppercase());
        }
    }
}

/// What another node is asked for keeps the name by which it is known there: a frame that nobody listens behind says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_gone_at_every_node() {
    let (_installation, [first, second]) = nodes::<2>().await;
    let url = shown([&first, &second], "serve").await;
    let chats: Value = first.get(crate::kit::CHATS).await.expect(200);
    let path = format!("{}/{}/processes", crate::kit::CHATS, chats["items"][0]["id"].as_str().unwrap());
    let running = second.get(&path).await.expect(200);
    let running = running["items"][0]["id"].as_str().unwrap_or_else(|| panic!("nothing runs: {running}")).to_owned();
    Answer::of(second.request(Method::DELETE, &format!("{path}/{running}"))).await.expect(204);
    for server in [&first, &second] {
        let request = server.anonymous(Method::GET, "/").header(header::HOST, host(server, &url));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 502, "{}", answer.text().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_paused_node_was_about_to_say_ends_when_it_is_taken_for_dead() {
    let (_installation, [first, second]) = nodes::<2>().await;
    let url = shown([&first, &second], "serve").await;
    let long = || second.anonymous(Method::GET, "/long").header(header::HOST, host(&second, &url));
    let mut page = until("the tool's server listens", async || {
        let answer = long().send().await.unwrap();
        (answer.status() == 200).then_some(answer)
    })
    .await;
    assert_eq!(page.chunk().await.unwrap().unwrap(), "loud!");
    let mut request = second.url.replace("http:", "ws:").into_client_request().unwrap();
    request.headers_mut().insert(header::HOST, host(&second, &url).parse().unwrap());
    let stream = tokio::net::TcpStream::connect(second.url.trim_start_matches("http://")).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().into_text().unwrap().as_str(), "HELLO");

    first.signal(Signal::STOP);
    // Nothing is closed by who sleeps.
    let patience = std::time::Duration::from_secs(60);
    let rest = tokio::time::timeout(patience, page.chunk()).await.expect("the page ends");
    assert!(rest.is_err(), "it did not come whole: {rest:?}");
    let rest = tokio::time::timeout(patience, socket.next()).await.expect("the WebSocket ends");
    assert!(!matches!(rest, Some(Ok(_))), "{rest:?}");
    first.signal(Signal::CONT);
}
