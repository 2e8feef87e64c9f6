//! Bundles from an address: only where the operator allows it, only so much, and every hop of the way is looked at.

use std::io;
use std::sync::{Arc, Mutex};

use kitbag_testkit::{Answer, Server, TestDatabase, on_both};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::kit::{Picture, TOOLSETS, assert_files_agree, import, manifest, with_manifest};
use crate::{BINARY, serve};

/// A host that serves one bundle, and misbehaves under other paths.
pub(crate) struct Host {
    port: u16,
    bundle: Arc<Mutex<Vec<u8>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Host {
    /// On every address of this machine, so that it can also be found where it must not be looked for.
    pub(crate) async fn start(bundle: Vec<u8>) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = Self { port, bundle: Arc::new(Mutex::new(bundle)), asked: Arc::default() };
        let (bundle, asked) = (Arc::clone(&host.bundle), Arc::clone(&host.asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (bundle, asked) = (bundle.lock().unwrap().clone(), Arc::clone(&asked));
                tokio::spawn(async move { answer(stream, port, bundle, &asked).await });
            }
        });
        host
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn answer(mut stream: TcpStream, port: u16, bundle: Vec<u8>, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let host = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned));
    asked.lock().unwrap().push(format!("{}{path}", host.unwrap_or_default()));
    let (status, more, body) = match path.split('?').next().unwrap_or_default() {
        "/app.zip" => (200, String::new(), bundle),
        "/text" => (200, String::new(), b"not a bundle".to_vec()),
        "/moved" => (302, format!("Location: http://127.0.0.1:{port}/app.zip\r\n"), Vec::new()),
        "/elsewhere" => (302, format!("Location: http://127.0.0.2:{port}/app.zip\r\n"), Vec::new()),
        "/to-a-file" => (302, "Location: file:///etc/passwd\r\n".to_owned(), Vec::new()),
        "/around" => (302, "Location: /around\r\n".to_owned(), Vec::new()),
        "/large" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await?;
            let part = vec![0; 1 << 20];
            for _ in 0..101 {
                stream.write_all(&part).await?;
            }
            return Ok(());
        }
        "/short" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nPK").await?;
            return Ok(());
        }
        "/says-large" => {
            let more = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", (100_u64 << 20) + 1);
            return stream.write_all(more.as_bytes()).await;
        }
        _ => (404, String::new(), b"nothing here".to_vec()),
    };
    let head = format!("HTTP/1.1 {status} X\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await
}

fn app(version: &str, more: &str) -> Vec<u8> {
    with_manifest(&manifest("app", version, more))
}

async fn fetch(server: &Server, query: &str, url: &str) -> Answer {
    server.post(&format!("{TOOLSETS}/import{query}"), &json!({ "url": url })).await
}

