//! One connection to one server: opened, asked, closed. It does not come back by itself; that is the manager's work.
//!
//! Messages are JSON values from the first to the last room: a model with a type for everything would drop the fields that it
//! does not know and, worse, whole messages that do not fit, and leave their callers waiting.

mod ask;
mod borrowed;
mod calling;
mod headers;
pub(crate) use headers::{encoded, marks as marks_of};
pub(crate) mod hub;
pub(crate) use hub::{DONE_THERE, LOG};
mod listing;
mod negotiation;
mod open;
mod peers;
mod tasked;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitbag_guard::child::Sandbox;
use kitbag_guard::dial::EgressPolicy;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::endpoint::Endpoint;
use crate::shallow::Shallow;
use crate::tool::ToolDefinition;
pub use crate::transport::attached::Pipes;
use ask::{Asker, Question};
pub use borrowed::{Duplex, Wire};
pub(crate) use borrowed::{MOVED, told};
use headers::Promoted;
pub use peers::{Answers, Boxed, Hold, Refusal, Silent, Tokens};

/// How connections are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long connecting and agreeing on a protocol may take.
    pub connect: Duration,
    /// How long an answer may take that is not a tool call's.
    pub answer: Duration,
    /// Whom we may dial.
    pub egress: EgressPolicy,
    /// The most bytes of one message.
    pub longest_message: usize,
    /// The most tools of one server; what is beyond is left out, with a warning.
    pub most_tools: usize,
    /// What every child may know of our environment besides the usual, where it is set.
    pub pass_environment: Vec<String>,
    /// Where children behind a fence run; none: they cannot.
    pub sandbox: Option<Sandbox>,
}

/// Something that a server says by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Its tools may be others now.
    ToolsChanged,
    /// It said something for the log.
    Log(String),
    /// It said something else that belongs to no request: that other lists changed, or a resource did, words for the log, or that
    /// somebody is done with what it sent them to do.
    Told {
        /// The protocol's method.
        method: String,
        /// Its parameters.
        params: Value,
        /// Who alone is to hear it, as [`Answers::who`] says it.
        whom: Option<String>,
    },
    /// The connection goes on for what is under way, and nothing new is heard on it.
    Moved(String),
    /// The connection is over, and why.
    Closed(String),
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// It wants a token. `challenge` is its `WWW-Authenticate` header, if it sent one.
    #[error("the server wants somebody to sign in")]
    NeedsAuth {
        /// What it said.
        challenge: Option<String>,
    },
    /// Everything else; the text says what, and has no secret in it.
    #[error("{0}")]
    Failed(String),
}

/// All tools of a server.
#[derive(Clone, Debug, Default)]
pub struct ToolList {
    /// In the server's order.
    pub tools: Vec<ToolDefinition>,
    /// What was left out or mended, and why.
    pub warnings: Vec<String>,
    /// How long the list may be thought to be current, if the server says.
    pub ttl: Option<Duration>,
}

/// One request to a server, a call of a tool most often.
pub struct Call {
    /// The protocol's method.
    pub method: String,
    /// Its parameters, as they are sent but for what every request of the revision carries.
    pub params: Shallow,
    /// How long it may take.
    pub deadline: Duration,
    /// Gets what the server says of its progress: the parameters of the protocol's notification.
    pub progress: Option<UnboundedSender<Value>>,
    /// Turns to true when the call is to be stopped; the server is told.
    pub stop: watch::Receiver<bool>,
    /// Who made it, for what the server asks and says meanwhile.
    pub beside: Option<Arc<dyn Answers>>,
    /// Whether questions that the server has as an answer are the caller's to deal with.
    pub relay: bool,
    /// Whether it is of a tool that its server runs as a task alone, as 2025-11-25 has them.
    pub as_task: bool,
}

impl Call {
    /// A call of a tool.
    pub fn of_tool(tool: &str, args: &Map<String, Value>, deadline: Duration, stop: watch::Receiver<bool>) -> Self {
        let mut params = Shallow::default();
        params.set_value("name", &tool.into());
        if let Ok(args) = to_raw_value(args) {
            params.set("arguments", args);
        }
        Self::new("tools/call", params, deadline, stop)
    }

    /// Any request.
    pub fn new(method: &str, params: Shallow, deadline: Duration, stop: watch::Receiver<bool>) -> Self {
        Self {
            method: method.to_owned(),
            params,
            deadline,
            progress: None,
            stop,
            beside: None,
            relay: false,
            as_task: false,
        }
    }
}

