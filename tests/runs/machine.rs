//! A machine that runs agents: the real program, paired and started, perhaps behind a network that can be cut.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use kitbag_testkit::Server;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::BINARY;
use crate::kit::EXECUTORS;

/// A path that `scripts/test` sets.
pub(crate) fn installed(variable: &str, inside: &str) -> PathBuf {
    let Some(base) = std::env::var_os(variable) else {
        panic!("{variable} is not set: run `scripts/test`, which installs what the tests need and says where it is")
    };
    let path = PathBuf::from(base).join(inside);
    assert!(path.exists(), "{} is missing: run `scripts/test`, which installs it", path.display());
    path
}

/// A machine with a data folder of its own.
pub(crate) struct Machine {
    folder: TempDir,
    variables: Vec<(String, String)>,
    running: Option<Child>,
}

impl Machine {
    /// Pairs a machine that has these programs and variables. `address` is where it finds the server.
    pub(crate) async fn pair(server: &Server, address: &str, programs: &[PathBuf], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path =
            std::env::join_paths(programs.iter().cloned().chain(std::env::split_paths("/usr/local/bin:/usr/bin:/bin")));
        let mut all = vec![("PATH".to_owned(), path.unwrap().into_string().unwrap())];
        all.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let machine = Self { folder, variables: all, running: None };
        let made = server.post(&format!("{EXECUTORS}/pairing-tokens"), &json!({})).await.expect(201);
        let paired =
            machine.command(&["pair", made["pairingToken"].as_str().unwrap(), "--server", address]).output().unwrap();
        assert!(paired.status.success(), "{}", String::from_utf8_lossy(&paired.stderr));
        machine
    }

    #[allow(clippy::disallowed_methods, reason = "it is the program that is tested")]
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("executor").args(args).env_clear().envs(self.variables.iter().cloned());
        command.env("KITBAG_DATA", self.folder.path()).env("HOME", self.folder.path());
        command
    }

    /// Starts it.
    pub(crate) fn start(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = self.command(&["start", "--allow-env", "ZOO_*"]);
        self.running = Some(command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill().unwrap();
            running.wait().unwrap();
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- what the executor logged\n{}", self.log());
        }
    }
}

/// An agent that says what Codex says, works until it is let go, and counts how often it was started.
pub(crate) struct Agent {
    folder: TempDir,
}

impl Agent {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let script = format!(
            "#!/bin/sh\n\
             if [ \"$1\" = --version ]; then echo codex-cli 0.166.0; exit; fi\n\
             cat > /dev/null\n\
             echo started >> {at}/starts\n\
             echo '{{\"type\":\"turn.started\"}}'\n\
             echo '{{\"type\":\"item.completed\",\"item\":{{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"At it.\"}}}}'\n\
             echo written > left.txt\n\
             while [ ! -e {at}/go ]; do sleep 0.05; done\n\
             echo '{{\"type\":\"item.completed\",\"item\":{{\"id\":\"2\",\"type\":\"agent_message\",\"text\":\"Done.\"}}}}'\n\
             echo '{{\"type\":\"turn.completed\",\"usage\":{{\"input_tokens\":3,\"output_tokens\":4}}}}'\n"
        );
        let path = folder.path().join("codex");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        vec![self.folder.path().to_owned()]
    }

    /// Lets it go to its end.
    pub(crate) fn go(&self) {
        fs::write(self.folder.path().join("go"), "").unwrap();
    }

    pub(crate) fn starts(&self) -> usize {
        fs::read_to_string(self.folder.path().join("starts")).unwrap_or_default().lines().count()
    }
}

/// A network between an executor and a server, which can be cut, and lead elsewhere.
pub(crate) struct Network {
    pub(crate) url: String,
    leads_to: Arc<Mutex<String>>,
    cut: watch::Sender<bool>,
}

impl Network {
    pub(crate) async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let leads_to = Arc::new(Mutex::new(address(server)));
        let cut = watch::Sender::new(false);
        let (to, is_cut) = (Arc::clone(&leads_to), cut.subscribe());
        tokio::spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                if !*is_cut.borrow() {
                    let to = to.lock().unwrap().clone();
                    tokio::spawn(carry(here, to, is_cut.clone()));
                }
            }
        });
        Self { url, leads_to, cut }
    }

    /// Breaks what is open, and lets nothing through.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    pub(crate) fn mend(&self, server: &Server) {
        *self.leads_to.lock().unwrap() = address(server);
        self.cut.send_replace(false);
    }
}

fn address(server: &Server) -> String {
    server.url.trim_start_matches("http://").to_owned()
}

#[allow(clippy::disallowed_methods, reason = "to the server of the test itself")]
async fn carry(mut here: TcpStream, to: String, mut cut: watch::Receiver<bool>) {
    let Ok(mut there) = TcpStream::connect(to).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut here, &mut there) => {}
        _ = cut.wait_for(|cut| *cut) => {}
    }
}

/// A stand-in for a model, as a process; it ends with this value.
pub(crate) struct Model {
    child: Child,
    pub(crate) url: String,
    asked: PathBuf,
    _folder: TempDir,
}

impl Model {
    /// One that does what these steps say.
    #[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
    pub(crate) async fn new(steps: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let asked = folder.path().join("asked");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/drivers/stand_in.py");
        let child = Command::new(installed("KITBAG_TEST_CLIENTS", "python/bin/python"))
            .arg(script)
            .arg(steps.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(&asked).unwrap())
            .spawn()
            .unwrap();
        let url = loop {
            let said = fs::read_to_string(&asked).unwrap();
            if let Some((first, _)) = said.split_once('\n') {
                let first: Value = serde_json::from_str(first).unwrap();
                break first["url"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        Self { child, url, asked, _folder: folder }
    }

    /// Everything that it was asked.
    pub(crate) fn asked(&self) -> String {
        fs::read_to_string(&self.asked).unwrap().split_once('\n').unwrap().1.to_owned()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
