//! Carries messages between a client on a pipe and the server's address, whichever revision of the protocol they are of. It looks
//! at them no further than it must to know where they go, and changes nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kitbag_server::bridge::{Kind, ON_THE_WAY, Piped, agreed, answers, failure, is_lost};
use reqwest::{Method, Response, StatusCode, header};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::events::Messages;
use super::road::Road;
use crate::failure::{Doing, Failure};

/// How often a message is tried: where it was, where it is found again, and there with a new session.
const TRIES: usize = 3;

/// How often the server is told that a request is not wanted, until it is over. Over two connections the word may overtake the
/// request.
const AGAIN: Duration = Duration::from_secs(1);

/// How long until a stream that ended is opened again.
const REOPEN: Duration = Duration::from_secs(1);

const GONE: &str = "the Kitbag server went away while this was under way; whether it was done is not known";

/// A message as it came, and what it is.
pub(super) struct Message {
    pub(super) text: Vec<u8>,
    pub(super) piped: Piped,
}

struct Session {
    id: String,
    version: String,
}

/// What is kept of the client's session, to begin it again where the server has forgotten it.
#[derive(Default)]
struct Talk {
    session: Option<Arc<Session>>,
    greeting: Option<Arc<Message>>,
    begun: Option<Arc<Message>>,
    listening: Option<AbortHandle>,
}

pub(super) struct Bridge {
    road: Road,
    out: mpsc::Sender<String>,
    talk: Mutex<Talk>,
    renewing: tokio::sync::Mutex<()>,
    /// The requests under way, by their numbers, and whether they are still wanted.
    running: Mutex<HashMap<String, Running>>,
}

struct Running {
    unwanted: watch::Sender<Option<Vec<u8>>>,
    endless: bool,
}

impl Bridge {
    pub(super) fn new(road: Road, out: mpsc::Sender<String>) -> Self {
        let (talk, renewing, running) = Default::default();
        Self { road, out, talk, renewing, running }
    }

    /// A line to the client. When nobody reads any more it is lost, and the end is near.
    pub(super) async fn say(&self, line: String) {
        let _ = self.out.send(line).await;
    }

    /// Takes a request in, before it is carried: whoever cancels it next must find it.
    pub(super) fn enter(&self, message: &Message) -> watch::Receiver<Option<Vec<u8>>> {
        let endless = message.piped.kind == Kind::Alone { endless: true };
        let (unwanted, receiver) = watch::channel(None);
        if let Some(id) = message.piped.id.clone() {
            self.running().insert(id, Running { unwanted, endless });
        }
        receiver
    }

    /// Carries a request and what comes back.
    pub(super) async fn request(self: Arc<Self>, message: Arc<Message>, unwanted: watch::Receiver<Option<Vec<u8>>>) {
        let id = message.piped.id.clone().unwrap_or_default();
        if let Err(failed) = self.carry(&message, &id, unwanted).await {
            self.say(failure(Some(&id), ON_THE_WAY, &failed.message)).await;
        }
        self.running().remove(&id);
    }

    async fn carry(
        self: &Arc<Self>,
        message: &Arc<Message>,
        id: &str,
        unwanted: watch::Receiver<Option<Vec<u8>>>,
    ) -> Result<(), Failure> {
        let alone = matches!(message.piped.kind, Kind::Alone { .. });
        let exchange = async {
            match &message.piped.kind {
                Kind::Begin => self.begin(message).await,
                Kind::Alone { .. } => self.relay(self.post(message, None).await?, id, None).await,
                _ => self.relay(self.in_session(message).await?, id, Some(&unwanted)).await,
            }
        };
        let mut unwanted = unwanted.clone();
        tokio::pin!(exchange);
        loop {
            tokio::select! {
                done = &mut exchange => return done,
                word = word(&mut unwanted) => {
                    let Some(word) = word else { return exchange.await };
                    if alone {
                        // To hang up is to cancel.
                        return Ok(());
                    }
                    let piped = Piped { id: None, kind: Kind::Said, headers: message.piped.headers.clone() };
                    let session = self.talk().session.clone();
                    let _ = self.post(&Message { text: word, piped }, session.as_deref()).await;
                    tokio::select! {
                        done = &mut exchange => return done,
                        () = tokio::time::sleep(AGAIN) => {}
                    }
                }
            }
        }
    }

