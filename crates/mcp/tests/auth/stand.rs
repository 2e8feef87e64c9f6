//! A stand-in for the outside: a server that wants tokens and an authorization server that gives them, on one real socket. It does what
//! the standards say, unless a test has it do otherwise, and remembers what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

pub type Form = HashMap<String, String>;

/// One request that came in.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub form: Form,
    pub json: Value,
    pub authorization: Option<String>,
}

/// What it does instead of what it should.
#[derive(Clone)]
pub enum Odd {
    Answer(u16, Vec<(&'static str, String)>, String),
    Endless,
    Silent,
}

#[derive(Clone)]
struct Code {
    challenge: String,
    redirect_uri: String,
    client_id: String,
    resource: String,
    scope: String,
}

/// What it knows and how it behaves.
pub struct World {
    /// Put over its own description; null takes a field away.
    pub description: Value,
    /// Put over its protected resource metadata.
    pub resource: Value,
    /// By path, before anything else.
    pub odd: HashMap<String, Odd>,
    pub seen: Vec<Seen>,
    /// `iss` in its answers; none leaves it out.
    pub iss: Option<String>,
    /// Where it says no instead of giving a code.
    pub deny: Option<&'static str>,
    pub expires_in: Value,
    pub gives_refresh: bool,
    pub secret: Option<&'static str>,
    pub registers_as: Value,
    /// The clients it takes besides those that registered: id and secret.
    pub clients: HashMap<String, Option<String>>,
    /// Which access tokens are good.
    pub good: Vec<String>,
    pub refresh: Vec<String>,
    codes: HashMap<String, Code>,
    count: usize,
}

pub struct Stand {
    pub url: String,
    pub world: Arc<Mutex<World>>,
    /// Token requests wait for one of these.
    pub gate: Arc<Semaphore>,
}

type Shared = (Arc<Mutex<World>>, String, Arc<Semaphore>);

impl Stand {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let world = World {
            description: json!({}),
            resource: json!({}),
            odd: HashMap::new(),
            seen: Vec::new(),
            iss: Some(url.clone()),
            deny: None,
            expires_in: json!(3600),
            gives_refresh: true,
            secret: Some("s3cret:+%41/?"),
            registers_as: json!({}),
            clients: HashMap::new(),
            good: Vec::new(),
            refresh: Vec::new(),
            codes: HashMap::new(),
            count: 0,
        };
        let world = Arc::new(Mutex::new(world));
        let gate = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let app = axum::Router::new().fallback(answer).with_state((world.clone(), url.clone(), gate.clone()));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, world, gate }
    }

    pub fn set<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.world.lock().unwrap())
    }

    /// What was asked at a path, in order.
    pub fn asked(&self, path: &str) -> Vec<Seen> {
        self.set(|world| world.seen.iter().filter(|seen| seen.path == path).cloned().collect())
    }

    pub fn odd(&self, path: &str, odd: Odd) {
        self.set(|world| world.odd.insert(path.to_owned(), odd));
    }
}

async fn answer(State((world, url, gate)): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let path = head.uri.path().to_owned();
    let query = pairs(head.uri.query().unwrap_or_default());
    let form = if head.method == "POST" { pairs(std::str::from_utf8(&body).unwrap_or_default()) } else { query };
    let authorization = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let json = serde_json::from_slice(&body).unwrap_or_default();
    let seen = Seen { path: path.clone(), form: form.clone(), json, authorization: authorization.clone() };
    let odd = {
        let mut world = world.lock().unwrap();
        world.seen.push(seen.clone());
        world.odd.get(&path).cloned()
    };
    match odd {
        Some(Odd::Answer(status, headers, body)) => return reply(status, &headers, body),
        Some(Odd::Endless) => {
            let parts = tokio_stream::iter(std::iter::repeat_with(|| {
                Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 65536]))
            }));
            return Response::new(Body::from_stream(parts));
        }
        Some(Odd::Silent) => std::future::pending().await,
        None => {}
    }
    if path == "/token" {
        gate.acquire().await.unwrap().forget();
    }
    let mut world = world.lock().unwrap();
    match path.as_str() {
        "/mcp" => world.protected(&url, &head.headers),
        "/.well-known/oauth-protected-resource/mcp" => {
            let own = json!({ "resource": format!("{url}/mcp"), "authorization_servers": [url] });
            ok(&patched(own, &world.resource))
        }
        "/.well-known/oauth-authorization-server" => ok(&patched(description(&url), &world.description)),
        "/authorize" => world.authorize(&form),
        "/register" => world.register(&seen.json),
        "/token" => world.token(&form, authorization.as_deref()),
        "/revoke" => {
            let token = form["token"].clone();
            world.good.retain(|good| *good != token);
            world.refresh.retain(|good| *good != token);
            ok(&json!({}))
        }
        _ => reply(404, &[], "<!doctype html><p>nothing here".to_owned()),
    }
}

fn description(url: &str) -> Value {
    json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize?tenant=1"),
        "token_endpoint": format!("{url}/token"),
        "registration_endpoint": format!("{url}/register"),
        "revocation_endpoint": format!("{url}/revoke"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["plain", "S256"],
        "authorization_response_iss_parameter_supported": true,
    })
}

