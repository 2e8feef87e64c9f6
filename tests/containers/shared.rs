//! Organisations that share a server, and servers that share an engine.

use std::time::{Duration, Instant};

use kitbag_testkit::cluster::APP;
use kitbag_testkit::database::add_token;
use kitbag_testkit::{Answer, Podman, Program, Server, TestBucket, TestDatabase};
use reqwest::{Method, header};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{CHATS, IMAGE, bundle, engine, import, manifest, new_chat, serve, stop};

/// Somebody of another organisation than `local`.
struct Other<'a> {
    server: &'a Server,
    token: String,
}

impl Other<'_> {
    async fn ask(&self, method: Method, path: &str, body: &Value, at_once: bool) -> Answer {
        let mut request = self.server.anonymous(method, &format!("/v1/orgs/acme/{path}")).bearer_auth(&self.token);
        if at_once {
            request = request.header("prefer", "respond-async");
        }
        Answer::of(request.json(body)).await
    }

    async fn import(&self, bytes: Vec<u8>) -> Answer {
        let request = self.server.anonymous(Method::POST, "/v1/orgs/acme/toolsets/import?trust=true");
        let request = request.bearer_auth(&self.token).header(header::CONTENT_TYPE, "application/zip");
        Answer::of(request.body(bytes)).await
    }

    async fn chat(&self) -> String {
        let chat = self.ask(Method::POST, "chats", &json!({}), false).await.expect(201);
        format!("chats/{}/tool-calls", chat["id"].as_str().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_organisations_have_containers_where_the_operator_says_so_and_within_their_quota() {
    let (podman, database) = (engine(), TestDatabase::postgres().await);
    let (store, org) = database.open_with("acme").await;
    let token = add_token(&store, &org, "use manage").await;
    store.close().await;
    let packed = bundle(&[("toolset.yaml", &manifest(&["hang", "nothing"], "", ""))]);
    let call = |tool: &str| json!({ "toolId": tool, "args": {} });
    let mut server = serve(&database, &podman, &[]);
    {
        let acme = Other { server: &server, token: token.clone() };
        acme.import(packed.clone()).await.expect(201);
        let chat = acme.chat().await;
        let refused = acme.ask(Method::POST, &chat, &call("app:nothing"), false).await;
        refused.expect_error(503, "UNAVAILABLE");
        assert!(refused.body["message"].as_str().unwrap().contains("operator"), "{:?}", refused.body);
        let listed = acme.ask(Method::GET, "tools", &json!({}), false).await.expect(200);
        assert!(listed.to_string().contains("not for organisations that share this server"), "{listed}");
    }
    stop(&mut server);
    let server = serve(&database, &podman, &["--containers", "all"]);
    let acme = Other { server: &server, token };
    acme.ask(Method::PUT, "settings", &json!({ "quotas": { "concurrentCalls": 1 } }), false).await.expect(200);
    let (one, two) = (acme.chat().await, acme.chat().await);
    let done = acme.ask(Method::POST, &one, &call("app:nothing"), false).await.expect(200);
    assert_eq!(done["status"], "success", "{done}");
    let slow = acme.ask(Method::POST, &one, &call("app:hang"), true).await.expect(202);
    let refused = acme.ask(Method::POST, &two, &call("app:nothing"), false).await;
    refused.expect_error(429, "QUOTA_EXCEEDED");
    assert!(refused.body["message"].as_str().unwrap().contains("concurrentCalls of the organisation acme is 1"));
    let cancel = format!("{one}/{}/cancel", slow["id"].as_str().unwrap());
    acme.ask(Method::POST, &cancel, &json!({}), false).await.expect(200);
    assert_eq!(podman.containers().len(), 0);
}

/// Waits for the one container, and what it is called.
async fn the_one(podman: &Podman) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let [one] = podman.running().as_slice() {
            return one.clone();
        }
        assert!(Instant::now() < end, "{:?}", podman.containers());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Two nodes with an engine each, and bytes in a bucket: an image that is built of a toolset's folder is built where it is needed.
#[tokio::test(flavor = "multi_thread")]
async fn each_node_builds_what_it_needs() {
    let bucket = TestBucket::new();
    let database = TestDatabase::postgres().await.in_bucket(&bucket);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let engines = [engine(), engine()];
    let start = |node: usize| {
        let mut program = Program::new(env!("CARGO_BIN_EXE_kitbag"), folders[node].path())
            .env("KITBAG_DATABASE", database.url(APP).expose())
            .env("KITBAG_MASTER_KEY", KEY)
            .env("KITBAG_BLOBS", &bucket.url())
            .env("DOCKER_HOST", &engines[node].host());
        for (name, value) in TestBucket::variables() {
            program = program.env(name, value);
        }
        Server::start_program(&program, folders[node].path(), &["serve", "--listen", "127.0.0.1:0"])
    };
    let servers = [start(0), start(1)];
    let recipe =
        format!("FROM {IMAGE}\nCOPY made /bin/made\nRUN [\"/bin/busybox\", \"chmod\", \"755\", \"/bin/made\"]\n");
    let yaml = "id: app\nname: App\nversion: \"1.0.0\"\ncontainers:\n  - id: box\n    build: box\n    tools: [{id: say, command: [/bin/made], input_schema: {type: object}}]\n";
    let made = "#!/bin/sh\necho '\"made\"' > $KITBAG_RESULT_FILE\n";
    let packed = bundle(&[("toolset.yaml", yaml), ("box/Containerfile", &recipe), ("box/made", made)]);
    import(&servers[0], "?trust=true", packed).await.expect(201);
    for server in &servers {
        let chat = new_chat(server).await;
        for _ in 0..2 {
            assert_eq!(crate::kit::call(server, &chat, "say").await["result"], "made");
        }
    }
    let built = |podman: &Podman| podman.images(&["--quiet", "localhost/kitbag-app-box"]);
    let ids = engines.each_ref().map(built);
    assert!(
        !ids[0].is_empty() && !ids[1].is_empty() && ids[0].lines().count() == 1 && ids[1].lines().count() == 1,
        "{ids:?}"
    );
}

/// All nodes of an installation have one.
const KEY: &str = "6b1f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a99887766";

/// Two nodes of one installation on one machine, with one engine.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_removes_what_is_its_own_or_a_dead_ones() {
    let (podman, database) = (engine(), TestDatabase::postgres().await);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |node: usize| {
        let program = Program::new(env!("CARGO_BIN_EXE_kitbag"), folders[node].path())
            .env("KITBAG_DATABASE", database.url(APP).expose())
            .env("KITBAG_MASTER_KEY", KEY)
            .env("KITBAG_NODE_LEASE_SECONDS", "2")
            .env("KITBAG_ADVERTISE", "http://127.0.0.1:0")
            .env("DOCKER_HOST", &podman.host());
        Server::start_program(&program, folders[node].path(), &["serve", "--listen", "127.0.0.1:0"])
    };
    let mut first = start(0);
    import(&first, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["hang", "nothing"], "", ""))]))
        .await
        .expect(201);
    let chat = new_chat(&first).await;
    let path = format!("{CHATS}/{chat}/tool-calls");
    let hang = first.request(Method::POST, &path).header("prefer", "respond-async");
    let hang = Answer::of(hang.json(&json!({ "toolId": "app:hang", "args": {} }))).await.expect(202);
    let running = the_one(&podman).await;

    // Another node begins, uses the engine, ends and begins again: none of that is about what the first one runs.
    let mut second = start(1);
    let other = new_chat(&second).await;
    let done = crate::kit::call(&second, &other, "nothing").await;
    assert_eq!(done["status"], "success", "{done}");
    second.signal(Signal::KILL);
    second.wait();
    let second = start(1);
    let done = crate::kit::call(&second, &other, "nothing").await;
    assert_eq!(done["status"], "success", "{done}");
    assert_eq!(podman.running(), std::slice::from_ref(&running));

    // The first one is killed and does not come back: the other one says so, and removes what it left.
    first.signal(Signal::KILL);
    first.wait();
    let end = Instant::now() + Duration::from_secs(60);
    while !podman.containers().is_empty() {
        assert!(Instant::now() < end, "{:?}", podman.containers());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let ended = second.get(&format!("{path}/{}", hang["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(ended["error"]["code"], "INTERRUPTED", "{ended}");
    // Its folder is as it was left; whoever works there next clears it.
    let _again = start(0);
    assert_eq!(std::fs::read_dir(folders[0].path().join("containers")).unwrap().count(), 0);
}
