//! A manager with real servers, and the patience to wait for what it tells.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::connection::{Call, Options};
use kitbag_mcp::manager::{
    Backoff, Change, Configured, Manager, ManagerError, ServerState, Settings, Start, Status, Variables,
};
use kitbag_mcp::tool::ToolDefinition;
use kitbag_model::{OrgId, RawLaunch, ServerKey};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

/// Whatever takes longer than this does not happen.
pub const NEVER: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Values(Mutex<HashMap<(String, String), String>>);

impl Values {
    pub fn set(&self, org: &OrgId, name: &str, value: &str) {
        self.0.lock().unwrap().insert((org.to_string(), name.to_owned()), value.to_owned());
    }
}

impl Variables for Values {
    fn get(&self, org: &OrgId, name: &str) -> Option<String> {
        self.0.lock().unwrap().get(&(org.to_string(), name.to_owned())).cloned()
    }
}

pub struct Kit {
    pub manager: Manager,
    pub values: Arc<Values>,
    pub org: OrgId,
    pub folder: TempDir,
    changes: mpsc::UnboundedReceiver<Change>,
}

/// Settings with which tests need not wait long, and nothing happens by the clock unless a test wants it.
pub fn settings(values: Arc<Values>) -> Settings {
    let options = Options {
        connect: NEVER,
        answer: NEVER,
        egress: EgressPolicy { allow_private: true, ..EgressPolicy::default() },
        longest_message: 4 << 20,
        most_tools: 1000,
        pass_environment: Vec::new(),
        sandbox: None,
    };
    let backoff = Backoff { first: Duration::from_millis(20), ..Backoff::default() };
    Settings { backoff, wait: NEVER, ..Settings::new(options, values) }
}

impl Kit {
    pub fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let values = Arc::new(Values::default());
        let mut settings = settings(values.clone());
        change(&mut settings);
        let (told, changes) = mpsc::unbounded_channel();
        let folder = tempfile::tempdir().unwrap();
        Self { manager: Manager::new(settings, told), values, org: OrgId::local(), folder, changes }
    }

    /// A server that is the twin, with these flags.
    pub fn twin(&self, key: &str, flags: &[&str]) -> Configured {
        let twin = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/twins/manager_server.py");
        let args = ["-I", "-S", twin.to_str().unwrap()].iter().chain(flags).map(|arg| (*arg).to_owned()).collect();
        self.server(key, RawLaunch { command: Some("python3".to_owned()), args, ..RawLaunch::default() })
    }

    /// The same, with variables in its environment.
    pub fn twin_with(&self, key: &str, flags: &[&str], env: &[(&str, &str)]) -> Configured {
        let mut server = self.twin(key, flags);
        let env: BTreeMap<_, _> =
            env.iter().map(|(name, value)| ((*name).to_owned(), value.parse().unwrap())).collect();
        if let kitbag_model::Launch::Stdio { env: there, .. } = &mut server.launch {
            *there = env;
        }
        server
    }

    pub fn remote(&self, key: &str, url: &str) -> Configured {
        self.server(key, RawLaunch { url: Some(url.to_owned()), ..RawLaunch::default() })
    }

    pub fn server(&self, key: &str, launch: RawLaunch) -> Configured {
        Configured {
            org: self.org.clone(),
            key: self::key(key),
            launch: launch.check().unwrap(),
            folder: None,
            fence: None,
            enabled: true,
            trusted: true,
            start: Start::Eagerly,
            known: Vec::new(),
            revision: None,
            offers: None,
            mark: String::new(),
        }
    }

    pub fn configure(&self, servers: &[&Configured]) {
        self.manager.configure(&self.org, servers.iter().map(|server| (*server).clone()).collect());
    }

    pub fn state(&self, key: &str) -> ServerState {
        self.manager.state(&self.org, &self::key(key)).unwrap()
    }

    /// A file that twins write to at each start.
    pub fn starts(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The next change, of whatever kind.
    pub async fn next(&mut self) -> Change {
        tokio::time::timeout(NEVER, self.changes.recv()).await.expect("something changes").expect("the manager lives")
    }

    /// Waits until a server is told to be so, and answers the reason. What was told before is not looked at again.
    pub async fn until(&mut self, key: &str, wanted: Status) -> String {
        loop {
            if let Change::Status { key: of, status, reason, .. } = self.next().await
                && of == self::key(key)
                && status == wanted
            {
                return reason;
            }
        }
    }

    /// Waits until a server is told to have tools, and answers their names.
    pub async fn until_tools(&mut self, key: &str) -> Vec<String> {
        loop {
            if let Change::Tools { key: of, tools, .. } = self.next().await
                && of == self::key(key)
            {
                return tools.iter().map(|tool| tool.name.clone()).collect();
            }
        }
    }

    /// What was told until now and not looked at.
    pub fn told(&mut self) -> Vec<Change> {
        std::iter::from_fn(|| self.changes.try_recv().ok()).collect()
    }

    pub async fn call(&self, key: &str, tool: &str, args: Value) -> Result<String, ManagerError> {
        call(&self.manager, &self.org, key, tool, args).await
    }

    pub async fn pid(&self, key: &str) -> i32 {
        self.call(key, "pid", json!({})).await.unwrap().parse().unwrap()
    }
}

/// Calls a tool and answers its text.
pub async fn call(manager: &Manager, org: &OrgId, key: &str, tool: &str, args: Value) -> Result<String, ManagerError> {
    let Value::Object(args) = args else { panic!("arguments are an object") };
    let answer = manager.call(org, &self::key(key), request(tool, args)).await?;
    let answer: Value = serde_json::from_str(answer.get()).unwrap();
    Ok(answer["content"][0]["text"].as_str().unwrap().to_owned())
}

pub fn request(tool: &str, args: Map<String, Value>) -> Call {
    // Nobody stops it: the sender is gone.
    let stop = watch::channel(false).1;
    Call::of_tool(tool, &args, NEVER, stop)
}

pub fn key(text: &str) -> ServerKey {
    text.parse().unwrap()
}

pub fn known(name: &str) -> ToolDefinition {
    let Value::Object(raw) = json!({ "name": name }) else { unreachable!() };
    ToolDefinition::new(name.to_owned(), &raw)
}

/// How often twins that share this file were started.
pub fn count(starts: &Path) -> usize {
    fs::read_to_string(starts).map_or(0, |text| text.lines().count())
}

/// What twins that share this file were asked before they were asked for their tools.
pub fn questions(methods: &Path) -> Vec<String> {
    let text = fs::read_to_string(methods).unwrap_or_default();
    text.lines().filter(|line| ["server/discover", "initialize"].contains(line)).map(ToOwned::to_owned).collect()
}

/// Whether a process is there and not just unburied: one that has ended has no memory any more, and so no program.
pub fn lives(pid: i32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

pub fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
