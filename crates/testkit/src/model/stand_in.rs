//! The server, its script, and what it was asked.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::sync::{oneshot, watch};

use super::reply::Reply;
use super::{DEADLINE, serve};

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its path, without a query.
    pub path: String,
    /// Its query, empty if there is none.
    pub query: String,
    /// Its headers, with names in small letters.
    pub headers: HashMap<String, String>,
    /// Its body; null if there is none.
    pub body: Value,
    /// When it was there.
    pub at: Instant,
    /// Which connection it came over, from 0.
    pub connection: usize,
}

/// A running stand-in. It stops when dropped.
pub struct StandIn {
    address: SocketAddr,
    state: Arc<State>,
    _stop: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    script: Mutex<HashMap<String, VecDeque<Reply>>>,
    /// What is answered where the script is over.
    otherwise: Mutex<HashMap<String, Reply>>,
    asked: watch::Sender<Vec<Asked>>,
    hung_up: watch::Sender<usize>,
    answered: AtomicUsize,
}

impl StandIn {
    /// Listens on a free port, on a thread of its own: tests may block.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port for the stand-in");
        listener.set_nonblocking(true).expect("a port that does not block");
        let address = listener.local_addr().expect("its own address");
        let (state, (stop, stopped)) = (Arc::new(State::default()), oneshot::channel());
        let serving = state.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = serve::serve(listener, serving) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, state, _stop: stop }
    }

    /// `http://127.0.0.1:<port>`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `127.0.0.1:<port>`, as a policy for egress has it.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// What Anthropic's wire is answered next, after all that was said before.
    pub fn messages(&self, reply: Reply) {
        self.at("/v1/messages", reply);
    }

    /// What OpenAI's wire is answered next.
    pub fn completions(&self, reply: Reply) {
        self.at("/v1/chat/completions", reply);
    }

    /// What is answered next to who asks for the list of models.
    pub fn models(&self, reply: Reply) {
        self.at("/v1/models", reply);
    }

    /// What is answered next at a path.
    pub fn at(&self, path: &str, reply: Reply) {
        self.state.script.lock().unwrap().entry(path.to_owned()).or_default().push_back(reply);
    }

    /// What is answered at a path whenever the script has nothing for it.
    pub fn otherwise(&self, path: &str, reply: Reply) {
        self.state.otherwise.lock().unwrap().insert(path.to_owned(), reply);
    }

    /// All that was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.borrow().clone()
    }

    /// How many answers were said to their end, whether or not somebody has read them.
    pub fn answered(&self) -> usize {
        self.state.answered.load(Ordering::SeqCst)
    }

    /// How many answers of the script nobody asked for.
    pub fn unused(&self) -> usize {
        self.state.script.lock().unwrap().values().map(VecDeque::len).sum()
    }

    /// Waits until so many requests were there.
    pub async fn asked_times(&self, times: usize) -> Vec<Asked> {
        let mut asked = self.state.asked.subscribe();
        let enough = asked.wait_for(|asked| asked.len() >= times);
        let enough =
            tokio::time::timeout(DEADLINE, enough).await.expect("nobody asked").expect("the stand-in is there");
        enough.clone()
    }

    /// Waits until so many clients have hung up in the middle of an answer.
    pub async fn hung_up_times(&self, times: usize) {
        let mut gone = self.state.hung_up.subscribe();
        let enough = gone.wait_for(|gone| *gone >= times);
        tokio::time::timeout(DEADLINE, enough).await.expect("nobody hung up").expect("the stand-in is there");
    }
}

impl State {
    /// Writes down a request and says what it is answered.
    pub(super) fn answer(&self, asked: Asked) -> Reply {
        let next = self.script.lock().unwrap().get_mut(&asked.path).and_then(VecDeque::pop_front);
        let next = next.or_else(|| self.otherwise.lock().unwrap().get(&asked.path).cloned());
        let path = asked.path.clone();
        self.asked.send_modify(|all| all.push(asked));
        next.unwrap_or_else(|| {
            let message = format!("the script of the stand-in has no answer for {path}");
            Reply::json(400, &serde_json::json!({"error": {"type": "invalid_request_error", "message": message}}))
        })
    }

    pub(super) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn hung_up(&self) {
        self.hung_up.send_modify(|gone| *gone += 1);
    }
}
