//! Servers that others wrote, from the registries, all at once.

use std::path::PathBuf;

use kitbag_mcp::manager::{Change, Configured, ManagerError, Start, Status};
use kitbag_model::RawLaunch;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::kit::{Kit, NEVER, key, kill, known, request};

/// A path that `scripts/test` sets.
fn installed(variable: &str, inside: &str) -> String {
    let Some(base) = std::env::var_os(variable) else {
        panic!("{variable} is not set: run `scripts/test`, which installs what the tests need and says where it is")
    };
    let path = PathBuf::from(base).join(inside);
    assert!(path.exists(), "{} is missing: run `scripts/test`, which installs it", path.display());
    path.display().to_string()
}

fn node(kit: &Kit, name: &str, package: &str, args: &[&str]) -> Configured {
    let script = installed("KITBAG_TEST_NODE_MODULES", &format!("@modelcontextprotocol/{package}/dist/index.js"));
    let args = [script.as_str()].iter().chain(args).map(|arg| (*arg).to_owned()).collect();
    let command = Some(installed("KITBAG_TEST_NODE_MODULES", ".bin/node"));
    kit.server(name, RawLaunch { command, args, ..RawLaunch::default() })
}

fn python(kit: &Kit, name: &str, program: &str, args: &[&str]) -> Configured {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let command = Some(installed("KITBAG_TEST_PYTHON_BIN", program));
    kit.server(name, RawLaunch { command, args, ..RawLaunch::default() })
}

async fn connected(kit: &Kit, name: &str, tool: &str) -> i32 {
    let state = kit.manager.settled(&kit.org, &key(name), NEVER).await.unwrap();
    assert_eq!(state.status, Status::Connected, "{state:?}");
    assert!(state.live && state.tools.iter().any(|listed| listed.name == tool), "{state:?}");
    state.pid.unwrap().cast_signed()
}

#[tokio::test(flavor = "multi_thread")]
async fn they_connect_list_answer_and_come_back() {
    let mut kit = Kit::new(|_| ());
    let folder = kit.folder.path().canonicalize().unwrap();
    std::fs::write(folder.join("a.txt"), "inside").unwrap();
    kit.values.set(&kit.org, "FOLDER", folder.to_str().unwrap());
    let everything = node(&kit, "app~everything", "server-everything", &["stdio"]);
    let files = node(&kit, "app~files", "server-filesystem", &["${FOLDER}"]);
    let memory = node(&kit, "app~memory", "server-memory", &[]);
    let time = python(&kit, "app~time", "mcp-server-time", &["--local-timezone", "UTC"]);
    let git = python(&kit, "app~git", "mcp-server-git", &[]);
    let git = Configured { start: Start::Lazily, known: vec![known("git_status")], ..git };
    kit.configure(&[&everything, &files, &memory, &time, &git]);

    let pids = [
        connected(&kit, "app~everything", "echo").await,
        connected(&kit, "app~files", "read_text_file").await,
        connected(&kit, "app~memory", "read_graph").await,
        connected(&kit, "app~time", "get_current_time").await,
    ];
    assert_eq!(kit.state("app~git").status, Status::Disconnected);
    let echoed = kit.call("app~everything", "echo", json!({ "message": "hello" })).await.unwrap();
    assert!(echoed.contains("hello"), "{echoed}");
    let path = folder.join("a.txt");
    assert_eq!(kit.call("app~files", "read_text_file", json!({ "path": path })).await.unwrap(), "inside");

    // Killed, all of them serve again; nobody has to do anything.
    kit.told();
    pids.into_iter().for_each(kill);
    let mut noticed = 0;
    while noticed < pids.len() {
        if let Change::Status { status: Status::Connecting, reason, .. } = kit.next().await {
            noticed += usize::from(reason.contains("signal 9"));
        }
    }
    let now = kit.call("app~time", "get_current_time", json!({ "timezone": "Europe/Berlin" })).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&now).unwrap()["timezone"], "Europe/Berlin");
    assert_eq!(kit.call("app~files", "read_text_file", json!({ "path": path })).await.unwrap(), "inside");

    // A call reports how far it is.
    let (progress, mut steps) = mpsc::unbounded_channel();
    let Value::Object(args) = json!({ "duration": 0.1, "steps": 2 }) else { unreachable!() };
    let mut call = request("trigger-long-running-operation", args);
    call.progress = Some(progress);
    kit.manager.call(&kit.org, &key("app~everything"), call).await.unwrap();
    assert!(steps.recv().await.unwrap()["progress"].is_number());

    // The lazy one starts when it is called. It has no repository to tell of, which is an answer too.
    let status = kit.call("app~git", "git_status", json!({ "repo_path": folder })).await.unwrap();
    assert!(!status.is_empty());
    assert_eq!(kit.manager.settled(&kit.org, &key("app~git"), NEVER).await.unwrap().status, Status::Connected);

    kit.configure(&[&everything, &files, &Configured { enabled: false, ..memory.clone() }, &time, &git]);
    let error = kit.call("app~memory", "read_graph", json!({})).await.unwrap_err();
    assert!(matches!(error, ManagerError::Disabled), "{error}");
    kit.manager.shut_down().await;
}
