//! What a real browser lets a page of the stage do: run, see its data, and nothing else.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the test starts a browser")]

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Json;
use axum::http::{Uri, header};
use axum::response::{Html, IntoResponse};
use axum::routing::{any, get, post};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::kit::Theatre;
use super::plan;

/// A page that tries everything and tells the page around it what came of it. It has a `<head>` where a search would find
/// one, and a script before anything else.
const PAGE: &str = include_str!("tries_everything.html");

/// The page around it.
const AROUND: &str = "<!doctype html><title>around</title><script>
    const report = value => fetch('/report', {method: 'POST', body: JSON.stringify(value), headers: {'content-type': 'application/json'}});
    document.addEventListener('securitypolicyviolation', event => report({blocked: event.effectiveDirective}));
    addEventListener('message', event => report({origin: event.origin, tried: event.data}));
</script><iframe src=\"STAGE\"></iframe>";

/// A browser, ended with everything it started.
struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Browser {
    fn start(args: &[&str]) -> Self {
        let profile = tempfile::tempdir().expect("a folder for the profile");
        let child = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("Chromium starts; install it: apt-get install chromium");
        Self { child, _profile: profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.child.wait();
    }
}

fn shown_page(theatre: &Theatre, elsewhere: &str) -> String {
    let api = format!("http://127.0.0.1:{}", theatre.address.port());
    let data = json!({"text": "</script><!--<script>\u{2028}&amp;", "__proto__": {"kept": true}, "elsewhere": elsewhere, "api": api});
    let host = theatre.show(theatre.chat, &plan("html", json!({"content": PAGE, "data": data})));
    format!("http://{host}/")
}

/// What a page around the stage heard, and what reached its server beside.
struct Heard {
    /// The origin and the words of what is in the frame.
    report: Value,
    /// The first thing that the page around it did not let it do.
    blocked: Option<Value>,
    hits: Vec<String>,
}

/// Opens a page with a frame of the stage in it, which has the frames of our own page, and scripts of its own. What is in the
/// frame is told where this page is. Listens until it has said something and, if that is waited for, was stopped once.
async fn look(theatre: &Theatre, wait_for_block: bool, stage: impl FnOnce(&str) -> String) -> Heard {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let around = format!("http://{}", listener.local_addr().expect("an address"));
    let html = AROUND.replace("STAGE", &stage(&around));
    let index = theatre.get("127.0.0.1", "/").await;
    let policy = index.header("content-security-policy")[0].split("; ").find(|part| part.starts_with("frame-src"));
    let policy = policy.expect("our page says what it frames").to_owned();

    let (send, mut reports) = mpsc::unbounded_channel();
    let hits: Arc<Mutex<Vec<String>>> = Arc::default();
    let hit = Arc::clone(&hits);
    let router = Router::new()
        .route(
            "/",
            get(|| async move {
                let cookie = "around=secret".to_owned();
                ([(header::CONTENT_SECURITY_POLICY, policy), (header::SET_COOKIE, cookie)], Html(html)).into_response()
            }),
        )
        .route("/report", post(|Json(report): Json<Value>| async move { send.send(report).expect("the test listens") }))
        .route("/favicon.ico", get(|| async {}))
        .fallback(any(move |uri: Uri| async move { hit.lock().expect("no panic here").push(uri.to_string()) }));
    tokio::spawn(async move { axum::serve(listener, router).await });

    let _browser = Browser::start(&["--remote-debugging-port=0", &around]);
    // That it was stopped may be said twice, and first.
    let (mut report, mut blocked) = (None, None);
    while report.is_none() || (wait_for_block && blocked.is_none()) {
        let said = tokio::time::timeout(Duration::from_secs(60), reports.recv()).await;
        let said = said.unwrap_or_else(|_| panic!("no more is said after {report:?}, {blocked:?}"));
        let said = said.expect("the server is there");
        if said["blocked"].is_string() { blocked = Some(said) } else { report = Some(said) }
    }
    let hits = hits.lock().expect("no panic here").clone();
    Heard { report: report.expect("it was waited for"), blocked, hits }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_a_frame() {
    let theatre = Theatre::open(|_| ()).await;
    let Heard { report, blocked, hits } = look(&theatre, true, |around| shown_page(&theatre, around)).await;
    assert_eq!(report["origin"], "null", "{report}");
    let tried = &report["tried"];
    for (what, came) in [
        ("data at the first script", json!("</script><!--<script>\u{2028}&amp;")),
        ("own __proto__", json!(true)),
        ("mode", json!("CSS1Compat")),
        ("language", json!("de")),
        ("scripts", json!(1)),
        ("own origin", json!("null")),
        ("parent", json!("SecurityError")),
        ("cookie", json!("SecurityError")),
        ("storage", json!("SecurityError")),
        ("fetch", json!("TypeError")),
        ("api", json!("TypeError")),
        ("image", json!("Error")),
        ("style", json!("Error")),
        ("script", json!("Error")),
        ("frame", json!("blocked")),
        ("popup", json!("null")),
        ("top", json!("SecurityError")),
        ("eval", json!("EvalError")),
        ("own style", json!("rgb(1, 2, 3)")),
    ] {
        assert_eq!(tried[what], came, "{what}: {tried}");
    }
    // Last it goes elsewhere by itself, with what it knows in the address. The page around it does not let it.
    assert_eq!(blocked, Some(json!({"blocked": "frame-src"})));
    assert_eq!(hits, Vec::<String>::new(), "it reached something");
}

/// A program has an origin of its own, and uses it; the page around it and the API are as far away as for anybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_a_frame() {
    const PROGRAM: &str = "<!doctype html><script>(async () => {
        const tried = {};
        const attempt = async (name, act) => {
            try { tried[name] = String(await act()); } catch (error) { tried[name] = error.name; }
        };
        await attempt('own server', async () => (await fetch('/hello')).text());
        await attempt('storage', () => { localStorage.x = 1; return localStorage.x; });
        await attempt('parent', () => parent.document.title);
        await attempt('top', () => { top.location = 'about:blank'; });
        await attempt('api', () => fetch('API/v1/orgs/local/chats', {headers: {accept: '*/*'}}));
        await attempt('blind', async () => (await fetch('API/v1/orgs/local/chats', {
            method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'})).type);
        parent.postMessage(tried, '*');
    })()</script>";
    let theatre = Theatre::open(|_| ()).await;
    let api = format!("http://127.0.0.1:{}", theatre.address.port());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    theatre.listen(theatre.chat, 3000, listener.local_addr().expect("an address"));
    let denying = [(header::X_FRAME_OPTIONS, "DENY"), (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'")];
    let program = PROGRAM.replace("API", &api);
    let router = Router::new()
        .route("/", get(|| async move { (denying, Html(program)) }))
        .route("/hello", get(|| async { "hello" }));
    tokio::spawn(async move { axum::serve(listener, router).await });

    let host = theatre.show(theatre.chat, &plan("frame", json!({"port": 3000})));
    let Heard { report, .. } = look(&theatre, false, |_| format!("http://{host}/")).await;
    let tried = json!({"own server": "hello", "storage": "1", "parent": "SecurityError", "top": "SecurityError",
                       "api": "TypeError", "blind": "TypeError"});
    assert_eq!(report, json!({"origin": format!("http://{host}"), "tried": tried}));
    // What it sent without asking for the answer was refused as well, though this server asks nobody for a token.
    let chats = theatre.get("127.0.0.1", "/v1/orgs/local/chats").await;
    assert!(chats.status == 200 && chats.body.contains("\"items\":[]"), "{chats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_by_itself() {
    let theatre = Theatre::open(|_| ()).await;
    let url = shown_page(&theatre, "http://127.0.0.1:1");
    let document = tokio::task::spawn_blocking(move || {
        let mut browser = Browser::start(&["--dump-dom", "--timeout=60000", &url]);
        let stdout = browser.child.stdout.take().expect("its output");
        std::io::read_to_string(stdout).expect("text")
    });
    let document = document.await.unwrap();
    assert!(document.contains("origin null, cookie SecurityError, storage SecurityError"), "{document}");
}
