//! The real executor on the real server: the program that machines run, with an agent that is a shell script and does what it is asked.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kitbag_model::RunId;
use kitbag_testkit::{Program, Server, on_both};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BINARY;
use crate::kit::{EXECUTORS, RUNS, events, serve, show, until};

/// Says its version, or does what its prompt says and tells it as Codex does.
const CODEX: &str = r#"#!/bin/sh
[ "$1" = --version ] && echo codex-cli 0.166.0 && exit
say() { printf '{"type":"item.completed","item":{"id":"%s","type":"agent_message","text":"%s"}}\n' "$1" "$1"; }
wait_for() { until [ -e "$1" ]; do sleep 0.02; done; }
echo '{"type":"turn.started"}'
eval "$(cat)"
echo '{"type":"turn.completed","usage":{"input_tokens":3,"output_tokens":4}}'
"#;

/// A machine with an agent.
struct Machine {
    folder: TempDir,
}

/// An executor that works. It does not outlive its test.
struct Working(Child);

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let codex = folder.path().join("bin/codex");
        fs::write(&codex, CODEX).unwrap();
        fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// A file for scripts and tests to meet at.
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    #[allow(clippy::disallowed_methods, reason = "the program under test")]
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        let path = format!("{}:/usr/bin:/bin", self.at("bin").display());
        command.args(["executor"]).args(args).env_clear().env("PATH", path).env("KITBAG_DATA", self.at("data"));
        command.stdin(Stdio::null());
        command
    }

    async fn pair(&self, server: &Server) {
        let made = server.post(&format!("{EXECUTORS}/pairing-tokens"), &json!({})).await.expect(201);
        let token = made["pairingToken"].as_str().unwrap();
        let paired = self.command(&["pair", token, "--server", &server.url, "--json"]).output().unwrap();
        assert!(paired.status.success(), "{paired:?}");
        let told: Value = serde_json::from_slice(&paired.stdout).unwrap();
        assert_eq!(told["organizationId"], "local");
        // A token works once.
        let again = self.command(&["pair", token, "--server", &server.url, "--json", "--replace"]).output().unwrap();
        let told: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!((again.status.code(), &told["code"]), (Some(1), &json!("PAIRING_TOKEN_INVALID")));
    }

    fn start(&self, args: &[&str]) -> Working {
        let output = File::create(self.at("output")).unwrap();
        let args: Vec<&str> = ["start", "--json", "--log", "warn"].iter().chain(args).copied().collect();
        Working(self.command(&args).stdout(output).spawn().unwrap())
    }
}

