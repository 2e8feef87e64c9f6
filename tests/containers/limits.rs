//! An engine that cannot limit what containers take: it says so in passing and starts them all the same, so Kitbag does not.

use std::path::PathBuf;

use kitbag_testkit::{Podman, Program, TestDatabase};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{UnixListener, UnixStream};

use crate::kit::{TOOLS, TOOLSETS, ask, bundle, call, engine, import, manifest, new_chat, serve_at};

/// What an engine says that can limit memory, and what one says that cannot: of the same length, so that the answer stays whole.
const CAN: &[u8] = br#""MemoryLimit":true,"SwapLimit":true"#;
const CANNOT: &[u8] = br#""MemoryLimit":false,"SwapLimi":true"#;

/// A socket before an engine's, where it says what one says that cannot limit memory. All else is as it is: few machines have control groups that
/// lack one, and those that do have it at boot.
fn without_memory(podman: &Podman) -> (tempfile::TempDir, String) {
    let folder = tempfile::Builder::new().prefix("kb-eng").tempdir().unwrap();
    let socket = folder.path().join("s.sock");
    let real = PathBuf::from(podman.host().trim_start_matches("unix://"));
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(engine) = UnixStream::connect(&real).await else { continue };
            let (mut asked, mut answered) = client.into_split();
            let (mut from, mut to) = engine.into_split();
            tokio::spawn(async move {
                let _ = copy(&mut asked, &mut to).await;
                let _ = to.shutdown().await;
            });
            tokio::spawn(async move {
                let mut piece = vec![0; 1 << 16];
                while let Ok(read @ 1..) = from.read(&mut piece).await {
                    let said = &mut piece[..read];
                    if let Some(at) = said.windows(CAN.len()).position(|part| part == CAN) {
                        said[at..at + CAN.len()].copy_from_slice(CANNOT);
                    }
                    if answered.write_all(said).await.is_err() {
                        break;
                    }
                }
                let _ = answered.shutdown().await;
            });
        }
    });
    (folder, format!("unix://{}", socket.display()))
}

/// What `kitbag doctor` says of the engine.
fn doctor(database: &TestDatabase, engine: &str) -> Value {
    let program = Program::on(env!("CARGO_BIN_EXE_kitbag"), database).env("DOCKER_HOST", engine);
    let told: Value = serde_json::from_str(&program.run(&["doctor", "--json"]).stdout).unwrap();
    told["checks"].as_array().unwrap().iter().find(|check| check["name"] == "containers").unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_cannot_limit_memory_runs_nothing_unless_that_is_allowed() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let (_folder, host) = without_memory(&podman);
    let found = tokio::task::block_in_place(|| doctor(&database, &podman.host()));
    assert_eq!(found["status"], "ok", "{found}");
    let found = tokio::task::block_in_place(|| doctor(&database, &host));
    assert_eq!(found["status"], "missing", "{found}");
    assert!(found["found"].as_str().unwrap().contains("cannot limit memory"), "{found}");

    let mut server = serve_at(&database, &host, &[]);
    let packed = || bundle(&[("toolset.yaml", &manifest(&["nothing"], "", ""))]);
    import(&server, "?trust=true", packed()).await.expect(201);
    server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect_error(503, "UNAVAILABLE");
    let chat = new_chat(&server).await;
    let refused = ask(&server, &chat, "app:nothing", json!({})).await;
    refused.expect_error(503, "UNAVAILABLE");
    assert!(refused.body["message"].as_str().unwrap().contains("cannot limit memory"), "{:?}", refused.body);
    let listed = server.get(&format!("{TOOLS}/app:nothing")).await.expect(200);
    assert!(listed["problem"].as_str().unwrap().contains("cannot limit memory"), "{listed}");
    assert_eq!(podman.containers().len(), 0);

    // Whoever runs the server may say that their own run all the same; the record says what was missing.
    crate::kit::stop(&mut server);
    let server = serve_at(&database, &host, &["--sandbox", "relaxed"]);
    let ran = call(&server, &chat, "nothing").await;
    assert_eq!(ran["status"], "success", "{ran}");
    assert_eq!(ran["sandbox"], json!({ "layers": ["container"], "missing": ["limit of memory"] }), "{ran}");
}
