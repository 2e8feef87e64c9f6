//! Where servers may be dialled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, on_both};
use reqwest::Method;
use serde_json::json;

use crate::kit::{add, ask, new_chat, until_status};
use crate::serve;

/// A socket that counts who comes.
async fn counter() -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, count)
}

on_both! {
    async fn the_inside_of_networks_is_not_dialled(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        for (number, url) in [
            "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/mcp", "http://192.168.1.1:8080/mcp", "http://[fd00::1]/mcp",
            "http://[::ffff:169.254.169.254]/mcp", "http://0.0.0.0:1/mcp", "http://2852039166/mcp", "http://100.100.100.200/mcp",
        ].into_iter().enumerate() {
            let id = format!("s{number}");
            add(&server, &id, json!({ "url": url })).await;
            let shown = until_status(&server, &id, "error").await;
            let error = shown["error"].as_str().unwrap();
            assert!(error.contains("not dialled"), "{url}: {error}");
            ask(&server, &chat, &format!("mcp:{id}~{id}:x"), json!({})).await.expect_error(409, "MCP_SERVER_NOT_CONNECTED");
        }
        // This machine's own servers are reached by whoever runs the program, and by nobody else.
        let (port, count) = counter().await;
        let url = format!("http://127.0.0.1:{port}/mcp");
        add(&server, "here", json!({ "url": url })).await;
        until_status(&server, "here", "error").await;
        let reached = count.load(Ordering::SeqCst);
        assert!(reached > 0, "it was dialled");
        server.delete(&crate::kit::at("here")).await.expect(204);
        let reached = count.load(Ordering::SeqCst);
        let store = database.open().await;
        let token = add_token(&store, &add_organization(&store, "other").await, "use manage").await;
        let theirs = async |method: Method, path: &str, body| {
            Answer::of(server.anonymous(method, &format!("/v1/orgs/other/mcp-servers{path}")).bearer_auth(&token).json(&body)).await
        };
        theirs(Method::POST, "", json!({ "id": "here", "url": url })).await.expect(201);
        loop {
            let shown = theirs(Method::GET, "/here", json!({})).await.expect(200);
            if shown["status"] == "error" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert_eq!(count.load(Ordering::SeqCst), reached, "nobody knocked");
    }
}
