//! The program, serving.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::database::TestDatabase;
use crate::program::Program;

/// Long enough for a loaded machine; a test that waits this long has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running `kitbag serve`, killed when dropped.
pub struct Server {
    child: Child,
    /// `http://127.0.0.1:<port>`
    pub url: String,
    /// The token of the ready line.
    pub token: String,
    log: PathBuf,
    client: reqwest::Client,
}

impl Server {
    /// Serves the data folder and the database of a test on a free port, with more arguments.
    pub fn start(binary: &str, database: &TestDatabase, more: &[&str]) -> Self {
        let mut args = vec!["serve", "--listen", "127.0.0.1:0"];
        args.extend(more);
        Self::start_program(&Program::on(binary, database), database.data(), &args)
    }

    /// Starts the program with exactly these arguments, and waits for the ready line.
    pub fn start_program(program: &Program, data: &Path, args: &[&str]) -> Self {
        let log = data.join("test-server.log");
        let stderr = File::options().create(true).append(true).open(&log).expect("a log for the server");
        let mut child = program.command(args).stdout(Stdio::piped()).stderr(stderr).spawn().expect("start the server");
        let stdout = child.stdout.take().expect("its stdout");
        let (send, line) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let said = |log: &Path| std::fs::read_to_string(log).unwrap_or_default();
        let ready = line.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("no ready line; it said:\n{}", said(&log)));
        let address = ready.strip_prefix("kitbag listening on ").unwrap_or_else(|| panic!("odd ready line: {ready}"));
        let (url, token) = address.split_once("/?token=").unwrap_or((address.trim_end_matches('/'), ""));
        // A connection is not kept as long as the server keeps it: one that the server just closes must not be asked.
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .pool_idle_timeout(Duration::from_secs(10))
            .timeout(DEADLINE);
        Self {
            url: url.to_owned(),
            token: token.to_owned(),
            log,
            client: client.build().expect("an HTTP client"),
            child,
        }
    }

    /// A request with the server's token, to a path such as `/v1/orgs/local/chats`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.anonymous(method, path).bearer_auth(&self.token)
    }

    /// A request without a token.
    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// Gets with the token.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    /// Posts JSON with the token.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path).json(body)).await
    }

    /// Deletes with the token.
    pub async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path)).await
    }

    /// A plain connection, for requests that no HTTP client would send.
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.url.trim_start_matches("http://")).expect("a connection to the server")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).expect("signal the server");
    }

    /// Waits until it is gone.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for the server") {
                return status;
            }
            assert!(Instant::now() < end, "the server did not stop; it said:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- what the server logged\n{}", self.log());
        }
    }
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body as JSON; null if it has none.
    pub body: Value,
}

impl Answer {
    /// Sends a request.
    pub async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.expect("a body");
        let body =
            if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) };
        Self { status, headers, body }
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self.body
    }

    /// Asserts an error in the API's form.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert!(self.body["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
    }
}