/// Why a call brought nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The connection broke, or was not there any more.
    #[error("the server's connection ended: {0}")]
    Disconnected(String),
    /// Nobody heard of it: the server moved to another node meanwhile. It can be asked there.
    #[error("the server moved: {0}")]
    Unheard(String),
    /// It did not answer in time.
    #[error("the server did not answer within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// It was stopped.
    #[error("the call was cancelled")]
    Cancelled,
    /// It wants another token, or one that may do more.
    #[error("the server wants somebody to sign in")]
    NeedsAuth {
        /// What it said.
        challenge: Option<String>,
    },
    /// The server answered with an error of the protocol.
    #[error("{message} ({code})")]
    Refused {
        /// The protocol's code.
        code: i64,
        /// The server's words.
        message: String,
        /// What it said beside.
        data: Option<Value>,
    },
    /// It answered with something that is no answer.
    #[error("the server's answer cannot be used: {0}")]
    Nonsense(String),
}

/// A connection. Clones are the same one; when the last is gone, or one was closed, the server is let go.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    asker: Asker,
    agreed: Agreed,
    answers: Arc<dyn Answers>,
    answer: Duration,
    longest: usize,
    most_tools: usize,
    /// Which arguments of which tools go into headers, once the tools were listed.
    promoted: Mutex<Option<Promoted>>,
    /// The subscription, where the server has one.
    listening: Option<tokio::task::AbortHandle>,
}

/// What was agreed on when the connection was made.
struct Agreed {
    version: Arc<str>,
    /// What every request carries beside, in the revisions that have no session.
    beside: Option<Shallow>,
    server_info: Value,
    instructions: Option<String>,
    capabilities: Value,
}

impl Connection {
    /// Connects and agrees on a revision of the protocol, within the time that the options give.
    ///
    /// What the server says by itself goes to `notices`, from the first byte on; the last of them is [`Notice::Closed`]. If
    /// there is no connection in the end, what a child said beside is in there too.
    pub async fn open(
        endpoint: &Endpoint,
        options: &Options,
        token: Option<Arc<dyn Tokens>>,
        notices: UnboundedSender<Notice>,
    ) -> Result<Self, ConnectError> {
        Self::open_answering(endpoint, options, token, notices, Arc::new(Silent)).await
    }

    /// The same, with somebody who answers what the server asks.
    pub async fn open_answering(
        endpoint: &Endpoint,
        options: &Options,
        token: Option<Arc<dyn Tokens>>,
        notices: UnboundedSender<Notice>,
        answers: Arc<dyn Answers>,
    ) -> Result<Self, ConnectError> {
        Self::open_again(endpoint, options, token, notices, answers, None).await
    }

    /// The same, with a server that this very endpoint led to before, and the [revision](Self::protocol_version) that was agreed
    /// on then: nothing has to be found out if it is still so. If it is not, that costs a little time. A process that ends is
    /// not started twice, though; whoever is told that there is no connection should try again without a revision.
    pub async fn open_again(
        endpoint: &Endpoint,
        options: &Options,
        token: Option<Arc<dyn Tokens>>,
        notices: UnboundedSender<Notice>,
        answers: Arc<dyn Answers>,
        last: Option<&str>,
    ) -> Result<Self, ConnectError> {
        open::open(endpoint, options, token, notices, answers, last, None).await
    }

    /// The same for a server that this node holds and may lose: while it is not sure that it still does, nothing is asked of it, and no
    /// answer of it counts.
    pub async fn open_held(
        endpoint: &Endpoint,
        options: &Options,
        notices: UnboundedSender<Notice>,
        answers: Arc<dyn Answers>,
        last: Option<&str>,
        hold: Arc<dyn Hold>,
    ) -> Result<Self, ConnectError> {
        open::open(endpoint, options, None, notices, answers, last, Some(hold)).await
    }

    /// A connection to a server that another node holds, over a way that leads there.
    pub async fn open_distant(
        wire: Wire,
        options: &Options,
        notices: UnboundedSender<Notice>,
        answers: Arc<dyn Answers>,
    ) -> Result<Self, ConnectError> {
        borrowed::open(wire, options, notices, answers).await
    }

    /// The same for a server that somebody else started. Whoever did ends it when this is closed; if it ends while it is asked
    /// (`last` is nothing then), it may be worth to start it again with a revision that has a session.
    pub async fn attach(
        pipes: Pipes,
        options: &Options,
        notices: UnboundedSender<Notice>,
        last: Option<&str>,
    ) -> Result<Self, ConnectError> {
        open::attach(pipes, options, notices, Arc::new(Silent), last).await
    }

