//! Pages: which names show them, and with which headers.

use kitbag_formats::html::MOST_PAGE_BYTES;
use kitbag_model::ContentHash;
use serde_json::json;

use super::kit::Theatre;
use super::plan;

const PAGE: &str = "<!doctype html><html lang=de><head><script>show(window.__TOOL_DATA__)</script>";

#[tokio::test]
async fn only_its_own_name_shows_a_page() {
    let theatre = Theatre::open(|settings| {
        settings.stage_domain = Some("http://*.stage.example:1".parse().expect("a domain"));
        settings.allowed_hosts.extend(["api.stage.example".to_owned(), "api.localhost".to_owned()]);
    })
    .await;
    let host = theatre.show(theatre.chat, &plan("html", json!({"content": PAGE, "data": "the data"})));
    let label = host.strip_suffix(".stage.example:1").expect("the configured domain").to_owned();

    for host in [
        format!("{label}.localhost"),
        format!("{label}.localhost:9"),
        format!("{}.LocalHost:9", label.to_uppercase()),
        format!("{label}.stage.example"),
        format!("{label}.Stage.Example:1"),
    ] {
        let answer = theatre.get(&host, "/").await;
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
        assert!(
            answer.body.starts_with("<!doctype html><script>window.__TOOL_DATA__=JSON.parse(\"\\\"the data\\\"\")")
        );
        // Nothing of the API is under that name.
        for path in
            ["/healthz", "/v1/orgs/local/chats", "/openapi.json", "/page/plain.css", "//", "/?token=x/../healthz/x"]
        {
            let answer = theatre.get(&host, path).await;
            let page = path.starts_with("/?");
            assert_eq!(answer.status, if page { 200 } else { 404 }, "{host}{path}");
            assert_eq!(answer.body.contains("the data"), page);
        }
    }
    // A guess, an end that is not ours, more labels than one.
    for host in ["x.localhost", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.localhost", "x.stage.example"] {
        let answer = theatre.get(host, "/healthz").await;
        assert_eq!((answer.status, answer.header("content-type")), (404, vec!["text/plain; charset=utf-8"]), "{host}");
    }
    let nested = theatre.get(&format!("x.{label}.localhost"), "/").await;
    assert_eq!((nested.status, nested.header("content-type")), (404, vec!["text/plain; charset=utf-8"]));
    for host in [
        format!("{label}.localhost."),
        format!("{label}.localhost.evil.example"),
        format!("{label}.127.0.0.1"),
        format!("{label}.kitbag.example"),
        format!("{label}.localhost:1:2"),
        format!("{label}.localhost@127.0.0.1"),
        format!("127.0.0.1@{label}.localhost"),
        format!("{label}localhost"),
        "stage.example".to_owned(),
        ".localhost".to_owned(),
    ] {
        let answer = theatre.get(&host, "/").await;
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
    }
    // The API's names show the API, whatever else the request says.
    for host in [
        "127.0.0.1",
        "localhost:1",
        "[::1]:1",
        "kitbag.example",
        "KITBAG.example:2",
        "api.stage.example",
        "api.localhost",
    ] {
        let answer = theatre.get(host, "/healthz").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, vec!["application/json"]), "{host}");
        let root = theatre.get(host, &format!("/?host={label}.localhost")).await;
        assert!(!root.body.contains("the data"), "{host}");
    }
    for request in [
        format!("GET / HTTP/1.1\r\nHost: {label}.localhost\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"),
        format!("GET http://127.0.0.1/ HTTP/1.1\r\nHost: {label}.localhost\r\nConnection: close\r\n\r\n"),
        format!("GET http://{label}.localhost/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nX-Forwarded-Host: {label}.localhost\r\nConnection: close\r\n\r\n"),
    ] {
        let answer = theatre.send(&request).await;
        assert!(matches!(answer.status, 400 | 403), "{request}{answer:?}");
    }
    let own = format!("GET http://{label}.localhost/ HTTP/1.1\r\nHost: {label}.localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(theatre.send(&own).await.status, 200);
}