impl Working {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    async fn ended(mut self) -> Option<i32> {
        let mut status = None;
        wait("the executor ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().code()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ask(server: &Server, script: &str) -> RunId {
    let config =
        json!({ "prompt": script, "engine": { "id": "gateway.codex.v2" }, "limits": { "timeoutMs": 120_000 } });
    let made = server.post(RUNS, &json!({ "config": config })).await.expect(201);
    made["id"].as_str().unwrap().parse().unwrap()
}

async fn texts(server: &Server, run: RunId) -> Vec<String> {
    let told = events(server, run, "").await.into_iter().filter(|(_, name, _)| name == "text");
    told.map(|(.., data)| data["text"].as_str().unwrap().to_owned()).collect()
}

fn pid(path: &Path) -> u32 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

on_both! {
    async fn a_run_goes_to_a_machine_and_comes_back_with_its_files(database: TestDatabase) {
        let (server, machine) = (serve(&database), Machine::new());
        machine.pair(&server).await;
        let executor = machine.start(&[]);
        let run = ask(&server, "say one; mkdir d; echo hi > d/new; chmod +x d/new; say two").await;
        let over = until(&server, run, "succeeded").await;
        assert_eq!((&over["output"], &over["attempt"]), (&json!("two"), &json!(1)));
        assert_eq!(texts(&server, run).await, ["one", "two"]);
        let left = server.get(&format!("{RUNS}/{run}/workspace")).await.expect(200);
        assert_eq!((&left["changes"][0]["path"], &left["changes"][0]["after"]["mode"]), (&json!("d/new"), &json!("100755")));
        executor.signal(Signal::TERM);
        assert_eq!(executor.ended().await, Some(0));
    }

    async fn an_executor_that_is_killed_gives_back_what_it_had_begun(database: TestDatabase) {
        let (server, machine) = (serve(&database), Machine::new());
        machine.pair(&server).await;
        let executor = machine.start(&[]);
        let (first, go) = (machine.at("pid"), machine.at("go"));
        let script = format!("echo $$ > {}.new; mv {0}.new {0}; say 1; wait_for {}; say 2", first.display(), go.display());
        let run = ask(&server, &script).await;
        until(&server, run, "running").await;
        wait("the agent works", || first.exists()).await;
        let agent = pid(&first);
        executor.signal(Signal::KILL);
        assert_eq!(executor.ended().await, None);
        wait("the agent is gone", || !is_alive(agent)).await;
        fs::remove_file(&first).unwrap();
        fs::write(&go, "").unwrap();
        let executor = machine.start(&[]);
        // Long before its lease would be over.
        let over = until(&server, run, "succeeded").await;
        assert_eq!((&over["output"], &over["attempt"]), (&json!("2"), &json!(2)));
        executor.signal(Signal::TERM);
        assert_eq!(executor.ended().await, Some(0));
    }

    async fn a_server_that_is_killed_hears_the_end_afterwards(database: TestDatabase) {
        let (mut server, machine) = (serve(&database), Machine::new());
        machine.pair(&server).await;
        let executor = machine.start(&[]);
        let (go, done, ran) = (machine.at("go"), machine.at("done"), machine.at("ran"));
        let script = format!(
            "echo x >> {}; say 1; wait_for {}; say 2; touch {}", ran.display(), go.display(), done.display()
        );
        let run = ask(&server, &script).await;
        until(&server, run, "running").await;
        wait("the agent works", || ran.exists()).await;
        server.signal(Signal::KILL);
        server.wait();
        fs::write(&go, "").unwrap();
        wait("the agent is done", || done.exists()).await;
        // Where it was before: executors do not follow a server that moves.
        let address = server.url.trim_start_matches("http://").to_owned();
        let program = Program::on(BINARY, &database);
        let server = Server::start_program(&program, database.data(), &["serve", "--listen", &address]);
        let over = until(&server, run, "succeeded").await;
        assert_eq!((&over["output"], &over["attempt"]), (&json!("2"), &json!(1)));
        assert_eq!(texts(&server, run).await, ["1", "2"]);
        assert_eq!(fs::read_to_string(&ran).unwrap(), "x\n");
        executor.signal(Signal::TERM);
        assert_eq!(executor.ended().await, Some(0));
    }

    async fn cancelling_and_taking_out_reach_the_machine(database: TestDatabase) {
        let (server, machine) = (serve(&database), Machine::new());
        machine.pair(&server).await;
        let executor = machine.start(&[]);
        let mut agents = Vec::new();
        for _ in 0..2 {
            let file = machine.at(&format!("pid{}", agents.len()));
            let script = format!("echo $$ > {}.new; mv {0}.new {0}; exec sleep 1000", file.display());
            let run = ask(&server, &script).await;
            wait("the agent works", || file.exists()).await;
            agents.push((run, pid(&file)));
        }
        server.post(&format!("{RUNS}/{}/cancel", agents[0].0), &json!({})).await;
        until(&server, agents[0].0, "cancelled").await;
        wait("the agent is gone", || !is_alive(agents[0].1)).await;
        assert!(is_alive(agents[1].1));
        let listed = server.get(EXECUTORS).await.expect(200);
        let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
        server.delete(&format!("{EXECUTORS}/{id}")).await;
        wait("the agent is gone", || !is_alive(agents[1].1)).await;
        assert_eq!(executor.ended().await, Some(1));
        assert_ne!(show(&server, agents[1].0).await["state"], "succeeded");
    }
}