on_both! {
    async fn private_addresses_are_not_dialled(database: TestDatabase) {
        let host = Host::start(app("2.0.0", "")).await;
        let server = serve(&database);
        import(&server, "", &app("1.0.0", "")).await.expect(201);
        let before = Picture::take(&server, &database).await;
        let port = host.port;
        for url in [
            host.url("/app.zip"),
            format!("http://localhost:{port}/app.zip"),
            format!("http://localhost.:{port}/app.zip"),
            format!("http://[::1]:{port}/app.zip"),
            format!("http://[::ffff:127.0.0.1]:{port}/app.zip"),
            format!("http://2130706433:{port}/app.zip"),
            format!("http://0x7f000001:{port}/app.zip"),
            format!("http://127.1:{port}/app.zip"),
            format!("http://0.0.0.0:{port}/app.zip"),
            "http://169.254.169.254/latest/meta-data".to_owned(),
            "http://10.0.0.1/app.zip".to_owned(),
            "file:///etc/passwd".to_owned(),
            "ftp://example.org/app.zip".to_owned(),
            format!("http://me:hunter2@127.0.0.1:{port}/app.zip"),
            "not a url".to_owned(),
            String::new(),
        ] {
            for query in ["", "?dryRun=true", "?trust=true&force=true"] {
                let answer = fetch(&server, query, &url).await;
                answer.expect_error(400, "BAD_REQUEST");
                assert_eq!(answer.body["details"]["field"], "url", "{url}");
                assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
            }
        }
        assert_eq!(Picture::take(&server, &database).await, before);
        assert_eq!(host.asked(), Vec::<String>::new(), "nobody must have knocked");
        for body in [json!({}), json!({ "url": "https://a.example", "toolsetId": "app" }), json!({ "path": "/etc" }), json!({ "url": 1 })] {
            server.post(&format!("{TOOLSETS}/import"), &body).await.expect_error(400, "BAD_REQUEST");
        }
    }

    async fn what_the_operator_allows_is_fetched_and_updated(database: TestDatabase) {
        let host = Host::start(app("1.0.0", "")).await;
        let server = Server::start(BINARY, &database, &["--egress-allow", "127.0.0.1"]);
        let url = host.url("/app.zip?token=hunter2");
        let report = fetch(&server, "", &url).await.expect(201);
        assert_eq!((&report["toolset"]["sourceType"], &report["toolset"]["sourceRef"]), (&json!("url"), &json!(host.url("/app.zip"))), "the query is not shown");
        assert_files_agree(&server, &database, "app").await;
        let before = Picture::take(&server, &database).await;
        before.assert_tidy();
        host.asked();
        for (path, word) in [("/none", "404"), ("/large", "104857600"), ("/says-large", "104857600"), ("/elsewhere", "127.0.0.2"), ("/to-a-file", ""), ("/around", "redirects"), ("/short", "broken")] {
            let answer = fetch(&server, "?force=true", &host.url(path)).await;
            answer.expect_error(400, "BAD_REQUEST");
            assert!(answer.body["message"].as_str().unwrap().contains(word), "{path}: {answer:?}");
            assert_eq!(Picture::take(&server, &database).await, before, "{path}");
        }
        assert!(host.asked().iter().all(|asked| !asked.starts_with("127.0.0.2")), "the redirect was followed");
        fetch(&server, "", &host.url("/text")).await.expect_error(400, "INVALID_BUNDLE");
        fetch(&server, "", "http://127.0.0.1:1/app.zip").await.expect_error(400, "BAD_REQUEST");
        assert_eq!(Picture::take(&server, &database).await, before);
        // Looking again where it came from, the query included.
        *host.bundle.lock().unwrap() = app("1.1.0", "tools: [{id: x, entrypoint: 't:f'}]");
        let again = async |query: &str, id: &str| server.post(&format!("{TOOLSETS}/import{query}"), &json!({ "toolsetId": id })).await;
        host.asked();
        assert_eq!(again("?dryRun=true", "app").await.expect(200)["tools"]["added"], json!(["x"]));
        assert_eq!(Picture::take(&server, &database).await, before);
        assert_eq!(again("", "app").await.expect(200)["change"], "upgrade");
        assert!(host.asked().iter().all(|asked| asked.ends_with("/app.zip?token=hunter2")));
        again("", "nobody").await.expect_error(404, "TOOLSET_NOT_FOUND");
        import(&server, "", &with_manifest(&manifest("other", "1.0.0", ""))).await.expect(201);
        again("", "other").await.expect_error(400, "BAD_REQUEST");
        // A redirect to where it may go is followed.
        assert_eq!(fetch(&server, "", &host.url("/moved")).await.expect(200)["change"], "reinstall");
        let listed = [server.get(TOOLSETS).await.expect(200), server.get(&format!("{TOOLSETS}/app")).await.expect(200)];
        assert!(listed.iter().all(|one| !one.to_string().contains("hunter2")));
    }
}

/// The host may send another toolset than the one that is to be updated.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_installs_nothing_else() {
    let database = TestDatabase::sqlite();
    let host = Host::start(app("1.0.0", "")).await;
    let server = Server::start(BINARY, &database, &["--egress-allow", "127.0.0.1"]);
    fetch(&server, "", &host.url("/app.zip")).await.expect(201);
    let before = Picture::take(&server, &database).await;
    *host.bundle.lock().unwrap() = with_manifest(&manifest("evil", "1.0.0", ""));
    let answer = server.post(&format!("{TOOLSETS}/import"), &json!({ "toolsetId": "app" })).await;
    answer.expect_error(409, "CONFLICT");
    assert!(answer.body["message"].as_str().unwrap().contains("evil"), "{answer:?}");
    assert_eq!(Picture::take(&server, &database).await, before);
}