#[tokio::test]
async fn a_page_is_shut_in() {
    let theatre = Theatre::open(|_| ()).await;
    let host = theatre.show(theatre.chat, &plan("html", json!({"content": PAGE})));
    let answer = theatre.get(&host, "/").await;
    let policy = answer.header("content-security-policy");
    let [policy] = policy[..] else { panic!("{policy:?}") };
    for part in [
        "sandbox allow-scripts;",
        "default-src 'none';",
        "script-src 'unsafe-inline';",
        "connect-src 'none';",
        "form-action 'none';",
        "frame-ancestors http://localhost:* https://localhost:* http://127.0.0.1:* https://127.0.0.1:* http://kitbag.example:* https://kitbag.example:*",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), [value], "{name}");
    }
    assert_eq!((answer.header("set-cookie"), answer.header("x-frame-options")), (vec![], vec![]));
    for (request, status) in [
        ("HEAD /", 200),
        ("POST /", 404),
        ("OPTIONS /", 404),
        ("DELETE /", 404),
        ("GET /x", 404),
        ("GET /index.html", 404),
    ] {
        let request = format!("{request} HTTP/1.1\r\nHost: {host}\r\nCookie: kitbag_1=x\r\nConnection: close\r\n\r\n");
        let answer = theatre.send(&request).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (status, vec![]), "{request}");
        assert!(answer.body.is_empty() || status == 404);
    }
    // What a page of ours may show is the stage, and nothing else.
    let index = theatre.get("127.0.0.1", "/").await;
    let policy = index.header("content-security-policy")[0].to_owned();
    assert!(policy.ends_with(&format!("frame-src http://*.localhost:{}", theatre.address.port())), "{policy}");
}

#[tokio::test]
async fn artifacts_are_blobs_of_the_chat() {
    let theatre = Theatre::open(|_| ()).await;
    let lease = theatre.app.workspaces().lease(&theatre.org, theatre.chat).await.unwrap();
    let utf16: Vec<u8> = "\u{FEFF}<p>".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let large = vec![b' '; MOST_PAGE_BYTES + 1];
    let hashes = lease.change(move |workspace| {
        let writer = workspace.blobs().writer()?;
        let pages = [PAGE.as_bytes(), &utf16, &large];
        for page in pages {
            writer.put(&ContentHash::of(page), page)?;
        }
        writer.finish()?;
        Ok(pages.map(ContentHash::of))
    });
    let [page, utf16, large] = hashes.await.expect("the blobs are written");

    // The lease is still held, as it is while a tool runs.
    let shown = |hash: ContentHash| {
        let plan = plan("html", json!({"artifact": "a.html", "sha256": hash.to_string(), "data": 1}));
        theatre.show(theatre.chat, &plan)
    };
    let host = shown(page);
    let answer = theatre.get(&host, "/").await;
    assert!(
        answer.status == 200
            && answer.body.ends_with("<html lang=de><head><script>show(window.__TOOL_DATA__)</script>"),
        "{answer:?}"
    );
    for (hash, status, text) in [
        (utf16, 422, "This cannot be shown: the page is UTF-16; save it as UTF-8.\n"),
        (large, 422, "This cannot be shown: the page has more than 16777216 bytes.\n"),
        (ContentHash::of(b"another"), 404, "The page of this call is not there any more.\n"),
    ] {
        let answer = theatre.get(&shown(hash), "/").await;
        assert_eq!((answer.status, answer.body.as_str()), (status, text));
    }
    // Another chat's blobs are not this one's, and no folder is made for the question.
    let other = kitbag_model::ChatId::generate();
    let plan = plan("html", json!({"artifact": "a.html", "sha256": page.to_string()}));
    let host = theatre.show(other, &plan);
    assert_eq!(theatre.get(&host, "/").await.status, 404);
    assert!(!theatre.app.workspaces().exists(&theatre.org, other));

    let host = shown(page);
    drop(lease);
    assert_eq!(theatre.get(&host, "/").await.status, 200);
    theatre.app.stage().close_chat(&theatre.org, theatre.chat);
    assert_eq!(theatre.get(&host, "/").await.status, 404);
}
