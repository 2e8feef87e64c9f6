//! One request and its answer: sent, waited for, given up.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::headers::standard;
use super::hub::{Hub, Progress};
use super::{Answers, CallError, Hold};
use crate::lasting::Lasting;
use crate::shallow::Shallow;
use crate::transport::{Link, Outgoing};

/// A hub and the way to its server.
#[derive(Clone)]
pub(super) struct Asker {
    pub hub: Arc<Hub>,
    pub link: Arc<dyn Link>,
    /// What says whether the server is still ours to ask, where it may be another node's.
    pub hold: Option<Arc<dyn Hold>>,
}

/// A request to be.
pub(super) struct Question<'a> {
    pub method: &'a str,
    pub params: &'a mut Shallow,
    /// What every request of this revision carries beside, and the revision.
    pub beside: Option<&'a Shallow>,
    pub version: Option<Arc<str>>,
    pub headers: Vec<(String, String)>,
    /// None waits for ever, which is for subscriptions.
    pub deadline: Option<Duration>,
    pub stop: Option<&'a mut watch::Receiver<bool>>,
    pub progress: Option<Progress>,
    /// Who made it.
    pub company: Option<Arc<dyn Answers>>,
    /// Whether the server is told when the request is given up.
    pub tell: bool,
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a Shallow,
}

/// Gives a request up when it goes out of scope unanswered, however that came about.
struct Pending<'a> {
    asker: &'a Asker,
    id: u64,
    sending: Option<Lasting>,
    version: Option<Arc<str>>,
    tell: bool,
    reason: &'static str,
}

impl Asker {
    /// Asks and waits.
    pub(super) async fn ask(&self, question: Question<'_>) -> Result<Box<RawValue>, CallError> {
        let Question { method, params, beside, version, mut headers, deadline, stop, progress, company, tell } =
            question;
        let begun = self.hold.as_ref().map(|_| Instant::now());
        self.held(begun, deadline).await?;
        let hangs_up = beside.is_some() && self.link.has_headers();
        if hangs_up {
            headers.extend(standard(method, params));
        }
        let wants_progress = progress.is_some();
        let offered = company.as_ref().filter(|_| beside.is_some()).map(|company| company.capabilities(true));
        let (id, answer) = self.hub.expect(progress, company, deadline.is_none())?;
        set_meta(params, beside, offered, wants_progress.then_some(id));
        let request = Request { jsonrpc: "2.0", id, method, params };
        let body = serde_json::to_string(&request).map_err(|error| CallError::Nonsense(error.to_string()))?;
        let tell = tell && !hangs_up;
        let mut pending =
            Pending { asker: self, id, sending: None, version: version.clone(), tell, reason: "given up" };
        let message = Outgoing { id: Some(id), body, method: method.to_owned(), version, headers };
        pending.sending = self.link.send(message);
        let mut answer = pin!(answer);
        let sending = &mut pending.sending;
        // The hub answers everybody before it goes.
        let gone = |_| Err(CallError::Disconnected("it is gone".to_owned()));
        let mut told =
            |context: &mut Context<'_>| answer.as_mut().poll(context).map(|answer| answer.unwrap_or_else(gone));
        let answered = poll_fn(|context| {
            if let Some(doing) = sending {
                // It may bring the answer itself, and then need not wake itself for it.
                if let answer @ Poll::Ready(_) = told(&mut Context::from_waker(Waker::noop())) {
                    return answer;
                }
                if Pin::new(doing).poll(context).is_ready() {
                    *sending = None;
                }
            }
            told(context)
        });
        let stopped = async {
            let stopped = match stop {
                Some(stop) => stop.wait_for(|stop| *stop).await.is_ok(),
                None => false,
            };
            // Where nobody can stop it any more nobody does.
            if !stopped {
                std::future::pending::<()>().await;
            }
        };
        let late = deadline.unwrap_or(Duration::MAX);
        let answer = tokio::select! {
            biased;
            answer = timeout(late, answered) => answer.unwrap_or_else(|_| {
                pending.reason = "timeout";
                Err(CallError::Timeout(late))
            }),
            () = stopped => {
                pending.reason = "stopped";
                Err(CallError::Cancelled)
            }
        };
        drop(pending);
        // What it said counts only while nobody else can have it.
        self.held(begun, deadline).await?;
        answer
    }

    /// Goes on only while the server is this node's for sure.
    async fn held(&self, begun: Option<Instant>, deadline: Option<Duration>) -> Result<(), CallError> {
        let Some(hold) = self.hold.as_ref().filter(|hold| !hold.is_sure()) else { return Ok(()) };
        let past = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_sub(past));
        // Boxed: it is rare.
        Box::pin(async {
            tokio::select! {
                sure = timeout(left, hold.sure()) => {
                    sure.map_err(|_| CallError::Timeout(deadline.unwrap_or_default()))
                }
                () = self.hub.closed() => Err(CallError::Disconnected(self.hub.reason().unwrap_or_default())),
            }
        })
        .await
    }

    /// Says something that is not answered.
    pub(super) fn notify(&self, method: &str, params: Option<Value>, version: Option<Arc<str>>) {
        let mut body = json!({"jsonrpc": "2.0", "method": method});
        if let (Some(params), Some(body)) = (params, body.as_object_mut()) {
            body.insert("params".to_owned(), params);
        }
        let (method, body) = (method.to_owned(), body.to_string());
        self.link.send(Outgoing { id: None, body, method, version, headers: Vec::new() });
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let unanswered = self.asker.hub.forget(self.id);
        // What was answered still reads the end of its answer, so that its connection can be used again.
        if let Some(sending) = self.sending.take_if(|_| unanswered || self.asker.hub.reason().is_some()) {
            sending.give_up();
        }
        if unanswered && self.tell {
            let params = json!({"requestId": self.id, "reason": self.reason});
            self.asker.notify("notifications/cancelled", Some(params), self.version.clone());
        }
    }
}

/// Puts what a request carries beside into the parameters' `_meta`, which is read and written once for all of it, if there is any:
/// what every request of the revision has, what its maker offers in place of what we do, and what its progress is told by.
fn set_meta(params: &mut Shallow, beside: Option<&Shallow>, offered: Option<Map<String, Value>>, token: Option<u64>) {
    if beside.is_none() && token.is_none() {
        return;
    }
    let mut meta: Shallow = params.parse("_meta").unwrap_or_default();
    for (name, value) in beside.into_iter().flat_map(Shallow::iter) {
        meta.set(name, value.to_owned());
    }
    if let Some(offered) = offered {
        meta.set_value("io.modelcontextprotocol/clientCapabilities", &Value::Object(offered));
    }
    if let Some(token) = token {
        meta.set_value("progressToken", &token.into());
    }
    params.set("_meta", meta.raw());
}
