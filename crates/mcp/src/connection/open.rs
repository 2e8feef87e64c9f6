//! Making a connection: reach the server, agree with it, and listen to what it announces.

use std::sync::Arc;
use std::time::Duration;

use kitbag_model::RemoteKind;
use serde_json::{Map, Value};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

use super::ask::{Asker, Question};
use super::hub::Hub;
use super::negotiation::{Way, agree};
use super::{Agreed, Answers, CallError, ConnectError, Connection, Hold, Notice, Options, Shared, Tokens};
use crate::endpoint::Endpoint;
use crate::shallow::Shallow;
use crate::transport::attached::{Attached, Pipes};
use crate::transport::http::Http;
use crate::transport::sse::Sse;
use crate::transport::stdio::{Program, Stdio};
use crate::transport::{Link, WebServer};

/// How long to wait before a subscription is asked for again: the shortest and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How long a server may take to let us listen.
const LISTENING: Duration = Duration::from_secs(2);

/// How many lines a child that did not make it leaves in the notices.
const LAST_LINES: usize = 20;

/// Connects, agrees, listens.
pub(super) async fn open(
    endpoint: &Endpoint,
    options: &Options,
    token: Option<Arc<dyn Tokens>>,
    notices: UnboundedSender<Notice>,
    answers: Arc<dyn Answers>,
    last: Option<&str>,
    hold: Option<Arc<dyn Hold>>,
) -> Result<Connection, ConnectError> {
    let way = match endpoint {
        Endpoint::Remote { kind: RemoteKind::Sse, .. } => Way::Greet,
        Endpoint::Remote { .. } | Endpoint::Stdio { .. } => Way::again(last),
    };
    let mut attempt = Attempt { endpoint, options, token, notices, answers, hold, hub: None, link: None };
    match timeout(options.connect, attempt.make(way)).await {
        Ok(Ok(connection)) => {
            attempt.hub = None;
            Ok(connection)
        }
        Ok(Err(error)) => Err(error),
        Err(_) => {
            let why = format!("the server did not answer within {} seconds", options.connect.as_secs_f64());
            Err(ConnectError::Failed(why))
        }
    }
}

/// Agrees with a server that runs already, and listens.
pub(super) async fn attach(
    pipes: Pipes,
    options: &Options,
    notices: UnboundedSender<Notice>,
    answers: Arc<dyn Answers>,
    last: Option<&str>,
) -> Result<Connection, ConnectError> {
    let hub = Hub::new(notices, answers.clone());
    let mut closing = Closing(Some(hub.clone()));
    let link: Arc<dyn Link> = Attached::new(pipes, options, hub.clone());
    hub.attach(&link);
    let asker = Asker { hub, link, hold: None };
    let agreed = match timeout(options.connect, agree(&asker, &*answers, Way::again(last), options)).await {
        Ok(agreed) => agreed.map_err(|error| ConnectError::from(Failure::from(error)))?,
        Err(_) => {
            let why = format!("the server did not answer within {} seconds", options.connect.as_secs_f64());
            return Err(ConnectError::Failed(why));
        }
    };
    closing.0 = None;
    Ok(ready(asker, agreed, options, answers))
}

/// A hub that is closed with this: nobody waits for the connection any more.
struct Closing(Option<Arc<Hub>>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(hub) = &self.0 {
            hub.close("there is no connection");
        }
    }
}

/// An attempt to connect. Whatever it started ends with it, also when nobody waits for it any more.
struct Attempt<'a> {
    endpoint: &'a Endpoint,
    options: &'a Options,
    token: Option<Arc<dyn Tokens>>,
    notices: UnboundedSender<Notice>,
    answers: Arc<dyn Answers>,
    hold: Option<Arc<dyn Hold>>,
    hub: Option<Arc<Hub>>,
    link: Option<Arc<dyn Link>>,
}

impl Attempt<'_> {
    async fn make(&mut self, way: Way) -> Result<Connection, ConnectError> {
        let (asker, agreed) = match self.agree(way).await {
            Err(Failure::Ended(_)) if self.may_have_died_of_it(way) => {
                self.give_up();
                self.agree(Way::Greet).await?
            }
            other => other?,
        };
        if !asker.hub.open() {
            return Err(ConnectError::Failed(asker.hub.reason().unwrap_or_default()));
        }
        // A server that asks before anybody listens gets no answer, and some ask at once.
        let asks = agreed.beside.is_none() && !self.answers.capabilities(false).is_empty();
        let link = asker.link.clone();
        let connection = ready(asker, agreed, self.options, self.answers.clone());
        if asks {
            let _ = timeout(LISTENING, link.listening()).await;
        }
        Ok(connection)
    }

    /// Whether a process that ended may have ended because of what it was asked, so that it is worth to start it once more and
    /// ask in the older way. Some older servers take a question that they do not know for the end of the world.
    ///
    /// One that ended before it read anything did not die of the question, nor did one that says that it could not be started:
    /// they would only do it again. Nor did one that is known to understand what it was asked; should that not be so any more,
    /// whoever remembered it forgets it now, and the next attempt takes nothing for granted.
    fn may_have_died_of_it(&self, way: Way) -> bool {
        matches!(self.endpoint, Endpoint::Stdio { .. })
            && way == Way::Ask
            && self.link.as_ref().is_some_and(|link| link.may_have_died_of_words())
    }

    async fn agree(&mut self, way: Way) -> Result<(Asker, Agreed), Failure> {
        let hub = self.hub.insert(Hub::new(self.notices.clone(), self.answers.clone()));
        let link = reach(self.endpoint, self.options, self.token.clone(), hub).await?;
        hub.attach(&link);
        let asker = Asker { hub: hub.clone(), link: self.link.insert(link).clone(), hold: self.hold.clone() };
        let agreed = agree(&asker, &*self.answers, way, self.options).await?;
        Ok((asker, agreed))
    }

    fn give_up(&mut self) {
        let (Some(hub), link) = (self.hub.take(), self.link.take()) else { return };
        let lines = link.map(|link| link.stderr_tail()).unwrap_or_default();
        lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).for_each(|line| hub.log(line));
        hub.close("there is no connection");
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

