//! What outlives a call, where that is allowed.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::Kit;

const TOOLS: &str = r#"
import os, subprocess, sys, time
from covalt_toolset import tool, get_context

@tool
def serve(port: int) -> dict:
    (get_context().workspace / "index.html").write_text("hello from the workspace")
    get_context().start_process([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], name="web")
    return {"port": port}

@tool
def background():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    return "left"

@tool
def reach(port: int) -> str:
    import urllib.request
    for _ in range(100):
        try: return urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=2).read().decode()
        except OSError as error: last = error; time.sleep(0.1)
    raise last
"#;

const NAMES: [&str; 3] = ["serve", "background", "reach"];

#[tokio::test(flavor = "multi_thread")]
async fn a_server_goes_on_and_belongs_to_its_chat() {
    let kit = Kit::new();
    let mut program = kit.program("web", TOOLS, &NAMES);
    program.listen = true;
    let (finished, _) = kit.call(&program, kit.job("serve", json!({ "port": 3000 }))).await;
    assert_eq!(finished.result.unwrap(), json!({ "port": 3000 }));
    assert!(finished.left_running);
    // Another call of the chat reaches it, another chat does not and has the port for itself.
    assert_eq!(kit.returned(&program, "reach", json!({ "port": 3000 })).await, "hello from the workspace");
    let other = kit.other_chat();
    let mut job = kit.job("serve", json!({ "port": 3000 }));
    (job.chat, job.workspace) = other.clone();
    job.call = "call-other".to_owned();
    assert!(kit.call(&program, job).await.0.left_running);
    std::fs::write(other.1.join("index.html"), "the other one").unwrap();

    let processes = kit.workers.processes(&kit.org(), kit.chat).await;
    assert_eq!(processes.len(), 1, "{processes:?}");
    assert_eq!(processes[0].id, "call-serve");
    assert_eq!(processes[0].ports, [3000]);
    assert!(processes[0].commands[0].contains("http.server 3000"), "{processes:?}");

    // And so does whoever is outside, through the room.
    assert!(kit.fetch(kit.chat, 3000).await.contains("hello from the workspace"));
    assert!(kit.fetch(other.0, 3000).await.contains("the other one"));
    let nothing = kit.workers.connect(&kit.org(), kit.chat, 3001).await.unwrap_err();
    assert!(nothing.to_string().contains("nothing listens on port 3001"), "{nothing}");

    assert!(!kit.workers.stop_process(&kit.org(), kit.chat, "call-other").await);
    assert!(kit.workers.stop_process(&kit.org(), kit.chat, "call-serve").await);
    kit.until(|kit| kit.count_of("http.server") == 1).await;
    kit.until_async(|| async { kit.workers.processes(&kit.org(), kit.chat).await.is_empty() }).await;
    kit.workers.end_chat(&kit.org(), other.0).await;
    kit.until(|kit| kit.count_of("http.server") == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_a_limit_and_an_end() {
    let kit = Kit::new();
    let mut program = kit.program("web", TOOLS, &NAMES);
    program.listen = true;
    for number in 0..3 {
        let mut job = kit.job("background", Value::Null);
        job.call = format!("call-{number}");
        let (finished, _) = kit.call(&program, job).await;
        match number {
            0 | 1 => assert!(finished.left_running && finished.result.is_ok()),
            _ => assert!(finished.result.unwrap_err().message.contains("2 processes running already")),
        }
    }
    kit.until(|kit| kit.count_of("sleep 600") == 2).await;
    kit.workers.shut_down().await;
    kit.until(|kit| kit.inhabitants().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_permission_the_sdk_says_so() {
    let kit = Kit::new();
    let program = kit.program("web", TOOLS, &NAMES);
    let (finished, _) = kit.call(&program, kit.job("serve", json!({ "port": 3000 }))).await;
    let message = finished.result.unwrap_err().message;
    assert!(message.contains("permissions: {listen: true}"), "{message}");
}

impl Kit {
    /// What a web server of a chat answers.
    async fn fetch(&self, chat: kitbag_model::ChatId, port: u16) -> String {
        // It was started a moment ago and may still be on its way.
        self.until_async(|| async { self.workers.connect(&self.org(), chat, port).await.is_ok() }).await;
        let mut stream = self.workers.connect(&self.org(), chat, port).await.unwrap();
        stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}
