//! A call of a container's tool against a call of a Python tool, on one server, in one run; and against what the engine takes for a container by
//! itself.
//!
//! All three are whole calls: HTTP, arguments checked, the workspace found unchanged, two durable transactions. The cold one makes a container
//! of a static busybox, runs its shell, reads the result and removes it. The warm one asks a published MCP server in the container of the chat,
//! which is there. The engine is podman with runc, in folders of its own.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::fs;
use std::path::Path;
use std::time::Instant;

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Podman, Program, Server, TestDatabase};
use reqwest::{Method, header};
use serde_json::{Value, json};

const COLD: &str = "localhost/cold:1";
const WARM: &str = "localhost/warm:1";
const PYTHON: &str = "from covalt_toolset import tool\n\n@tool\ndef empty() -> int:\n    return 1\n";
const CALLS: usize = 200;
const COLD_CALLS: usize = 40;

const MANIFEST: &str = "id: bench
name: Bench
version: \"1.0.0\"
tools:
  - {id: python, entrypoint: \"tools.empty:empty\"}
containers:
  - id: cold
    image: localhost/cold:1
    tools: [{id: cold, command: [/bin/tool], input_schema: {type: object}}]
  - {id: warm, image: \"localhost/warm:1\"}
";

async fn install(server: &Server) {
    let mut archive = ArchiveWriter::new(Vec::new());
    for (name, text) in [("tools/empty.py", PYTHON), ("toolset.yaml", MANIFEST)] {
        archive.file(&name.parse().unwrap(), false, &mut text.as_bytes()).unwrap();
    }
    let request = server.request(Method::POST, "/v1/orgs/local/toolsets/import?trust=true");
    let request = request.header(header::CONTENT_TYPE, "application/zip").body(archive.finish().unwrap());
    Answer::of(request).await.expect(201);
    server.post("/v1/orgs/local/toolsets/bench/prepare", &json!({})).await.expect(200);
}

/// How long a call takes, in milliseconds.
async fn call(server: &Server, chat: &str, tool: &str, args: &Value) -> f64 {
    let start = Instant::now();
    let body = json!({ "toolId": format!("bench:{tool}"), "args": args });
    let done = server.post(&format!("/v1/orgs/local/chats/{chat}/tool-calls"), &body).await.expect(200);
    assert_eq!(done["status"], "success", "{done}");
    start.elapsed().as_secs_f64() * 1000.0
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    let (podman, database) = (Podman::start(), TestDatabase::sqlite());
    podman.image(COLD, &[("bin/tool", "#!/bin/sh\necho 1 > $KITBAG_RESULT_FILE\n")], &["CMD [\"/bin/tool\"]"]);
    podman.python_server(WARM, "mcp-server-time", &["-m", "mcp_server_time", "--local-timezone", "UTC"]);
    let program = Program::on(env!("CARGO_BIN_EXE_kitbag"), &database).env("DOCKER_HOST", &podman.host());
    let server =
        Server::start_program(&program, database.data(), &["serve", "--listen", "127.0.0.1:0", "--log", "error"]);
    install(&server).await;
    let chat = server.post("/v1/orgs/local/chats", &json!({})).await.expect(201);
    let chat = chat["id"].as_str().unwrap();
    let (none, zone) = (json!({}), json!({ "timezone": "UTC" }));
    call(&server, chat, "python", &none).await;
    // The chat's container is started by its first call.
    let first = call(&server, chat, "get_current_time", &zone).await;
    let (mut python, mut warm, mut cold, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..CALLS {
        // In turn, so that what else this machine does falls on all alike.
        python.push(call(&server, chat, "python", &none).await);
        warm.push(call(&server, chat, "get_current_time", &zone).await);
        if number % (CALLS / COLD_CALLS) == 0 {
            cold.push(call(&server, chat, "cold", &none).await);
            let start = Instant::now();
            podman.run(&[
                "run",
                "--rm",
                "--network",
                "none",
                "--ulimit",
                "nofile=1024:1024",
                "--ulimit",
                "nproc=1024:1024",
                COLD,
                "/bin/sh",
                "-c",
                "true",
            ]);
            bare.push(start.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let (python, warm) = (median(&mut python), median(&mut warm));
    let (cold, bare) = (median(&mut cold), median(&mut bare));
    println!("a call of a tool in a container, whole way through HTTP, durable (medians, in turn)");
    println!("  a Python tool                       {python:8.2} ms");
    println!("  warm: the chat's container, in MCP  {warm:8.2} ms   {:.2} x a Python tool", warm / python);
    println!(
        "  cold: a container for the call      {cold:8.2} ms   {:.2} x a Python tool, {:.2} x podman run",
        cold / python,
        cold / bare
    );
    println!("  podman run, for nothing             {bare:8.2} ms");
    println!(
        "  the first call of a chat, in MCP    {first:8.2} ms   {:.2} x a Python tool; the server starts in it",
        first / python
    );
    let json = json!({
        "pythonMs": python, "warmMs": warm, "coldMs": cold, "engineMs": bare, "firstMs": first,
        "warmToPython": warm / python, "coldToPython": cold / python, "coldToEngine": cold / bare,
    });
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-containers.json"), json.to_string()).unwrap();
}
