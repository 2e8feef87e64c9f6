//! The ways to a server: a child's pipes, those of one that somebody else started, streamable HTTP, and the older HTTP with a stream of events. They carry bytes and
//! know nothing of what is in them beyond what they have to put beside them.

pub(crate) mod attached;
pub(crate) mod http;
pub(crate) mod lines;
mod outbox;
pub(crate) mod peer;
pub(crate) mod sse;
pub(crate) mod stdio;
mod web;
mod writer;

use std::sync::Arc;

use url::Url;

use crate::connection::hub::Hub;
use crate::connection::{Boxed, ConnectError, Options, Tokens};
use crate::lasting::Lasting;

/// A message to be sent.
pub(crate) struct Outgoing {
    /// The number that its answer will have; none for what is not answered.
    pub id: Option<u64>,
    /// The whole message, in one line.
    pub body: String,
    /// Its method; empty for an answer.
    pub method: String,
    /// The revision of the protocol that it is written in, once one is agreed on or tried.
    pub version: Option<Arc<str>>,
    /// What goes beside it where there are headers.
    pub headers: Vec<(String, String)>,
}

/// A way to a server. What fails after sending is told to the hub, under the message's number.
pub(crate) trait Link: Send + Sync {
    /// Sends, without waiting. What is left to do for a request, if anything, is whoever's who waits for its answer.
    fn send(&self, message: Outgoing) -> Option<Lasting>;

    /// Whether a message can have something beside it. In the revisions without a session a request is then given up by
    /// hanging up, and nothing has to be said.
    fn has_headers(&self) -> bool {
        false
    }

    /// The process at the other end.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Of a process that has ended: whether what we said can be the reason.
    fn may_have_died_of_words(&self) -> bool {
        true
    }

    /// The last lines that it said beside.
    fn stderr_tail(&self) -> Vec<String> {
        Vec::new()
    }

    /// A revision of the protocol is agreed on. `listen` says that the server has a session, and may say something by itself.
    fn agreed(&self, _version: &Arc<str>, _listen: bool) {}

    /// Waits until it listens, if it was told to.
    fn listening(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Waits until everything is put away, after the hub was closed.
    fn ended(&self) -> Boxed<'_, ()>;
}

/// A server that is dialled.
pub(crate) struct WebServer(web::Web);

impl WebServer {
    /// Judges the address and the headers. Nothing is dialled yet.
    pub(crate) async fn new(
        url: &Url,
        headers: &[(String, String)],
        tokens: Option<Arc<dyn Tokens>>,
        options: &Options,
        hub: Arc<Hub>,
    ) -> Result<Self, ConnectError> {
        web::Web::new(url, headers, tokens, options, hub).await.map(Self)
    }
}
