//! Nodes behind a balancer that knows nothing of them but who is ready.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kitbag_testkit::Server;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{CHATS, Installation, ask_nobody, calls, new_chat, until};

/// A running haproxy, killed when dropped.
struct Balancer {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Balancer {
    fn start(nodes: &[u16]) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let servers: String = nodes
            .iter()
            .enumerate()
            .map(|(n, port)| format!("    server node{n} 127.0.0.1:{port} check inter 200ms fall 1 rise 1\n"))
            .collect();
        let text = format!(
            "defaults\n    mode http\n    timeout connect 2s\n    timeout check 5s\n    timeout client 60s\n    timeout server 60s\n    \
             timeout queue 20s\n    retries 5\n    option redispatch 1\n\
             frontend all\n    bind 127.0.0.1:{port}\n    default_backend nodes\n\
             backend nodes\n    balance roundrobin\n    option httpchk\n    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost\n    http-check expect status 200\n{servers}"
        );
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(if std::path::Path::new("/usr/sbin/haproxy").exists() {
            "/usr/sbin/haproxy"
        } else {
            "haproxy"
        });
        let child = command.arg("-db").arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("haproxy. `make test` installs it; by hand: apt-get install haproxy");
        Self { child, url: format!("http://127.0.0.1:{port}"), _folder: folder }
    }
}

/// Asks through the balancer, again and again.
async fn load(url: String, token: String, chat: String, over: Arc<AtomicBool>, done: Arc<AtomicUsize>) -> Vec<String> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut failed = Vec::new();
    let mut turn = 0_usize;
    while !over.load(Ordering::SeqCst) {
        turn += 1;
        let request = match turn % 3 {
            0 => client.get(format!("{url}{CHATS}/{chat}/messages")),
            1 => client.post(format!("{url}{}", calls(&chat))).json(
                &json!({ "toolId": "run_command", "args": { "command": "echo $((1 + $(cat n 2>/dev/null || echo 0)))" } }),
            ),
            _ => client.get(format!("{url}/v1/orgs/local/tools")),
        };
        match request.bearer_auth(&token).send().await {
            Ok(answer) => {
                let status = answer.status();
                let body: Value = answer.json().await.unwrap_or_default();
                if failed.len() < 5 && (status != 200 || (turn % 3 == 1 && body["status"] != "success")) {
                    failed.push(format!("{status} {body}"));
                }
            }
            Err(error) => failed.push(format!("{error:?}")),
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    failed
}

async fn is_ready(server: &Server) {
    until("it is ready", async || (server.get("/readyz").await.status == 200).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_fails_no_request() {
    let installation = Installation::new(2).await;
    let ports = [free_port(), free_port()];
    let start = |node: usize| {
        let listen = format!("127.0.0.1:{}", ports[node]);
        installation.start(node, &["--listen", &listen, "--drain-delay-seconds", "2"])
    };
    let mut servers = [start(0), start(1)];
    ask_nobody(&servers[0]).await;
    let token = servers[0].token.clone();
    let balancer = Balancer::start(&ports);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    until("the balancer is there", async || {
        let answer = client.get(format!("{}/readyz", balancer.url)).send().await;
        answer.is_ok_and(|answer| answer.status() == 200).then_some(())
    })
    .await;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for n in 0..4 {
        let chat = new_chat(&servers[n % 2]).await;
        clients.push(tokio::spawn(load(balancer.url.clone(), token.clone(), chat, over.clone(), done.clone())));
    }
    for node in [0, 1] {
        let before = done.load(Ordering::SeqCst);
        until("there is load", async || (done.load(Ordering::SeqCst) > before + 20).then_some(())).await;
        servers[node].signal(Signal::TERM);
        assert!(servers[node].wait().success(), "{}", servers[node].log());
        servers[node] = start(node);
        is_ready(&servers[node]).await;
        // The balancer sees it too.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let before = done.load(Ordering::SeqCst);
    until("there is load", async || (done.load(Ordering::SeqCst) > before + 20).then_some(())).await;
    over.store(true, Ordering::SeqCst);
    for client in clients {
        assert_eq!(client.await.unwrap(), Vec::<String>::new());
    }
}