    /// A request of this number is not wanted any more.
    pub(super) fn cancel(&self, id: &str, word: Vec<u8>) {
        if let Some(running) = self.running().get(id) {
            running.unwanted.send_replace(Some(word));
        }
    }

    /// Hangs up on what would never end by itself.
    pub(super) fn leave_endless(&self) {
        for running in self.running().values().filter(|running| running.endless) {
            running.unwanted.send_replace(Some(Vec::new()));
        }
    }

    /// Carries what is not answered.
    pub(super) async fn tell(self: &Arc<Self>, message: Message) {
        // Without a session there is nobody who would hear it.
        if self.talk().session.is_none() {
            return;
        }
        let message = Arc::new(message);
        let told = self.in_session(&message).await;
        if let Err(failed) = told {
            tracing::warn!(error = failed.message, "a message did not reach the server");
        }
        if message.piped.kind == Kind::Begun {
            self.talk().begun = Some(message);
            self.listen();
        }
    }

    /// Ends the session.
    pub(super) async fn leave(&self) {
        let (session, listening) = {
            let mut talk = self.talk();
            (talk.session.take(), talk.listening.take())
        };
        if let Some(listening) = listening {
            listening.abort();
        }
        if let (Some(session), Ok(way)) = (session, self.road.way().await) {
            let _ = self.named(self.road.request(&way, Method::DELETE), &session).send().await;
        }
    }

    /// Ends the server, if it is ours.
    pub(super) async fn end(&self) {
        self.road.end().await;
    }

    /// Begins a session, and answers.
    async fn begin(self: &Arc<Self>, message: &Arc<Message>) -> Result<(), Failure> {
        let answer = self.greet(message).await?;
        self.talk().greeting = Some(message.clone());
        self.say(answer).await;
        Ok(())
    }

    /// Begins a session. The server's answer.
    async fn greet(&self, message: &Message) -> Result<String, Failure> {
        let response = self.post(message, None).await?;
        let id = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
        let answer = text_of(response, message.piped.id.as_deref()).await?;
        if let (Some(id), Some(version)) = (id, agreed(&answer)) {
            self.talk().session = Some(Arc::new(Session { id, version }));
        }
        Ok(answer)
    }

    /// Posts a message in the session, and begins that again if the server does not know it any more: it was restarted, or
    /// nothing was heard for long.
    async fn in_session(self: &Arc<Self>, message: &Message) -> Result<Response, Failure> {
        for _ in 0..TRIES {
            let session = self.talk().session.clone();
            let response = self.post(message, session.as_deref()).await?;
            let Some(session) = session.filter(|_| response.status() == StatusCode::NOT_FOUND) else {
                return Ok(response);
            };
            let answer = response.text().await.doing("the server broke off")?;
            if !is_lost(&answer) {
                return Err(Failure::failed(answer));
            }
            self.renew(&session).await?;
        }
        Err(Failure::failed("the Kitbag server forgets its sessions at once"))
    }

    async fn renew(self: &Arc<Self>, lost: &Arc<Session>) -> Result<(), Failure> {
        let _one = self.renewing.lock().await;
        let (greeting, begun) = {
            let talk = self.talk();
            if !talk.session.as_ref().is_some_and(|session| Arc::ptr_eq(session, lost)) {
                return Ok(());
            }
            (talk.greeting.clone(), talk.begun.clone())
        };
        let Some(greeting) = greeting else { return Ok(()) };
        let answer = self.greet(&greeting).await?;
        if agreed(&answer).is_none() {
            return Err(Failure::failed("the Kitbag server was restarted and does not begin the session again"));
        }
        if let Some(begun) = begun {
            let session = self.talk().session.clone();
            self.post(&begun, session.as_deref()).await?;
            self.listen();
        }
        Ok(())
    }