async fn reach(
    endpoint: &Endpoint,
    options: &Options,
    token: Option<Arc<dyn Tokens>>,
    hub: &Arc<Hub>,
) -> Result<Arc<dyn Link>, Failure> {
    match endpoint {
        Endpoint::Stdio { command, args, cwd, env, fence } => {
            let program = Program { command, args, cwd: cwd.as_ref(), env, fence: fence.as_ref() };
            let link = Stdio::start(program, options, hub.clone()).await;
            Ok(link.map_err(|error| ConnectError::Failed(error.to_string()))?)
        }
        Endpoint::Remote { kind, url, headers } => {
            let server = WebServer::new(url, headers, token, options, hub.clone()).await?;
            match kind {
                RemoteKind::StreamableHttp => Ok(Http::new(server)),
                RemoteKind::Sse => Ok(Sse::connect(server).await?),
            }
        }
    }
}

pub(super) fn ready(asker: Asker, agreed: Agreed, options: &Options, answers: Arc<dyn Answers>) -> Connection {
    let announced = announced(&agreed.capabilities);
    let announces = !announced.is_empty();
    // A server that announces nothing and may ask nothing has nothing to say by itself.
    let listen = agreed.beside.is_none() && (announces || !answers.capabilities(false).is_empty());
    asker.link.agreed(&agreed.version, listen);
    // Another node passes on what it hears.
    let subscribes = announces && !asker.hub.is_distant();
    let listening = agreed.beside.clone().filter(|_| subscribes).map(|beside| {
        let (asker, version) = (asker.clone(), agreed.version.clone());
        tokio::spawn(subscribe(asker, beside, version, announced)).abort_handle()
    });
    let shared = Shared {
        asker,
        agreed,
        answers,
        answer: options.answer,
        longest: options.longest_message,
        most_tools: options.most_tools,
        promoted: Default::default(),
        listening,
    };
    Connection { shared: Arc::new(shared) }
}

/// Which of its lists a server announces the changes of.
fn announced(capabilities: &Value) -> Map<String, Value> {
    let lists = ["tools", "prompts", "resources"].into_iter();
    let announced = lists.filter(|list| capabilities[*list]["listChanged"] == Value::Bool(true));
    announced.map(|list| (format!("{list}ListChanged"), Value::Bool(true))).collect()
}

/// Keeps a subscription to the server's lists for as long as the connection lasts.
async fn subscribe(asker: Asker, beside: Shallow, version: Arc<str>, announced: Map<String, Value>) {
    let mut pause = PAUSES.0;
    loop {
        let began = Instant::now();
        let mut params = Shallow::default();
        params.set_value("notifications", &Value::Object(announced.clone()));
        let question = Question {
            method: "subscriptions/listen",
            params: &mut params,
            beside: Some(&beside),
            version: Some(version.clone()),
            headers: Vec::new(),
            deadline: None,
            stop: None,
            progress: None,
            company: None,
            tell: true,
        };
        let ended = asker.ask(question).await;
        if asker.hub.reason().is_some() || matches!(ended, Err(CallError::Refused { .. } | CallError::NeedsAuth { .. }))
        {
            return;
        }
        // One that lasted was only cut off by somebody between us.
        pause = if began.elapsed() > PAUSES.1 { PAUSES.0 } else { pause };
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
        // What changed while nobody listened was not said.
        announced.keys().for_each(|list| asker.hub.missed(list));
    }
}

/// Why an attempt failed: the server ended, or something else.
enum Failure {
    Ended(String),
    Other(ConnectError),
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::Other(error)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Other(match error {
            CallError::Disconnected(why) => return Self::Ended(why),
            CallError::NeedsAuth { challenge } => ConnectError::NeedsAuth { challenge },
            CallError::Refused { code, message, .. } => {
                ConnectError::Failed(format!("the server refuses to connect: {message} ({code})"))
            }
            other => ConnectError::Failed(other.to_string()),
        })
    }
}

impl From<Failure> for ConnectError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Ended(why) => Self::Failed(why),
            Failure::Other(error) => error,
        }
    }
}
