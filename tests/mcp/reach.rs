//! Where servers may be dialled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Answer, Program, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{add, ask, new_chat, until_status};
use crate::real::everything_on_the_web;
use crate::{BINARY, serve};

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

    async fn a_host_that_is_taken_off_the_list_is_left(database: TestDatabase) {
        let (_child, port) = everything_on_the_web("streamableHttp").await;
        let (other, count) = counter().await;
        let server = Server::start(BINARY, &database, &["--egress-allow", "127.0.0.0/8"]);
        let store = database.open().await;
        let token = add_token(&store, &add_organization(&store, "other").await, "use manage").await;
        let theirs = async |method: Method, path: &str, body| {
            Answer::of(server.anonymous(method, &format!("/v1/orgs/other{path}")).bearer_auth(&token).json(&body)).await
        };
        let until = async |id: &str, status: &str| loop {
            let shown = theirs(Method::GET, &format!("/mcp-servers/{id}"), json!({})).await.expect(200);
            if shown["status"] == status {
                break shown;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        };
        let allow = async |hosts: Value| {
            theirs(Method::PUT, "/settings", json!({ "network": { "allow": hosts } })).await.expect(200);
        };
        allow(json!(["127.0.0.1"])).await;
        let body = json!({ "id": "all", "url": format!("http://127.0.0.1:{port}/mcp"), "requiresConfirmation": false });
        theirs(Method::POST, "/mcp-servers", body).await.expect(201);
        until("all", "connected").await;
        theirs(Method::POST, "/mcp-servers", json!({ "id": "x", "url": format!("http://127.0.0.2:{other}/mcp") })).await.expect(201);
        let shown = until("x", "error").await;
        assert!(shown["error"].as_str().unwrap().contains("network.allow"), "{shown}");
        theirs(Method::POST, "/mcp-servers/x/reconnect", json!({})).await;
        theirs(Method::POST, "/mcp-servers/x/sign-in", json!({})).await.expect_error(409, "CONFLICT");
        assert_eq!(count.load(Ordering::SeqCst), 0, "nobody knocked");

        let chat = theirs(Method::POST, "/chats", json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
        let call = async || {
            let body = json!({ "toolId": "mcp:all~all:echo", "args": { "message": "hi" } });
            theirs(Method::POST, &format!("/chats/{chat}/tool-calls"), body).await
        };
        assert_eq!(call().await.expect(200)["status"], "success");
        allow(json!(["example.org"])).await;
        until("all", "error").await;
        call().await.expect_error(409, "MCP_SERVER_NOT_CONNECTED");
        allow(json!(null)).await;
        until("all", "connected").await;
        assert_eq!(call().await.expect(200)["status"], "success");
    }
}

/// An organisation's variables are those that the operator lists for it, perhaps under longer names.
#[tokio::test(flavor = "multi_thread")]
async fn variables_are_given_by_name() {
    let database = TestDatabase::sqlite();
    let text = "[organizations.default]\nvariables = [\"SHARED\"]\n\
                [organizations.acme]\nvariables = [\"SHARED\", \"TOKEN\", \"EMPTY\"]\nvariables_prefix = \"ACME_\"\n";
    std::fs::write(database.data().join("kitbag.toml"), text).unwrap();
    let program = Program::on(BINARY, &database)
        .env("SHARED", "everybody")
        .env("ACME_SHARED", "acme's")
        .env("ACME_TOKEN", "t")
        .env("TOKEN", "not for them")
        .env("ACME_EMPTY", "")
        .env("OTHER", "x");
    let server = Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"]);
    let store = database.open().await;
    for (org, missing) in [
        ("acme", json!(["EMPTY", "OTHER", "KITBAG_DATA"])),
        ("bolt", json!(["TOKEN", "EMPTY", "OTHER", "KITBAG_DATA"])),
    ] {
        let token = add_token(&store, &add_organization(&store, org).await, "use manage").await;
        let at = |path: &str| format!("/v1/orgs/{org}/mcp-servers{path}");
        let ask = async |method: Method, path: &str, body: Value| {
            Answer::of(server.anonymous(method, &at(path)).bearer_auth(&token).json(&body)).await
        };
        let refer = |names: &[&str]| names.iter().map(|name| format!("${{{name}}}")).collect::<Vec<_>>();
        let args = refer(&["SHARED", "TOKEN", "EMPTY", "OTHER", "KITBAG_DATA"]);
        let shown = ask(Method::POST, "", json!({ "id": "s", "command": "echo", "args": args })).await.expect(201);
        assert_eq!(shown["missingVariables"], missing, "{org}");
        let shown = ask(Method::POST, "/s/reconnect", json!({})).await;
        assert!(
            shown.body.to_string().contains(&format!("MCP_ENV_NOT_SET:{}", missing[0].as_str().unwrap())),
            "{shown:?}"
        );
        // What a server gets is the organisation's own.
        let say = "import os, sys; print('has', len(os.environ['A']), file=sys.stderr, flush=True); sys.stdin.read()";
        let env = json!({ "A": "${ENV:SHARED}" });
        let body = json!({ "id": "e", "command": "python3", "args": ["-I", "-c", say], "env": env });
        ask(Method::POST, "", body).await.expect(201);
        let length = if org == "acme" { "acme's".len() } else { "everybody".len() };
        loop {
            let shown = ask(Method::GET, "/e", json!({})).await.expect(200);
            if shown["stderr"].to_string().contains(&format!("has {length}")) {
                break;
            }
            assert!(!shown["stderr"].to_string().contains("has "), "{org}: {shown}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}
