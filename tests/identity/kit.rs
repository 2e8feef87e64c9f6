//! What these tests share: a server with issuers, the real provider, and a person with a browser.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use url::Url;

use crate::BINARY;

/// A server with these issuers in its configuration.
pub(crate) fn serve(database: &TestDatabase, issuers: &str) -> Server {
    serve_with(database, issuers, &[])
}

pub(crate) fn serve_with(database: &TestDatabase, issuers: &str, more: &[&str]) -> Server {
    std::fs::write(database.data().join("kitbag.toml"), issuers).unwrap();
    Server::start(BINARY, database, more)
}

/// One issuer of a configuration.
pub(crate) fn issuer(url: &str, more: &str) -> String {
    format!(
        "[[issuers]]\nid = \"company\"\nname = \"The Company\"\nissuer = \"{url}\"\nclient_id = \"kitbag\"\n\
         client_secret = \"the-clients-secret\"\n{more}\n"
    )
}

/// The real provider, ended when dropped.
pub(crate) struct Provider {
    pub(crate) url: String,
    _child: Child,
    /// Whoever says something must be heard, or it dies of it.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Provider {
    #[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
    pub(crate) async fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/identity/provider.mjs");
        let mut command = Command::new(installed(".bin/node"));
        command.arg(script).arg(installed("")).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = loop {
            // It may warn first that it is not set up for production.
            let line = lines.next_line().await.unwrap().expect("the provider says its port");
            if let Ok(port) = line.trim().parse::<u16>() {
                break port;
            }
        };
        Self { url: format!("http://127.0.0.1:{port}"), _child: child, _lines: lines }
    }
}

fn installed(inside: &str) -> PathBuf {
    let Some(base) = std::env::var_os("KITBAG_TEST_NODE_MODULES") else {
        panic!("KITBAG_TEST_NODE_MODULES is not set: run `scripts/test`, which installs what the tests need")
    };
    let path = PathBuf::from(base).join(inside);
    assert!(path.exists(), "{} is missing: run `scripts/test`, which installs it", path.display());
    path
}

/// A person with a browser: it keeps cookies by origin, goes where it is sent, and types a name where a name is wanted.
pub(crate) struct Walker<'s> {
    server: &'s Server,
    /// The name that is typed at the provider.
    name: String,
    cookies: HashMap<String, HashMap<String, String>>,
}

/// Where somebody ended up.
pub(crate) struct Arrived {
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) page: String,
}

impl Arrived {
    /// The code that the page would tell.
    pub(crate) fn error(&self) -> Option<String> {
        let error = self.url.query_pairs().find(|(name, _)| name == "error").map(|(_, code)| code.into_owned());
        error.filter(|_| self.url.path() == "/sign-in")
    }
}

impl<'s> Walker<'s> {
    pub(crate) fn new(server: &'s Server, name: &str) -> Self {
        Self { server, name: name.to_owned(), cookies: HashMap::new() }
    }

    /// Has a cookie of the tested server.
    pub(crate) fn give(&mut self, cookie: &str) {
        let (name, value) = cookie.split_once('=').unwrap();
        self.cookies.entry(self.server.url.clone()).or_default().insert(name.to_owned(), value.to_owned());
    }

    /// All cookies of the tested server.
    pub(crate) fn cookie(&self) -> String {
        self.line(&self.server.url)
    }

    /// Those that are sessions.
    pub(crate) fn session(&self) -> Option<String> {
        let all = self.cookies.get(&self.server.url)?;
        all.iter().find(|(_, value)| value.starts_with("person.")).map(|(name, value)| format!("{name}={value}"))
    }

    fn line(&self, origin: &str) -> String {
        let all = self.cookies.get(origin).into_iter().flatten();
        all.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    /// One request, with the cookies that there are.
    pub(crate) async fn ask(&mut self, url: &Url, form: Option<&[(&str, &str)]>) -> Response {
        let origin = url.origin().ascii_serialization();
        let mut request = elsewhere(self.server, if form.is_some() { Method::POST } else { Method::GET }, url);
        request = request.header("cookie", self.line(&origin));
        if let Some(form) = form {
            let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
            request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        }
        let response = request.send().await.unwrap();
        let kept = self.cookies.entry(origin).or_default();
        for set in response.headers().get_all("set-cookie") {
            let set = set.to_str().unwrap();
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            match value.is_empty() || set.contains("Max-Age=0") {
                true => kept.remove(name),
                false => kept.insert(name.to_owned(), value.to_owned()),
            };
        }
        response
    }

    /// Goes to a place of the tested server, and on, until a page is shown that is none of the provider's forms.
    pub(crate) async fn walk(&mut self, path: &str) -> Arrived {
        let mut url = Url::parse(&format!("{}{path}", self.server.url)).unwrap();
        let mut response = self.ask(&url, None).await;
        for _ in 0..20 {
            if let Some(next) = response.headers().get("location") {
                url = url.join(next.to_str().unwrap()).unwrap();
                if url.as_str().starts_with(&self.server.url) && url.path() == "/sign-in" {
                    // The page itself is not this test's.
                    return Arrived { url, status: response.status(), page: String::new() };
                }
                response = self.ask(&url, None).await;
                continue;
            }
            let status = response.status();
            let page = response.text().await.unwrap();
            let name = self.name.clone();
            let form: &[(&str, &str)] = match () {
                () if url.as_str().starts_with(&self.server.url) => return Arrived { url, status, page },
                () if page.contains("value=\"login\"") => &[("prompt", "login"), ("login", &name), ("password", "x")],
                () if page.contains("value=\"consent\"") => &[("prompt", "consent")],
                () => return Arrived { url, status, page },
            };
            let action = page.split("action=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
            url = url.join(action).unwrap();
            response = self.ask(&url, Some(form)).await;
        }
        panic!("{path} leads nowhere; at {url}");
    }

    /// Signs in, and says where it led.
    pub(crate) async fn sign_in(&mut self, query: &str) -> Arrived {
        self.walk(&format!("/sign-in/company{query}")).await
    }
}

/// A request to anybody, by the client of the tests.
pub(crate) fn elsewhere(server: &Server, method: Method, url: &Url) -> RequestBuilder {
    let (client, request) = server.anonymous(method, "/").build_split();
    let mut request = request.unwrap();
    *request.url_mut() = url.clone();
    RequestBuilder::from_parts(client, request)
}

/// Asks for a method of the protocol, in its newest way.
pub(crate) fn asking(server: &Server, path: &str, method: &str, mut params: Value) -> RequestBuilder {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut request = server.anonymous(Method::POST, path);
    if let Some(name) = params.get("name").and_then(Value::as_str) {
        request = request.header("mcp-name", name);
    }
    request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// Whether a token is let in at an endpoint.
pub(crate) async fn knock(server: &Server, path: &str, token: &str) -> Answer {
    Answer::of(asking(server, path, "tools/list", json!({})).bearer_auth(token)).await
}
