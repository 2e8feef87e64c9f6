//! Runs whose toolsets have containers: which executors get them, and what an agent there can call.

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Podman, Program, Server, TestDatabase};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::BINARY;
use crate::browsers::{PASSWORD, owner, sign_in};
use crate::kit::{RUNS, ask, config, events, pair, show, until};
use crate::machine::{Machine, Model, installed};

const IMAGE: &str = "localhost/kb:1";
const SPEAKER: &str = "localhost/time:1";

/// What the image does: it says in loud words what is in the folder, and whose the container is.
const TOOL: &str = "#!/bin/sh
tr a-z A-Z < given.txt > loud.txt
echo \"{\\\"args\\\": $(cat), \\\"user\\\": \\\"$(id -u)\\\", \\\"token\\\": \\\"$TOKEN\\\"}\" > $KITBAG_RESULT_FILE
";

const MANIFEST: &str = "id: loud
name: Loud
version: \"1.0.0\"
containers:
  - id: box
    image: localhost/kb:1
    env: {TOKEN: \"${ZOO_TOKEN}\"}
    tools:
      - {id: shout, description: Makes it loud, command: [/bin/tool], input_schema: {type: object, properties: {n: {type: integer}}}}
      - {id: asks, command: [/bin/tool], input_schema: {type: object}, requires_confirmation: true}
";

const MORE: &str = "  - {id: clock, image: \"localhost/time:1\"}\n";

fn serve(database: &TestDatabase, podman: &Podman) -> Server {
    let program = Program::on(BINARY, database).env("DOCKER_HOST", &podman.host());
    Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0"])
}

async fn install(server: &Server, manifest: &str, query: &str) {
    let mut archive = ArchiveWriter::new(Vec::new());
    archive.file(&"toolset.yaml".parse().unwrap(), false, &mut manifest.as_bytes()).unwrap();
    let request = server.request(Method::POST, &format!("/v1/orgs/local/toolsets/import{query}"));
    let request = request.header(header::CONTENT_TYPE, "application/zip").body(archive.finish().unwrap());
    let answer = Answer::of(request).await;
    assert!(answer.status.is_success(), "{:?}", answer.body);
}

fn asked() -> Value {
    let mut config = config("gateway.codex.v2");
    config["toolsetId"] = json!("loud");
    json!({ "config": config })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_without_an_engine_is_not_given_one() {
    let (podman, database) = (Podman::start(), TestDatabase::sqlite());
    podman.image(IMAGE, &[("bin/tool", TOOL)], &[]);
    let server = serve(&database, &podman);
    install(&server, MANIFEST, "").await;
    let refused = server.post(RUNS, &asked()).await;
    refused.expect_error(409, "NEEDS_TRUST");
    assert_eq!(refused.body["details"]["containers"], json!(["box"]));
    install(&server, MANIFEST, "?trust=true").await;
    let run = ask(&server, &asked()).await;
    let without = pair(&server, &json!({})).await;
    let mut without = without.connect(4, &[]).await;
    // One that it may have comes after, and goes to it alone.
    let other = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
    assert_eq!(without.given().await.id.run_id, other);
    let why = show(&server, run).await["waiting"].to_string();
    assert!(why.contains("engine for containers"), "{why}");
    let paired = pair(&server, &json!({})).await;
    let mut with = paired.connect_contained(4).await;
    let job = with.given().await;
    assert_eq!(job.id.run_id, run);
    let container = &job.toolset.as_ref().unwrap().containers[0];
    assert!(container.image_id.as_ref().is_some_and(|id| !id.is_empty()), "{container:?}");
    assert_eq!(container.env["TOKEN"], "${ZOO_TOKEN}", "a name and no value");
    assert_eq!(container.tools.len(), 2);
    let listed = server.get(crate::kit::EXECUTORS).await.expect(200);
    let of = |id: &str| listed["items"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().clone();
    assert_eq!(of(&paired.id)["containers"], true, "{listed}");
}

/// The real executor and a real agent, with a stand-in for the model alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_calls_tools_of_containers() {
    let (podman, database) = (Podman::start(), TestDatabase::sqlite());
    podman.image(IMAGE, &[("bin/tool", TOOL)], &[]);
    podman.python_server(SPEAKER, "mcp-server-time", &["-m", "mcp_server_time", "--local-timezone", "UTC"]);
    let server = serve(&database, &podman);
    install(&server, &format!("{MANIFEST}{MORE}"), "?trust=true").await;
    let steps = json!([
        { "tool": "mcp__kitbag__write_file", "arguments": { "path": "given.txt", "content": "quiet" } },
        { "tool": "mcp__kitbag__shout", "arguments": { "n": 7 } },
        { "tool": "mcp__kitbag__get_current_time", "arguments": { "timezone": "Asia/Tokyo" } },
        { "tool": "mcp__kitbag__get_current_time", "arguments": { "timezone": "No/Where" } },
    ]);
    let model = Model::new(&steps).await;
    let v1 = format!("{}/v1", model.url);
    let secret = "s3cr3t-value-of-a-variable";
    let host = podman.host();
    let variables = [
        ("ZOO_TOKEN", secret),
        ("OPENAI_API_KEY", "stub"),
        ("OPENAI_BASE_URL", v1.as_str()),
        ("DOCKER_HOST", host.as_str()),
    ];
    let agents = [installed("KITBAG_TEST_CLIENTS", "node_modules/.bin"), installed("KITBAG_TEST_NODE_MODULES", ".bin")];
    let mut machine = Machine::pair(&server, &server.url, &agents, &variables).await;
    machine.start();
    let mut body = asked();
    body["config"]["tools"] = json!({ "allow": ["kitbag:write_file"] });
    body["config"]["limits"] = json!({ "timeoutMs": 180_000 });
    let run = ask(&server, &body).await;
    let over = until(&server, run, "succeeded").await;
    let told = events(&server, run, "").await;
    let results: Vec<&Value> =
        told.iter().filter(|(_, name, _)| name == "tool_result").map(|(.., data)| data).collect();
    assert_eq!(results.len(), 4, "{told:#?}");
    assert!(results[1]["output"].to_string().contains("\\\"n\\\": 7"), "{:#?}", results[1]);
    assert!(!results[1]["output"].to_string().contains("\\\"user\\\": \\\"0\\\""), "whoever runs there is not root");
    assert!(results[2]["output"].to_string().contains("+09:00"), "{:#?}", results[2]);
    assert!(results[3]["output"].to_string().contains("No/Where"), "{:#?}", results[3]);
    let files = server.get(&format!("{RUNS}/{run}/workspace")).await.expect(200);
    let changed: Vec<&str> =
        files["changes"].as_array().unwrap().iter().map(|change| change["path"].as_str().unwrap()).collect();
    assert_eq!(changed, ["given.txt", "loud.txt"], "{files}");
    assert!(!model.asked().contains("mcp__kitbag__asks"), "nobody is there to be asked");
    let everything = format!("{over}{told:?}{}{}", server.log(), machine.log());
    assert!(!everything.contains(secret), "a value of a variable was told");
    assert_eq!(podman.containers().len(), 0, "nothing is left of the attempt");
}

/// An executor that is killed leaves nothing in the engine, once it was started again.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_executor_leaves_no_container() {
    let (podman, database) = (Podman::start(), TestDatabase::sqlite());
    podman.image(IMAGE, &[("bin/tool", "#!/bin/sh\nsleep 1000\n")], &[]);
    let server = serve(&database, &podman);
    install(&server, MANIFEST, "?trust=true").await;
    let model = Model::new(&json!([{ "tool": "mcp__kitbag__shout", "arguments": {} }])).await;
    let v1 = format!("{}/v1", model.url);
    let host = podman.host();
    let variables = [
        ("ZOO_TOKEN", "a-value"),
        ("OPENAI_API_KEY", "stub"),
        ("OPENAI_BASE_URL", v1.as_str()),
        ("DOCKER_HOST", host.as_str()),
    ];
    let agents = [installed("KITBAG_TEST_CLIENTS", "node_modules/.bin"), installed("KITBAG_TEST_NODE_MODULES", ".bin")];
    let mut machine = Machine::pair(&server, &server.url, &agents, &variables).await;
    machine.start();
    let run = ask(&server, &asked()).await;
    let wait = async |what: &str, done: &dyn Fn() -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(90);
        while !done() {
            assert!(std::time::Instant::now() < end, "{what}: {:?}", podman.containers());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    wait("no container", &|| !podman.running().is_empty()).await;
    // So that it is not given to it again.
    server.post(&format!("{RUNS}/{run}/cancel"), &json!({})).await;
    wait("it is not ended with its run", &|| podman.containers().is_empty()).await;
    let again = ask(&server, &asked()).await;
    wait("no container", &|| !podman.running().is_empty()).await;
    machine.kill();
    server.post(&format!("{RUNS}/{again}/cancel"), &json!({})).await;
    machine.start();
    wait("the next start leaves it", &|| podman.containers().is_empty()).await;
}

/// Organisations that share a server: what they may not have here, an agent on an executor of the operator's does not get either.
#[tokio::test(flavor = "multi_thread")]
async fn agents_of_other_organisations_get_what_those_may_have() {
    let digest = "a".repeat(64);
    let tools = "    tools: [{id: look, command: [/bin/look], input_schema: {type: object}}]\n";
    let manifest = |id: &str, image: &str| {
        format!(
            "id: {id}\nname: {id}\nversion: \"1.0.0\"\ncontainers:\n  - id: box\n    {image}\n    permissions: {{network: true}}\n{tools}"
        )
    };
    let toolsets = [
        manifest("named", &format!("image: \"registry.example/look@sha256:{digest}\"")),
        manifest("built", "build: box"),
        manifest("theirs", &format!("image: \"localhost/kitbag-app-box@sha256:{digest}\"")),
    ];
    let run_of = |id: &str| {
        let mut config = config("gateway.codex.v2");
        config["toolsetId"] = json!(id);
        config["execution"] = json!({ "selector": { "pool": "managed" } });
        json!({ "config": config })
    };
    let database = TestDatabase::sqlite();
    for allowed in ["local", "all"] {
        let mut server = Server::start(BINARY, &database, &["--containers", allowed]);
        let ada = match allowed {
            "local" => owner(&server, "acme").await,
            _ => sign_in(&server, "owner@acme.example", PASSWORD).await.unwrap_or_else(|_| panic!("she is let in")),
        };
        for manifest in toolsets.iter().filter(|_| allowed == "local") {
            let mut archive = ArchiveWriter::new(Vec::new());
            archive.file(&"box/Containerfile".parse().unwrap(), false, &mut "FROM scratch\n".as_bytes()).unwrap();
            archive.file(&"toolset.yaml".parse().unwrap(), false, &mut manifest.as_bytes()).unwrap();
            let request = server.anonymous(Method::POST, "/v1/orgs/acme/toolsets/import?trust=true");
            let request = request.header(header::COOKIE, &ada.cookie).header("sec-fetch-site", "same-origin");
            let request = request.header(header::CONTENT_TYPE, "application/zip").body(archive.finish().unwrap());
            Answer::of(request).await.expect(201);
        }
        for id in ["named", "built", "theirs"] {
            let answer = ada.post("/v1/orgs/acme/agent-runs", run_of(id)).await;
            if (allowed, id) == ("all", "named") {
                let run = answer.expect(201)["id"].as_str().unwrap().to_owned();
                let paired = pair(&server, &json!({ "pool": "managed" })).await;
                let job = paired.connect_contained(4).await.given().await;
                assert_eq!((job.id.run_id.to_string(), job.organization_id.as_str()), (run, "acme"));
                let container = &job.toolset.as_ref().unwrap().containers[0];
                assert!(!container.network, "the network is for those to whom the operator gives it");
            } else {
                answer.expect_error(503, "UNAVAILABLE");
            }
        }
        server.signal(rustix::process::Signal::TERM);
        server.wait();
    }
}

/// A registry that takes connections and says nothing: the run ends when its time is up, or when somebody ends it.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_does_not_come_holds_up_no_run() {
    let (podman, database) = (Podman::start(), TestDatabase::sqlite());
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("\"{}/none@sha256:{}\"", silent.local_addr().unwrap(), "a".repeat(64));
    let server = serve(&database, &podman);
    install(&server, &MANIFEST.replace(IMAGE, &image), "?trust=true").await;
    let host = podman.host();
    let variables = [("ZOO_TOKEN", "a-value"), ("OPENAI_API_KEY", "stub"), ("DOCKER_HOST", host.as_str())];
    let agents = [installed("KITBAG_TEST_CLIENTS", "node_modules/.bin"), installed("KITBAG_TEST_NODE_MODULES", ".bin")];
    let mut machine = Machine::pair(&server, &server.url, &agents, &variables).await;
    machine.start();
    let with_time = |milliseconds: u64| {
        let mut body = asked();
        body["config"]["limits"] = json!({ "timeoutMs": milliseconds });
        body
    };
    let run = ask(&server, &with_time(3_000)).await;
    let over = until(&server, run, "timed_out").await;
    assert_eq!(over["error"]["code"], "NODE_EXECUTION_TIMEOUT", "{over}");
    let run = ask(&server, &with_time(600_000)).await;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while show(&server, run).await["state"] == "queued" {
        assert!(std::time::Instant::now() < end, "nobody takes it");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    server.post(&format!("{RUNS}/{run}/cancel"), &json!({})).await;
    until(&server, run, "cancelled").await;
}
