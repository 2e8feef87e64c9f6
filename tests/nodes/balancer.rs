//! A real balancer (haproxy) that knows nothing of nodes but who is ready.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running haproxy, killed when dropped.
pub(crate) struct Balancer {
    child: Child,
    pub(crate) url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody has just now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Balancer {
    /// Starts it before nodes at these ports. One that does not say within `patience` that it is ready is not asked for anything more.
    pub(crate) fn start(nodes: &[u16], patience: Duration) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let servers: String = nodes
            .iter()
            .enumerate()
            .map(|(n, port)| format!("    server node{n} 127.0.0.1:{port} check inter 200ms fall 1 rise 1\n"))
            .collect();
        let text = format!(
            "defaults\n    mode http\n    timeout connect 2s\n    timeout check {}ms\n    timeout client 60s\n    timeout server 60s\n    \
             timeout queue 20s\n    retries 5\n    option redispatch 1\n\
             frontend all\n    bind 127.0.0.1:{port}\n    default_backend nodes\n\
             backend nodes\n    balance roundrobin\n    option httpchk\n    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost\n    http-check expect status 200\n{servers}",
            patience.as_millis()
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

    /// Waits until somebody behind it is ready.
    pub(crate) async fn is_there(&self) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while !client.get(format!("{}/readyz", self.url)).send().await.is_ok_and(|answer| answer.status() == 200) {
            assert!(Instant::now() < end, "nobody behind the balancer is ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
