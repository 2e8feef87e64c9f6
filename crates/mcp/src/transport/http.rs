//! Streamable HTTP: every message is a POST of its own, and its answer is one message or a stream of them. In the revisions
//! with a session there is also a stream for what the server says by itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use kitbag_guard::dial::{Answer, Events};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::outbox::Outbox;
use super::web::{Web, is_kind, with};
use super::{Link, Outgoing};
use crate::connection::{Boxed, CallError};
use crate::lasting::Lasting;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const STREAM: &str = "text/event-stream";

/// How long the end of a stream is waited for after its answer, so that the connection can serve again.
const LINGER: Duration = Duration::from_millis(500);

/// How long a stream is left alone before it is asked for again, if the server does not say; the most that is honoured.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How often in a row a stream may break before it is given up.
const BREAKS: usize = 3;

/// How long a stream must have lasted to count as one that worked.
const LASTED: Duration = Duration::from_secs(10);

/// How long a server may take to forget a session.
const FORGET: Duration = Duration::from_secs(2);

pub(crate) struct Http {
    shared: Arc<Shared>,
    outbox: Outbox,
    over: watch::Receiver<bool>,
}

struct Shared {
    web: Web,
    state: Mutex<State>,
    /// The stream for what the server says by itself was answered.
    heard: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    session: Option<HeaderValue>,
    version: Option<Arc<str>>,
}

impl Http {
    pub(crate) fn new(web: super::WebServer) -> Arc<Self> {
        let shared = Arc::new(Shared { web: web.0, state: Mutex::default(), heard: watch::Sender::new(false) });
        let (ended, over) = watch::channel(false);
        let ending = shared.clone();
        tokio::spawn(async move {
            ending.web.hub.closed().await;
            ending.forget_session().await;
            let _ = ended.send(true);
        });
        Arc::new(Self { shared, outbox: Outbox::new(), over })
    }
}

impl Link for Http {
    fn send(&self, message: Outgoing) -> Option<Lasting> {
        let shared = self.shared.clone();
        self.outbox.send(message, async move |message| shared.post(message).await)
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn agreed(&self, version: &Arc<str>, listen: bool) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.version = Some(version.clone());
        if listen {
            let shared = self.shared.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = shared.listen() => {}
                    () = shared.web.hub.closed() => {}
                }
            });
        }
    }

    fn listening(&self) -> Boxed<'_, ()> {
        Box::pin(async {
            let _ = self.shared.heard.subscribe().wait_for(|heard| *heard).await;
        })
    }

    fn ended(&self) -> Boxed<'_, ()> {
        let mut over = self.over.clone();
        Box::pin(async move {
            let _ = over.wait_for(|over| *over).await;
        })
    }
}

impl Shared {
    /// Sends a message and sees to its answer.
    async fn post(&self, message: Outgoing) {
        let (id, hub) = (message.id, &self.web.hub);
        let done = match id {
            // Who waits has a deadline, and ends this with it.
            Some(_) => self.exchange(message).await,
            None => Box::pin(timeout(self.web.answer, self.exchange(message))).await.unwrap_or(Ok(())),
        };
        match (done, id) {
            (Err(error), Some(id)) => hub.fail(id, error),
            (Err(error), None) => hub.log(&format!("the server did not take a message: {error}")),
            (Ok(()), Some(id)) => hub.fail(id, CallError::Nonsense("there is no answer in it".to_owned())),
            (Ok(()), None) => {}
        }
    }

    async fn exchange(&self, message: Outgoing) -> Result<(), CallError> {
        let web = &self.web;
        let mut headers = self.headers(BOTH, message.headers, message.version.as_ref());
        let greeting = message.method == "initialize";
        let in_session = if greeting { headers.remove(SESSION).is_some() } else { headers.contains_key(SESSION) };
        let mut response = web.send(Method::POST, &web.url, headers, Some(message.body.into())).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && in_session {
            web.hub.close("the server has forgotten the session");
            return Err(CallError::Disconnected("the server has forgotten the session".to_owned()));
        }
        if greeting && status.is_success() {
            let session = response.headers().get(SESSION).cloned();
            self.state.lock().unwrap_or_else(PoisonError::into_inner).session = session;
        }
        if status.is_success() && is_kind(&response, STREAM) {
            return Box::pin(self.follow(response, message.id)).await;
        }
        let body = web.body(&mut response, web.longest).await;
        if is_kind(&response, "application/json") && (status.is_success() || message.id.is_some()) {
            web.hub.pace(web.hub.receive(&body?, message.id)).await;
        }
        match message.id {
            Some(id) if web.hub.waits(id) && !status.is_success() => Err(CallError::Nonsense(format!("HTTP {status}"))),
            None if !status.is_success() => Err(CallError::Nonsense(format!("HTTP {status}"))),
            _ => Ok(()),
        }
    }