    /// The revision of the protocol that is spoken.
    pub fn protocol_version(&self) -> &str {
        &self.shared.agreed.version
    }

    /// What the server says that it is.
    pub fn server_info(&self) -> Value {
        self.shared.agreed.server_info.clone()
    }

    /// How the server wants to be used, in its own words. They are a stranger's.
    pub fn instructions(&self) -> Option<&str> {
        self.shared.agreed.instructions.as_deref()
    }

    /// Whether every request stands for itself.
    pub fn is_stateless(&self) -> bool {
        self.shared.agreed.beside.is_some()
    }

    /// Whether the server asked its client something so far.
    pub fn asks(&self) -> bool {
        self.shared.asker.hub.asks()
    }

    /// What the server says that it can.
    pub fn capabilities(&self) -> Value {
        self.shared.agreed.capabilities.clone()
    }

    /// Makes a request of any kind and brings its result as it is.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let mut params = match params {
            Value::Object(_) => to_raw_value(&params).ok().and_then(|raw| Shallow::read(&raw)).unwrap_or_default(),
            Value::Null => Shallow::default(),
            _ => return Err(CallError::Nonsense("the parameters of a request must be an object".to_owned())),
        };
        self.ask(method, &mut params, Vec::new()).await
    }

    /// Asks the server whether it is there.
    pub async fn ping(&self) -> Result<(), CallError> {
        // The revisions without a session have no ping any more; what a server is can always be asked.
        let method = if self.shared.agreed.beside.is_some() { "server/discover" } else { "ping" };
        self.request(method, Value::Null).await.map(drop)
    }

    /// Says something that is not answered, where the server has a session to hear it in.
    pub fn notify(&self, method: &str, params: Option<Value>) {
        if !self.is_stateless() {
            self.shared.asker.notify(method, params, Some(self.shared.agreed.version.clone()));
        }
    }

    /// What tells it apart from all others for as long as somebody waits for its [end](Self::over).
    pub fn mark(&self) -> usize {
        Arc::as_ptr(&self.shared.asker.hub).addr()
    }

    /// Waits until it is over, or over for whatever is new. It is not kept by who waits.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let hub = Arc::clone(&self.shared.asker.hub);
        async move { hub.closed().await }
    }

    /// Lets the server go, and waits until it is gone with all that it started.
    pub async fn close(&self) {
        self.shared.asker.hub.close("it was closed");
        self.shared.asker.link.ended().await;
    }

    /// Whether it is over, or over for whatever is new.
    pub fn is_closed(&self) -> bool {
        self.shared.asker.hub.is_over()
    }

    /// Whether it leads to a server that another node holds.
    pub fn is_distant(&self) -> bool {
        self.shared.asker.hub.is_distant()
    }

    /// Whether both are the same one.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The last lines that a child said beside.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.shared.asker.link.stderr_tail()
    }

    /// The child's process id.
    pub fn pid(&self) -> Option<u32> {
        self.shared.asker.link.pid()
    }

    /// A request that is neither a call nor a subscription.
    async fn ask(
        &self,
        method: &str,
        params: &mut Shallow,
        headers: Vec<(String, String)>,
    ) -> Result<Value, CallError> {
        value(&self.ask_raw(method, params, headers).await?)
    }

    /// The same, as the text that it came as.
    async fn ask_raw(
        &self,
        method: &str,
        params: &mut Shallow,
        headers: Vec<(String, String)>,
    ) -> Result<Box<RawValue>, CallError> {
        let question = Question {
            method,
            params,
            beside: self.shared.agreed.beside.as_ref(),
            version: Some(self.shared.agreed.version.clone()),
            headers,
            deadline: Some(self.shared.answer),
            stop: None,
            progress: None,
            company: None,
            tell: true,
        };
        self.shared.asker.ask(question).await
    }

    /// Whether requests say in headers, too, what they are about.
    fn has_headers(&self) -> bool {
        self.shared.agreed.beside.is_some() && self.shared.asker.link.has_headers()
    }

    fn promoted(&self) -> std::sync::MutexGuard<'_, Option<Promoted>> {
        self.shared.promoted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A result as a value.
fn value(raw: &RawValue) -> Result<Value, CallError> {
    serde_json::from_str(raw.get()).map_err(|error| CallError::Nonsense(error.to_string()))
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
        self.asker.hub.close("nobody uses it any more");
    }
}
