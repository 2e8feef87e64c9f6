//! The client of a request, as a service sees it: what it is and can, and the ways to tell it something and to ask it back.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::watch;

use super::exchange::Exchange;
use super::message::notification;
use super::session::Session;

/// What is known of a client.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The revision of the protocol that it speaks.
    pub version: String,
    /// Whether that one has no session.
    pub stateless: bool,
    /// What it says that it can.
    pub capabilities: Map<String, Value>,
    /// What it says that it is.
    pub info: Value,
    /// The least important words for the log that it wants, if any; only the revisions without a session say it here.
    pub log_level: Option<String>,
}

/// Why a client gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AskError {
    /// It does not offer to answer such questions.
    #[error("the client does not offer `{0}`")]
    NotOffered(&'static str),
    /// It is gone, or its time is up.
    #[error("the client is gone")]
    Gone,
    /// It answered with an error of the protocol.
    #[error("the client answered with an error: {0}")]
    Refused(Value),
}

/// The client of one request.
#[derive(Clone)]
pub struct Client {
    peer: Arc<Peer>,
    exchange: Arc<Exchange>,
    session: Option<Arc<Session>>,
}

impl Client {
    pub(super) fn new(peer: Arc<Peer>, exchange: Arc<Exchange>, session: Option<Arc<Session>>) -> Self {
        Self { peer, exchange, session }
    }

    /// What it is and can.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The same for as long as the request is, and different from all other requests of now.
    pub fn key(&self) -> usize {
        Arc::as_ptr(&self.exchange).addr()
    }

    /// The session, where there is one.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref().map(Session::id)
    }

    /// The request's own number, as the client gave it.
    pub fn request_id(&self) -> Value {
        self.exchange.id().map(|id| id.value()).unwrap_or_default()
    }

    /// Whether it wants to hear of progress.
    pub fn wants_progress(&self) -> bool {
        self.exchange.progress_token().is_some()
    }

    /// Tells it how far its request is. `params` are those of the protocol's notification, whose token is put in here.
    pub fn progress(&self, mut params: Map<String, Value>) {
        if let Some(token) = self.exchange.progress_token() {
            params.insert("progressToken".to_owned(), token);
            self.notify("notifications/progress", Value::Object(params));
        }
    }

    /// Tells it something that belongs to its request.
    pub fn notify(&self, method: &str, params: Value) {
        self.exchange.say(notification(method, Some(&params)));
    }

    /// Whether it offers to answer this kind of question, in its plainest form.
    pub fn can(&self, method: &str) -> bool {
        self.lacks(method, &Value::Null).is_none()
    }

    /// What it would have to offer to be asked just this, and does not: a capability, with what of it where it has the rest.
    pub fn lacks(&self, method: &str, params: &Value) -> Option<&'static str> {
        offers(&self.peer.capabilities, method, params).err()
    }

    /// Asks it something and waits for the answer.
    pub async fn ask(&self, method: &str, params: Value) -> Result<Value, AskError> {
        offers(&self.peer.capabilities, method, &params).map_err(AskError::NotOffered)?;
        let answer = match &self.session {
            Some(session) => session.ask(&self.exchange, method, &params),
            None => self.exchange.ask(method, params),
        };
        match answer.await {
            Ok(answer) => answer.map_err(AskError::Refused),
            Err(_) => Err(AskError::Gone),
        }
    }

    /// Until nobody wants the answer any more.
    pub async fn gone(&self) {
        if self.stopping().wait_for(|stop| *stop).await.is_err() {
            // Nobody is left who could say so.
            std::future::pending::<()>().await;
        }
    }

    /// Turns to true when nobody wants the answer any more.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.exchange.stopping()
    }
}

/// Which capability a question needs, and whether it is there.
fn offers(capabilities: &Map<String, Value>, method: &str, params: &Value) -> Result<(), &'static str> {
    let needed = match method {
        "elicitation/create" => "elicitation",
        "sampling/createMessage" => "sampling",
        "roots/list" => "roots",
        _ => return Err("that"),
    };
    let offered = capabilities.get(needed).ok_or(needed)?;
    let has = |part: &str| offered.get(part).is_some();
    let asks = |name: &str| params.get(name).is_some_and(|value| !value.is_null());
    match method {
        "elicitation/create" if params.get("mode").and_then(Value::as_str) == Some("url") => {
            has("url").then_some(()).ok_or("elicitation.url")
        }
        // Who says nothing more means forms.
        "elicitation/create" if has("url") && !has("form") => Err("elicitation.form"),
        "sampling/createMessage" if asks("tools") || asks("toolChoice") => {
            has("tools").then_some(()).ok_or("sampling.tools")
        }
        _ => Ok(()),
    }
}

/// A way to say something to a session that belongs to no request.
#[derive(Clone)]
pub struct Voice(pub(super) std::sync::Weak<Session>);

impl Voice {
    /// Says it. False when the session is over.
    pub fn say(&self, method: &str, params: Option<&Value>) -> bool {
        let Some(session) = self.0.upgrade() else { return false };
        session.say(method, params);
        true
    }

    /// The client of the session, for what belongs to none of its requests.
    pub fn client(&self) -> Option<Client> {
        let session = self.0.upgrade()?;
        let exchange = session.unasked().clone();
        Some(Client::new(session.peer().clone(), exchange, Some(session)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_question_needs_what_it_uses() {
        let (form, url) = (json!({ "message": "?" }), json!({ "mode": "url", "url": "https://a" }));
        let (plain, tools) = (json!({ "messages": [] }), json!({ "messages": [], "tools": [] }));
        for (capabilities, method, params, lacks) in [
            (json!({}), "elicitation/create", &form, Some("elicitation")),
            (json!({ "elicitation": {} }), "elicitation/create", &form, None),
            (json!({ "elicitation": {} }), "elicitation/create", &url, Some("elicitation.url")),
            (json!({ "elicitation": { "url": {} } }), "elicitation/create", &url, None),
            (json!({ "elicitation": { "url": {} } }), "elicitation/create", &form, Some("elicitation.form")),
            (json!({ "elicitation": { "url": {}, "form": {} } }), "elicitation/create", &form, None),
            (json!({ "sampling": {} }), "sampling/createMessage", &plain, None),
            (json!({ "sampling": {} }), "sampling/createMessage", &tools, Some("sampling.tools")),
            (json!({ "sampling": { "tools": {} } }), "sampling/createMessage", &tools, None),
            (json!({ "roots": {} }), "roots/list", &Value::Null, None),
            (json!({ "roots": {} }), "other", &Value::Null, Some("that")),
        ] {
            let Value::Object(all) = &capabilities else { unreachable!("it is an object") };
            assert_eq!(offers(all, method, params).err(), lacks, "{capabilities} {method} {params}");
        }
    }
}