    /// Reads a stream until the answer is there. One that breaks before is taken up again where it broke, if the server gave
    /// its events numbers.
    async fn follow(&self, mut response: Answer, id: Option<u64>) -> Result<(), CallError> {
        let (web, mut events) = (&self.web, Events::new(self.web.longest));
        let mut breaks = 0;
        loop {
            match self.read(&mut response, &mut events, id).await {
                Read::Answered => {
                    // The rest is of no interest, but a connection that was read to its end can be used again.
                    let _ = timeout(LINGER, async { while let Ok(Some(_)) = response.chunk().await {} }).await;
                    return Ok(());
                }
                Read::TooLong => return Err(CallError::Nonsense(format!("it has more than {} bytes", web.longest))),
                Read::Ended(some) => breaks = if some { 0 } else { breaks + 1 },
            }
            let last = events.last_id.clone();
            let (Some(last), Some(_), true) = (last, id, breaks < BREAKS) else {
                return match id {
                    Some(_) => Err(CallError::Disconnected("the stream ended before the answer".to_owned())),
                    None => Ok(()),
                };
            };
            sleep(pause(&events)).await;
            events = events.again();
            response = self.get(Some(&last)).await?;
            if !response.status().is_success() || !is_kind(&response, STREAM) {
                return Err(CallError::Disconnected("the stream ended before the answer".to_owned()));
            }
        }
    }

    /// Hears what the server says by itself, for as long as the connection lasts. A server need not have such a stream.
    async fn listen(&self) {
        let web = &self.web;
        let (mut events, mut breaks) = (Events::new(web.longest), 0);
        loop {
            let answer = self.get(events.last_id.as_deref()).await;
            self.heard.send_replace(true);
            match answer {
                Ok(mut response) if response.status().is_success() && is_kind(&response, STREAM) => {
                    events = events.again();
                    let began = Instant::now();
                    match self.read(&mut response, &mut events, None).await {
                        Read::TooLong => {
                            return web.hub.close(&format!("the server sent more than {} bytes at once", web.longest));
                        }
                        // One that lasted was only cut off by somebody between us.
                        Read::Ended(some) => breaks = if some || began.elapsed() > LASTED { 0 } else { breaks + 1 },
                        Read::Answered => {}
                    }
                }
                Ok(response) if response.status() == StatusCode::NOT_FOUND && events.last_id.is_some() => {
                    return web.hub.close("the server has forgotten the session");
                }
                // It has none, or will not have us listen.
                Ok(_) | Err(CallError::NeedsAuth { .. } | CallError::Nonsense(_)) => return,
                Err(_) => breaks += 1,
            }
            if breaks > BREAKS || web.hub.reason().is_some() {
                return;
            }
            sleep(pause(&events)).await;
        }
    }

    async fn read(&self, response: &mut Answer, events: &mut Events, id: Option<u64>) -> Read {
        let (hub, mut some) = (&self.web.hub, false);
        while let Ok(Some(piece)) = response.chunk().await {
            let Ok(found) = events.push(&piece) else { return Read::TooLong };
            some |= !found.is_empty();
            let messages = found.iter().filter(|event| event.kind.is_empty());
            let unasked = messages.map(|event| hub.receive(event.data.as_bytes(), id)).sum();
            if id.is_some_and(|id| !hub.waits(id)) {
                return Read::Answered;
            }
            hub.pace(unasked).await;
        }
        Read::Ended(some)
    }

    async fn get(&self, last: Option<&str>) -> Result<Answer, CallError> {
        let mut headers = self.headers(HeaderValue::from_static(STREAM), Vec::new(), None);
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            headers.insert(LAST_EVENT, last);
        }
        self.web.send(Method::GET, &self.web.url, headers, None).await
    }

    /// Tells the server that the session is over.
    async fn forget_session(&self) {
        let headers = self.headers(BOTH, Vec::new(), None);
        let session = self.state.lock().unwrap_or_else(PoisonError::into_inner).session.take();
        if session.is_some() {
            let _ = timeout(FORGET, self.web.send(Method::DELETE, &self.web.url, headers, None)).await;
        }
    }

    fn headers(&self, accept: HeaderValue, more: Vec<(String, String)>, version: Option<&Arc<str>>) -> HeaderMap {
        let mut headers = with(more, accept);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        headers.extend(state.session.clone().map(|session| (SESSION, session)));
        let version = version.or(state.version.as_ref()).and_then(|version| HeaderValue::from_str(version).ok());
        headers.extend(version.map(|version| (VERSION, version)));
        headers
    }
}

enum Read {
    Answered,
    TooLong,
    /// The stream is over; whether there was anything in it.
    Ended(bool),
}

fn pause(events: &Events) -> Duration {
    events.retry.unwrap_or(RETRY.0).min(RETRY.1)
}
