//! Programs of others that stand in the same place, installed by `scripts/bench-peers` and started here before the echo.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::echo::Process;
use crate::load::{Era, Way};

const PEERS: [Peer; 2] = [
    Peer { name: "mcp-proxy", start: mcp_proxy, path: "/", tool: "echo/echo" },
    Peer { name: "fastmcp", start: fastmcp, path: "/mcp", tool: "echo" },
];

struct Peer {
    name: &'static str,
    /// The command, from where it is installed, the echo's address, a port, and a folder for what it needs.
    start: fn(&Path, &str, u16, &Path) -> Command,
    path: &'static str,
    tool: &'static str,
}

/// All that are there, ready to be called. Why one is not there is told.
pub(crate) async fn start(installed: Option<&Path>, echo: &str, scratch: &Path) -> Vec<(Process, Way)> {
    let Some(installed) = installed else {
        println!("no peers: `make bench` installs them and says where they are");
        return Vec::new();
    };
    let mut ready = Vec::new();
    for peer in PEERS {
        match peer.start(installed, echo, scratch).await {
            Ok(one) => ready.push(one),
            Err(why) => println!("{} is not measured: {why}", peer.name),
        }
    }
    ready
}

impl Peer {
    async fn start(&self, installed: &Path, echo: &str, scratch: &Path) -> Result<(Process, Way), String> {
        let (folder, version) = self.find(installed).ok_or("it could not be installed")?;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = scratch.join(format!("{}.log", self.name));
        let to_log = fs::File::create(&log).unwrap();
        let child = (self.start)(&folder, echo, port, scratch)
            .current_dir(scratch)
            // The echo is on this machine, whatever stands between it and others.
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(to_log.try_clone().unwrap())
            .stderr(to_log)
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut process = Process { child, url: format!("http://127.0.0.1:{port}{}", self.path) };
        let began = Instant::now();
        loop {
            // Which of the two it speaks is found out: the newest, if it can. It is asked for that last, for it may come up
            // between the two questions.
            let way = |era, spoken| {
                let name = format!("{} {version}{spoken}", self.name);
                Way { name, url: process.url.clone(), tool: self.tool, token: String::new(), era }
            };
            let (newest, sessions) = (way(Era::Newest, ""), way(Era::Sessions, ", sessions"));
            let why = match sessions.answers().await {
                _ if newest.answers().await.is_ok() => return Ok((process, newest)),
                Ok(()) => return Ok((process, sessions)),
                Err(said) => said,
            };
            let ended = process.child.try_wait().ok().flatten();
            if ended.is_some() || began.elapsed() > Duration::from_secs(60) {
                let log = fs::read_to_string(&log).unwrap_or_default();
                let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                return Err(format!("it does not answer: {why}; it said last: {last}"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Its folder is named for it and its version.
    fn find(&self, installed: &Path) -> Option<(PathBuf, String)> {
        fs::read_dir(installed).ok()?.flatten().find_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix(self.name)?.strip_prefix('-')?;
            entry.path().join("complete").exists().then(|| (entry.path(), version.to_owned()))
        })
    }
}

fn mcp_proxy(folder: &Path, echo: &str, port: u16, scratch: &Path) -> Command {
    let config = scratch.join("mcp-proxy.toml");
    let text = format!(
        "[proxy]\nname = \"bench\"\nseparator = \"/\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {port}\n\
         [[backends]]\nname = \"echo\"\ntransport = \"http\"\nurl = \"{echo}\"\n[observability]\nlog_level = \"error\"\n"
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(folder.join("bin/mcp-proxy"));
    command.arg("--config").arg(config);
    command
}

fn fastmcp(folder: &Path, echo: &str, port: u16, _scratch: &Path) -> Command {
    let mut command = Command::new(folder.join("bin/fastmcp"));
    command.args([
        "run",
        echo,
        "--transport",
        "http",
        "--no-banner",
        "--log-level",
        "ERROR",
        "--port",
        &port.to_string(),
    ]);
    command
}
