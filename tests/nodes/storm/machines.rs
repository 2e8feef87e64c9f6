//! Machines that run agents, and an agent that writes down which task it began and which it ended.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kitbag_testkit::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::kit::BINARY;

/// A paired machine with a data folder of its own, killed when dropped.
pub(crate) struct Machine {
    pub(crate) folder: tempfile::TempDir,
    running: Option<Child>,
}

impl Machine {
    /// Pairs and starts one that has the agent and finds the nodes behind an address.
    pub(crate) async fn new(server: &Server, address: &str) -> Self {
        let mut machine = Self { folder: tempfile::tempdir().unwrap(), running: None };
        let agent = machine.folder.path().join("bin/codex");
        fs::create_dir(agent.parent().unwrap()).unwrap();
        fs::write(&agent, AGENT.replace("AT", machine.folder.path().to_str().unwrap())).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let made = server.post("/v1/orgs/local/executors/pairing-tokens", &json!({})).await.expect(201);
        let token = made["pairingToken"].as_str().unwrap();
        let paired = machine.command(&["pair", token, "--server", address]).output().unwrap();
        assert!(paired.status.success(), "{}", String::from_utf8_lossy(&paired.stderr));
        machine.start();
        machine
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", self.folder.path().display());
        command.arg("executor").args(args).env_clear().env("PATH", path).stdin(Stdio::null());
        command.env("KITBAG_DATA", self.folder.path()).env("HOME", self.folder.path());
        command
    }

    pub(crate) fn start(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = self.command(&["start"]);
        self.running = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill().unwrap();
            running.wait().unwrap();
        }
    }

    /// Stops it where it is, or lets it go on. Its agents go on.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(running) = &self.running {
            kill_process(Pid::from_child(running), signal).unwrap();
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Child::id)
    }

    /// What its agents wrote down: `began TASK` and `ended TASK`.
    pub(crate) fn did(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("did")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!("--- what an executor logged\n{log}");
        }
    }
}

/// Says what Codex says. Its task is the one word of the prompt that begins with `task-`.
const AGENT: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo codex-cli 0.166.0; exit; fi
task=$(grep -o 'task-[0-9]*' | head -n 1)
echo "began $task" >> AT/did
echo '{"type":"turn.started"}'
echo "{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"$task\"}}"
sleep 0.5
echo "ended $task" >> AT/did
echo '{"type":"turn.completed","usage":{"input_tokens":3,"output_tokens":4}}'
"#;
