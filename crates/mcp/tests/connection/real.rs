//! Servers that others wrote, from the registries.

use std::path::Path;
use std::time::Duration;

use kitbag_guard::child::{Child, ChildSpec};
use kitbag_mcp::connection::{CallError, Notice};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_model::RemoteKind;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{mpsc, watch};

use crate::support::{Opened, call, called, installed, is_alive, open, remote, text};

fn node(package: &str, args: &[&str]) -> Endpoint {
    let node = installed("KITBAG_TEST_NODE_MODULES", ".bin/node").display().to_string();
    let script = installed("KITBAG_TEST_NODE_MODULES", &format!("@modelcontextprotocol/{package}/dist/index.js"));
    let mut all = vec![script.display().to_string()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    Endpoint::Stdio { command: node, args: all, cwd: None, env: Vec::new(), fence: None }
}

fn python(program: &str, args: &[&str]) -> Endpoint {
    let command = installed("KITBAG_TEST_PYTHON_BIN", program).display().to_string();
    Endpoint::Stdio {
        command,
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        cwd: None,
        env: Vec::new(),
        fence: None,
    }
}

async fn has(opened: &Opened, tool: &str) {
    let list = opened.connection.tools().await.unwrap();
    let names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(names.contains(&tool) && list.warnings.is_empty(), "{names:?} {:?}", list.warnings);
}

/// What `server-everything` can do, over whatever way.
async fn everything(mut opened: Opened) {
    assert_eq!(opened.connection.protocol_version(), "2025-11-25");
    assert!(opened.connection.server_info()["name"].as_str().unwrap().contains("everything"));
    has(&opened, "echo").await;
    let result = called(&opened.connection, call("echo", json!({"message": "hello"}))).await.unwrap();
    assert!(text(&result).contains("hello"), "{result}");
    let image = called(&opened.connection, call("get-tiny-image", json!({}))).await.unwrap();
    assert!(image["content"].as_array().unwrap().iter().any(|block| block["type"] == "image"), "{image}");
    let error = called(&opened.connection, call("no-such-tool", json!({}))).await;
    assert!(matches!(&error, Err(CallError::Refused { .. })) || error.unwrap()["isError"] == true);
    let (progress, mut steps) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let mut long = call("trigger-long-running-operation", json!({"duration": 600, "steps": 6000}));
    (long.progress, long.stop) = (Some(progress), stopped);
    let connection = opened.connection.clone();
    let calling = tokio::spawn(async move { called(&connection, long).await });
    assert!(steps.recv().await.unwrap()["progress"].is_number());
    stop.send(true).unwrap();
    assert!(matches!(calling.await.unwrap(), Err(CallError::Cancelled)));
    opened.connection.ping().await.unwrap();
    opened.connection.close().await;
    opened.wait_for(&Notice::Closed("it was closed".to_owned())).await;
}

#[tokio::test]
async fn everything_on_stdio() {
    let opened = open(&node("server-everything", &["stdio"])).await;
    let pid = opened.connection.pid().unwrap();
    everything(opened).await;
    assert!(!is_alive(pid.into()));
}

/// Starts it on a port that was free a moment ago.
async fn everything_on_the_web(way: &str) -> (Child, u16) {
    let Endpoint::Stdio { command, args, .. } = node("server-everything", &[way]) else {
        unreachable!("it is a process")
    };
    for _ in 0..5 {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let spec = ChildSpec::new(&command, "/").args(&args).declare([("PORT".to_owned(), port.to_string())]);
        let (child, pipes) = spec.start().await.unwrap();
        let mut lines = BufReader::new(pipes.stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains(&port.to_string()) && !line.contains("already in use") {
                // Somebody has to read what else it says.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                tokio::spawn(async move {
                    let mut lines = BufReader::new(pipes.stdout).lines();
                    while let Ok(Some(_)) = lines.next_line().await {}
                });
                return (child, port);
            }
        }
    }
    panic!("server-everything does not start");
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let (_child, port) = everything_on_the_web("streamableHttp").await;
    let url = format!("http://127.0.0.1:{port}/mcp").parse().unwrap();
    everything(open(&remote(RemoteKind::StreamableHttp, url)).await).await;
}

#[tokio::test]
async fn everything_over_sse() {
    let (_child, port) = everything_on_the_web("sse").await;
    let url = format!("http://127.0.0.1:{port}/sse").parse().unwrap();
    everything(open(&remote(RemoteKind::Sse, url)).await).await;
}

#[tokio::test]
async fn the_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().canonicalize().unwrap();
    std::fs::write(inside.join("a.txt"), "inside").unwrap();
    let opened = open(&node("server-filesystem", &[inside.to_str().unwrap()])).await;
    has(&opened, "read_text_file").await;
    let read =
        async |path: &Path| called(&opened.connection, call("read_text_file", json!({"path": path}))).await.unwrap();
    assert_eq!(text(&read(&inside.join("a.txt")).await), "inside");
    assert_eq!(read(Path::new("/etc/passwd")).await["isError"], true);
}

#[tokio::test]
async fn the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut endpoint = node("server-memory", &[]);
    if let Endpoint::Stdio { env, .. } = &mut endpoint {
        env.push(("MEMORY_FILE_PATH".to_owned(), folder.path().join("memory.json").display().to_string()));
    }
    let opened = open(&endpoint).await;
    has(&opened, "create_entities").await;
    let entity = json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote"]}]});
    called(&opened.connection, call("create_entities", entity)).await.unwrap();
    let graph = called(&opened.connection, call("read_graph", json!({}))).await.unwrap();
    assert_eq!(graph["structuredContent"]["entities"][0]["name"], "Ada", "{graph}");
}

#[tokio::test]
async fn the_time() {
    let opened = open(&python("mcp-server-time", &["--local-timezone", "UTC"])).await;
    assert_eq!(opened.connection.protocol_version(), "2026-07-28");
    has(&opened, "get_current_time").await;
    let now = called(&opened.connection, call("get_current_time", json!({"timezone": "Europe/Berlin"}))).await.unwrap();
    let now: Value = serde_json::from_str(text(&now)).unwrap();
    assert_eq!(now["timezone"], "Europe/Berlin");
}

#[tokio::test]
async fn git_and_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().display().to_string();
    let (mut init, _pipes) = ChildSpec::new("git", &path).args(["init", "-q"]).start().await.unwrap();
    assert!(init.ended().await.unwrap().success());
    std::fs::write(folder.path().join("new.txt"), "x").unwrap();
    let mut opened = open(&python("mcp-server-git", &["--repository", &path])).await;
    has(&opened, "git_status").await;
    let status = called(&opened.connection, call("git_status", json!({"repo_path": path}))).await.unwrap();
    assert!(text(&status).contains("new.txt"), "{status}");
    let pid = rustix::process::Pid::from_raw(opened.connection.pid().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let end = tokio::time::timeout(Duration::from_secs(30), opened.the_end()).await.unwrap();
    assert_eq!(end.0, "the server was ended by signal 9");
}
