//! Servers on the web: who has to sign in, and what goes away and comes back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kitbag_mcp::connection::{Boxed, Tokens};
use kitbag_mcp::manager::{ManagerError, Status, TokenSource};
use kitbag_model::{OrgId, ServerKey};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::kit::{Kit, key};

const CHALLENGE: &str = "Bearer resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\"";

/// A server on the web, made of what its tests need.
#[derive(Default)]
struct Twin {
    /// The token that it wants.
    token: Mutex<Option<String>>,
    /// Whether it only says that it cannot.
    broken: Mutex<bool>,
    /// How often somebody made its acquaintance.
    greeted: AtomicUsize,
}

impl Twin {
    async fn start(self: &Arc<Self>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let twin = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(twin.clone().serve(stream));
            }
        });
        url
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut method, mut token, mut length) = (String::new(), None, 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    return;
                }
                let line = line.trim_end();
                if method.is_empty() {
                    method = line.split(' ').next().unwrap().to_owned();
                } else if line.is_empty() {
                    break;
                } else if let Some((name, value)) = line.split_once(": ") {
                    match name.to_ascii_lowercase().as_str() {
                        "authorization" => token = value.strip_prefix("Bearer ").map(str::to_owned),
                        "content-length" => length = value.parse().unwrap(),
                        _ => {}
                    }
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            let (head, body) = self.answer(&method, token, &body);
            let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len());
            if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, method: &str, token: Option<String>, body: &[u8]) -> (String, String) {
        if *self.broken.lock().unwrap() {
            return ("503 Service Unavailable".to_owned(), String::new());
        }
        if let Some(wanted) = &*self.token.lock().unwrap()
            && token.as_ref() != Some(wanted)
        {
            return (format!("401 Unauthorized\r\nwww-authenticate: {CHALLENGE}"), String::new());
        }
        if method != "POST" {
            return ("405 Method Not Allowed".to_owned(), String::new());
        }
        let request: Value = serde_json::from_slice(body).unwrap();
        let result = match request["method"].as_str().unwrap() {
            "initialize" => {
                self.greeted.fetch_add(1, Ordering::SeqCst);
                json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "web", "version": "1" },
                })
            }
            "tools/list" => json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": format!("done with {token:?}") }] }),
            "ping" => json!({}),
            "server/discover" => {
                let error =
                    json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": -32601, "message": "no" } });
                return ("200 OK\r\ncontent-type: application/json".to_owned(), error.to_string());
            }
            _ => return ("202 Accepted".to_owned(), String::new()),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        ("200 OK\r\ncontent-type: application/json".to_owned(), answer.to_string())
    }
}

/// Tokens as somebody who signs in gets them.
#[derive(Clone, Default)]
struct Keychain(Arc<Mutex<Option<String>>>);

impl TokenSource for Keychain {
    fn tokens(&self, _org: &OrgId, _key: &ServerKey, _url: &Url) -> Option<Arc<dyn Tokens>> {
        Some(Arc::new(self.clone()))
    }
}

impl Tokens for Keychain {
    fn bearer(&self) -> Boxed<'_, Option<String>> {
        Box::pin(async { self.0.lock().unwrap().clone() })
    }

    fn refused(&self, _challenge: Option<String>) -> Boxed<'_, bool> {
        Box::pin(async { false })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_has_to_sign_in() {
    let twin = Arc::new(Twin::default());
    *twin.token.lock().unwrap() = Some("first".to_owned());
    let url = twin.start().await;
    let keychain = Keychain::default();
    let mut kit = Kit::new(|settings| settings.tokens = Some(Arc::new(keychain.clone())));
    kit.configure(&[&kit.remote("app~a", &url)]);
    kit.until("app~a", Status::RequiresAuth).await;
    assert_eq!(kit.state("app~a").challenge.as_deref(), Some(CHALLENGE));
    let error = kit.call("app~a", "echo", json!({})).await.unwrap_err();
    assert!(matches!(&error, ManagerError::NeedsAuth { challenge: Some(_) }), "{error}");

    *keychain.0.lock().unwrap() = Some("first".to_owned());
    kit.manager.reconnect(&kit.org, &key("app~a")).unwrap();
    kit.until("app~a", Status::Connected).await;
    assert_eq!(kit.state("app~a").challenge, None);
    assert_eq!(kit.call("app~a", "echo", json!({})).await.unwrap(), "done with Some(\"•••\")");

    // The token is withdrawn: whoever calls is told, and then everybody.
    *twin.token.lock().unwrap() = Some("second".to_owned());
    let error = kit.call("app~a", "echo", json!({})).await.unwrap_err();
    assert!(matches!(&error, ManagerError::NeedsAuth { challenge: Some(_) }), "{error}");
    kit.until("app~a", Status::RequiresAuth).await;
    assert_eq!(kit.state("app~a").tools[0].name, "echo", "what it had is still known");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_tokens_share_with_nobody() {
    let twin = Arc::new(Twin::default());
    let url = twin.start().await;
    let mut kit = Kit::new(|settings| settings.tokens = Some(Arc::new(Keychain::default())));
    kit.configure(&[&kit.remote("app~a", &url), &kit.remote("app~b", &url)]);
    for name in ["app~a", "app~b"] {
        kit.manager.settled(&kit.org, &key(name), crate::kit::NEVER).await;
    }
    assert_eq!(twin.greeted.load(Ordering::SeqCst), 2);
    kit.manager.disconnect(&kit.org, &key("app~a")).unwrap();
    kit.until("app~a", Status::Disconnected).await;
    assert_eq!(kit.state("app~b").status, Status::Connected);
    let both: Vec<_> =
        kit.manager.lists(&kit.org).into_iter().map(|listed| (listed.live, listed.tools.len())).collect();
    assert_eq!(both, [(false, 1), (true, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_breaks_is_found_out_and_comes_back() {
    let twin = Arc::new(Twin::default());
    let url = twin.start().await;
    let mut kit = Kit::new(|settings| {
        settings.health = Duration::from_millis(50);
        settings.backoff.tries = 1;
    });
    kit.configure(&[&kit.remote("app~a", &url)]);
    kit.until("app~a", Status::Connected).await;
    *twin.broken.lock().unwrap() = true;
    let reason = kit.until("app~a", Status::Connecting).await;
    assert!(reason.contains("no sign of life") && reason.contains("503"), "{reason}");
    kit.until("app~a", Status::Error).await;
    // It worked once, so it is tried for ever.
    *twin.broken.lock().unwrap() = false;
    kit.until("app~a", Status::Connected).await;
    assert_eq!(kit.call("app~a", "echo", json!({})).await.unwrap(), "done with None");
}
