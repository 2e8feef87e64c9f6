//! Images that the engine fetches: of a registry that wants a password, which is the engine's own affair.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_testkit::TestDatabase;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{IMAGE, TOOLSETS, ask, bundle, call, engine, import, manifest, new_chat, serve};

/// `somebody:a-password`, as HTTP says it.
const CREDENTIALS: &str = "c29tZWJvZHk6YS1wYXNzd29yZA==";

/// A registry with one image, which it gives to who says the password. What was asked of it is kept.
#[derive(Clone)]
struct Registry {
    folder: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
    /// How often it was asked anything, by whomever.
    tried: Arc<AtomicUsize>,
}

impl Registry {
    /// Serves the image that lies in a folder as `podman push … dir:` writes it. Its address.
    async fn start(folder: &Path) -> (Self, String) {
        let registry = Self { folder: folder.to_owned(), asked: Arc::default(), tried: Arc::default() };
        let router = Router::new().fallback(answer).with_state(registry.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (registry, address)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(State(registry): State<Registry>, request: Request) -> Response {
    registry.tried.fetch_add(1, Ordering::SeqCst);
    let wanted = format!("Basic {CREDENTIALS}");
    if request.headers().get(header::AUTHORIZATION).is_none_or(|said| said != wanted.as_str()) {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Basic realm=\"tests\"")]).into_response();
    }
    let path = request.uri().path().to_owned();
    registry.asked.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
    let file = |name: &str, kind: &str| match std::fs::read(registry.folder.join(name)) {
        Ok(bytes) => ([(header::CONTENT_TYPE, kind)], bytes).into_response(),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    };
    match path.rsplit_once('/') {
        Some(("/v2", "")) => StatusCode::OK.into_response(),
        Some((folder, _)) if folder.ends_with("/manifests") => {
            let manifest: Value =
                serde_json::from_slice(&std::fs::read(registry.folder.join("manifest.json")).unwrap()).unwrap();
            file("manifest.json", manifest["mediaType"].as_str().unwrap())
        }
        Some((folder, digest)) if folder.ends_with("/blobs") => {
            file(digest.trim_start_matches("sha256:"), "application/octet-stream")
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_fetched_with_the_engines_own_credentials() {
    let (mut podman, database) = (engine(), TestDatabase::sqlite());
    let pushed = tempfile::tempdir().unwrap();
    podman.run(&["push", "--quiet", "--format", "v2s2", IMAGE, &format!("dir:{}", pushed.path().display())]);
    podman.run(&["rmi", "--force", IMAGE]);
    let (registry, address) = Registry::start(pushed.path()).await;
    podman.knows_registry(&address, CREDENTIALS);
    let server = serve(&database, &podman, &[]);
    let mut events = server.request(Method::GET, "/v1/orgs/local/events").send().await.unwrap();
    // No tag: the one that everybody means, and not all that there are.
    let yaml = manifest(&["nothing"], "", "").replace(IMAGE, &format!("{address}/team/kb"));
    import(&server, "", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    assert_eq!(registry.asked(), Vec::<String>::new(), "nothing is fetched before somebody trusts it");
    let chat = new_chat(&server).await;
    ask(&server, &chat, "app:nothing", json!({})).await.expect_error(409, "NEEDS_TRUST");
    assert_eq!(registry.asked(), Vec::<String>::new());
    server.post(&format!("{TOOLSETS}/app/trust"), &json!({})).await.expect(200);
    server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect(200);
    let asked = registry.asked();
    assert!(asked.iter().any(|path| path == "/v2/team/kb/manifests/latest"), "{asked:?}");
    assert!(!asked.iter().any(|path| path.contains("/tags/")), "{asked:?}");
    assert_eq!(call(&server, &chat, "nothing").await["status"], "success");
    // How far it was could be heard.
    let heard = async {
        let mut text = String::new();
        while !(text.contains("toolset_progress") && text.contains("\"containerId\":\"box\"")) {
            text.push_str(&String::from_utf8_lossy(&events.chunk().await.unwrap().expect("events go on")));
        }
    };
    tokio::time::timeout(Duration::from_secs(60), heard).await.expect("progress is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_refuses_is_told() {
    let (mut podman, database) = (engine(), TestDatabase::sqlite());
    let nothing = tempfile::tempdir().unwrap();
    let (_registry, address) = Registry::start(nothing.path()).await;
    podman.knows_registry(&address, "d3Jvbmc6d3Jvbmc=");
    let server = serve(&database, &podman, &[]);
    let yaml = manifest(&["nothing"], "", "").replace(IMAGE, &format!("{address}/team/kb:1"));
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    let refused = server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await;
    refused.expect_error(503, "UNAVAILABLE");
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("team/kb:1 cannot be had") && message.contains("auth"), "{message}");
    assert!(!message.contains("d3Jvbmc6d3Jvbmc="), "{message}");
}

/// Calls of a tool whose image cannot be had do not have it fetched again each time.
#[tokio::test(flavor = "multi_thread")]
async fn calls_do_not_have_it_fetched_again_and_again() {
    let (mut podman, database) = (engine(), TestDatabase::sqlite());
    let nothing = tempfile::tempdir().unwrap();
    let (registry, address) = Registry::start(nothing.path()).await;
    podman.knows_registry(&address, CREDENTIALS);
    let server = serve(&database, &podman, &[]);
    let yaml = manifest(&["nothing"], "", "").replace(IMAGE, &format!("{address}/team/kb:1"));
    import(&server, "", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    server.post(&format!("{TOOLSETS}/app/trust"), &json!({})).await.expect(200);
    server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect_error(503, "UNAVAILABLE");
    let asked = || registry.tried.load(Ordering::SeqCst);
    let (before, chat) = (asked(), new_chat(&server).await);
    assert!(before > 0);
    for _ in 0..5 {
        let refused = ask(&server, &chat, "app:nothing", json!({})).await;
        refused.expect_error(503, "UNAVAILABLE");
        assert!(refused.body["message"].as_str().unwrap().contains("cannot be had"), "{:?}", refused.body);
    }
    assert_eq!(asked(), before);
    // Whoever says so has it tried again.
    server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect_error(503, "UNAVAILABLE");
    assert!(asked() > before);
}