    /// Listens to what is said by itself, from now on, for as long as there is this session.
    fn listen(self: &Arc<Self>) {
        let Some(session) = self.talk().session.clone() else { return };
        let bridge = self.clone();
        let task = tokio::spawn(async move {
            let mut last = None;
            while let Some(seen) = bridge.hear(&session, last.as_deref()).await {
                last = seen.or(last);
                tokio::time::sleep(REOPEN).await;
            }
        });
        if let Some(before) = self.talk().listening.replace(task.abort_handle()) {
            before.abort();
        }
    }

    /// Hears one stream to its end. None if there is nobody who would have more to say.
    async fn hear(&self, session: &Session, last: Option<&str>) -> Option<Option<String>> {
        let way = self.road.way().await.ok()?;
        let mut request = self.named(self.road.request(&way, Method::GET), session);
        request = request.header(header::ACCEPT, "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.ok().filter(|response| response.status().is_success())?;
        let mut messages = Messages::new(response);
        while let Ok(Some(message)) = messages.next().await {
            self.say(message).await;
        }
        Some(messages.last)
    }

    /// Posts a message. One that reached nobody is tried where the server is then.
    async fn post(&self, message: &Message, session: Option<&Session>) -> Result<Response, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let way = self.road.way().await?;
            let mut request = self.road.request(&way, Method::POST);
            request = request.header(header::ACCEPT, "application/json, text/event-stream");
            request = request.header(header::CONTENT_TYPE, "application/json");
            for (name, value) in &message.piped.headers {
                request = request.header(*name, value);
            }
            if let Some(session) = session {
                request = self.named(request, session);
            }
            match request.body(message.text.clone()).send().await {
                Ok(response) => return Ok(response),
                Err(error) if error.is_connect() && tries < TRIES => self.road.lost(&way).await,
                Err(error) if error.is_connect() => return Err(error).doing("the Kitbag server cannot be reached"),
                Err(_) => return Err(Failure::failed(GONE)),
            }
        }
    }

    fn named(&self, request: reqwest::RequestBuilder, session: &Session) -> reqwest::RequestBuilder {
        request.header("mcp-session-id", &session.id).header("mcp-protocol-version", &session.version)
    }

    /// Brings what the server answers to the client.
    async fn relay(
        &self,
        response: Response,
        id: &str,
        unwanted: Option<&watch::Receiver<Option<Vec<u8>>>>,
    ) -> Result<(), Failure> {
        let is_unwanted = || unwanted.is_some_and(|unwanted| unwanted.borrow().is_some());
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let answer = text_of(response, Some(id)).await?;
            if !is_unwanted() {
                self.say(answer).await;
            }
            return Ok(());
        }
        let mut messages = Messages::new(response);
        while let Some(message) = messages.next().await.map_err(|_| Failure::failed(GONE))? {
            let over = answers(&message, id);
            // Who took a request back gets no answer any more.
            if !(over && is_unwanted()) {
                self.say(message).await;
            }
            if over {
                return Ok(());
            }
        }
        if is_unwanted() { Ok(()) } else { Err(Failure::failed(GONE)) }
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the client said to take a request back, once it does. None if nobody can any more.
async fn word(unwanted: &mut watch::Receiver<Option<Vec<u8>>>) -> Option<Vec<u8>> {
    unwanted.wait_for(Option::is_some).await.ok().and_then(|word| word.clone())
}

/// An answer in one line. What is none of the protocol's, such as a token that is not good any more, becomes one.
async fn text_of(response: Response, id: Option<&str>) -> Result<String, Failure> {
    let status = response.status();
    let text = response.text().await.map_err(|_| Failure::failed(GONE))?;
    let read: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    if read["jsonrpc"] == "2.0" {
        return Ok(text.replace(['\n', '\r'], " "));
    }
    let message = read["message"].as_str().map_or_else(|| format!("the server answered {status}"), ToOwned::to_owned);
    Ok(failure(id, ON_THE_WAY, &message))
}