impl World {
    fn protected(&self, url: &str, headers: &HeaderMap) -> Response {
        let sent = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        match sent.strip_prefix("Bearer ") {
            Some(token) if self.good.iter().any(|good| good == token) => ok(&json!({})),
            _ => {
                let header = format!(r#"Bearer resource_metadata="{url}/.well-known/oauth-protected-resource/mcp""#);
                reply(401, &[("www-authenticate", header)], String::new())
            }
        }
    }

    fn authorize(&mut self, query: &Form) -> Response {
        let mut back = url::Url::parse(&query["redirect_uri"]).unwrap();
        let mut add = |name: &str, value: &str| {
            back.query_pairs_mut().append_pair(name, value);
        };
        add("state", &query["state"]);
        if let Some(iss) = &self.iss {
            add("iss", iss);
        }
        match self.deny {
            Some(error) => add("error", error),
            None => {
                assert_eq!(query["code_challenge_method"], "S256");
                assert_eq!(query["response_type"], "code");
                self.count += 1;
                let code = format!("code-{}", self.count);
                add("code", &code);
                let text = |name: &str| query.get(name).cloned().unwrap_or_default();
                let kept = Code {
                    challenge: text("code_challenge"),
                    redirect_uri: text("redirect_uri"),
                    client_id: text("client_id"),
                    resource: text("resource"),
                    scope: text("scope"),
                };
                self.codes.insert(code, kept);
            }
        }
        reply(302, &[("location", back.to_string())], String::new())
    }

    fn register(&mut self, _asked: &Value) -> Response {
        self.count += 1;
        let id = format!("client {}", self.count);
        self.clients.insert(id.clone(), self.secret.map(str::to_owned));
        let mut own = json!({ "client_id": id });
        if let Some(secret) = self.secret {
            own["client_secret"] = json!(secret);
            own["client_secret_expires_at"] = json!(0);
        }
        reply(201, &[], patched(own, &self.registers_as).to_string())
    }

    fn token(&mut self, form: &Form, authorization: Option<&str>) -> Response {
        let Some(client) = self.client(form, authorization) else {
            return reply(401, &[], json!({ "error": "invalid_client" }).to_string());
        };
        let no = |why: &str| reply(400, &[], json!({ "error": "invalid_grant", "error_description": why }).to_string());
        let scope = match form["grant_type"].as_str() {
            "authorization_code" => {
                let Some(code) = self.codes.remove(&form["code"]) else { return no("this code was used") };
                let shown = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
                if shown != code.challenge || form["redirect_uri"] != code.redirect_uri || client != code.client_id {
                    return no("not the one who asked");
                }
                if form["resource"] != code.resource {
                    return no("another resource");
                }
                code.scope
            }
            "refresh_token" => {
                let token = &form["refresh_token"];
                let Some(at) = self.refresh.iter().position(|good| good == token) else { return no("this was used") };
                self.refresh.remove(at);
                String::new()
            }
            "client_credentials" => form.get("scope").cloned().unwrap_or_default(),
            _ => return reply(400, &[], json!({ "error": "unsupported_grant_type" }).to_string()),
        };
        self.count += 1;
        let access = format!("access-{}", self.count);
        self.good.push(access.clone());
        let mut given = json!({ "access_token": access, "token_type": "bearer", "expires_in": self.expires_in });
        if self.gives_refresh {
            let refresh = format!("refresh-{}", self.count);
            self.refresh.push(refresh.clone());
            given["refresh_token"] = json!(refresh);
        }
        if !scope.is_empty() {
            given["scope"] = json!(scope);
        }
        ok(&given)
    }

    /// Who asks, if it is known and has shown that it is.
    fn client(&self, form: &Form, authorization: Option<&str>) -> Option<String> {
        let (id, secret) = match authorization {
            Some(header) => {
                let pair = String::from_utf8(STANDARD.decode(header.strip_prefix("Basic ")?).ok()?).ok()?;
                let (id, secret) = pair.split_once(':')?;
                let decode = |text: &str| pairs(&format!("x={text}"))["x"].clone();
                (decode(id), Some(decode(secret)))
            }
            None => (form.get("client_id")?.clone(), form.get("client_secret").cloned()),
        };
        (form.contains_key("client_assertion") || *self.clients.get(&id)? == secret).then_some(id)
    }
}

/// `own` with the fields of `patch`, and without those that are null there.
fn patched(mut own: Value, patch: &Value) -> Value {
    for (name, value) in patch.as_object().unwrap() {
        if value.is_null() {
            own.as_object_mut().unwrap().remove(name);
        } else {
            own[name] = value.clone();
        }
    }
    own
}

pub fn pairs(text: &str) -> Form {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

fn ok(value: &Value) -> Response {
    reply(200, &[("content-type", "application/json".to_owned())], value.to_string())
}

fn reply(status: u16, headers: &[(&'static str, String)], body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        response.headers_mut().append(*name, value.parse().unwrap());
    }
    response
}
