//! Who stands beside a connection: who has its tokens, and who answers what its server asks.

use std::pin::Pin;

use serde_json::{Map, Value, json};

/// A future that a trait object can hand out.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where the token for a server comes from.
pub trait Tokens: Send + Sync + 'static {
    /// The token of the next request; none sends it without.
    fn bearer(&self) -> Boxed<'_, Option<String>>;

    /// The server refused what [`Self::bearer`] gave; `challenge` is its `WWW-Authenticate` header. True if there is another
    /// one now, so that the request is worth repeating.
    fn refused(&self, challenge: Option<String>) -> Boxed<'_, bool>;
}

/// Why a question has no answer, in the protocol's words.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The protocol's code.
    pub code: i64,
    /// Why.
    pub message: String,
    /// What is said beside.
    pub data: Option<Value>,
}

impl Refusal {
    /// One with nothing beside.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// From an error as messages have it. One that says nothing of itself is told as this.
    pub fn of(error: &Value, unsaid: &str) -> Self {
        Self {
            code: error.get("code").and_then(Value::as_i64).unwrap_or(-32603),
            message: error.get("message").and_then(Value::as_str).unwrap_or(unsaid).to_owned(),
            data: error.get("data").cloned(),
        }
    }

    /// As messages have it.
    pub fn error(&self) -> Value {
        match &self.data {
            Some(data) => json!({ "code": self.code, "message": self.message, "data": data }),
            None => json!({ "code": self.code, "message": self.message }),
        }
    }
}

/// Who answers what a server asks its client: sampling, roots, elicitation. It stands beside a connection, or beside one call.
pub trait Answers: Send + Sync + 'static {
    /// What is offered, as the protocol's client capabilities. A session is offered it once, for all who use it; without one
    /// every request says it for itself.
    fn capabilities(&self, stateless: bool) -> Map<String, Value>;

    /// The answer to one question, or why there is none. None for what is not offered.
    fn answer(&self, method: &str, params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>>;

    /// The server said something that belongs to the call: how far it is, or words for the log.
    fn told(&self, _method: &str, _params: &Value) {}

    /// Whether questions that the server has as its answer can go to who made the call as they are, where that is what
    /// [`super::Call::relay`] says. Asked when they are there; who says yes gets them.
    fn relays(&self) -> bool {
        true
    }

    /// On whose behalf it stands there. A server that asks without saying on which call's account is answered by who made the
    /// calls that are under way, if that is one and the same.
    fn who(&self) -> &str {
        ""
    }
}

/// Whether this node still holds a server, where another one may take it over.
pub trait Hold: Send + Sync + 'static {
    /// Whether nobody else can hold it now. Answered from memory, for every request.
    fn is_sure(&self) -> bool;

    /// Waits until nobody else can. If somebody else does, the connection is closed; this never ends then.
    fn sure(&self) -> Boxed<'_, ()>;
}

/// Offers nothing, so that no server reaches a person, a model or a tool through us.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Answers for Silent {
    fn capabilities(&self, _stateless: bool) -> Map<String, Value> {
        Map::new()
    }

    fn answer(&self, _method: &str, _params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        None
    }
}
