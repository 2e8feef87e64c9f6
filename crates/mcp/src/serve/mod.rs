//! Being a server of the protocol, for clients of every revision: sessions (`2025-11-25` back to `2024-11-05`) and the newest,
//! which has none, at one address.
//!
//! [`Front`] takes what comes in over HTTP, the older way with two addresses (`line`) too, and makes [`Ask`]s of it for a [`Service`], which does
//! not have to know which revision its client speaks: it answers, says things meanwhile and asks its client back through
//! [`Client`], and this room makes of that what the revision has for it. It knows neither tools nor tokens nor web frameworks.

pub mod bridge;
mod client;
mod exchange;
mod front;
mod headers;
mod line;
mod message;
mod pipe;
mod reply;
mod session;
mod sessions;
mod stateless;
mod suspended;

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::connection::Boxed;
pub use client::{AskError, Client, Peer, Voice};
pub use front::{Front, Limits, Visit};
pub use headers::check_arguments;
pub use line::{Heard, LINE};
pub use message::Id;
pub use pipe::serve_pipe;
pub use reply::{Body, Events, Reply};

/// Revisions without a session, newest first.
pub const STATELESS: [&str; 1] = ["2026-07-28"];

/// Revisions with a session, newest first.
pub const SESSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The protocol's own codes.
pub mod code {
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Something went wrong here.
    pub const INTERNAL: i64 = -32603;
    /// What the sessions' revisions say for a resource that is not there.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The headers are not what the body is.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client must be able to do something that it does not offer.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The revision is not spoken here.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// An error of the protocol, as a client gets it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Fault {
    /// The protocol's code.
    pub code: i64,
    /// What was wrong, where, and what is allowed.
    pub message: String,
    /// What a program can read of it.
    pub data: Option<Value>,
    /// The HTTP status, where it is not the usual one.
    pub status: Option<u16>,
}

impl Fault {
    /// An error with this code.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, status: None }
    }

    /// The parameters do not fit.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// Nobody here knows this method.
    pub fn no_method(method: &str) -> Self {
        let shown: String = method.chars().take(100).collect();
        Self::new(code::METHOD_NOT_FOUND, format!("there is no method `{shown}` here")).with_status(404)
    }

    /// With something for programs.
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// With another HTTP status than the usual one.
    pub fn with_status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }
}

/// What a server says that it is and can.
#[derive(Clone, Debug)]
pub struct Hello {
    /// Its name and version.
    pub info: Value,
    /// What it can, as the protocol's server capabilities.
    pub capabilities: Value,
    /// How it wants to be used.
    pub instructions: Option<String>,
}

/// A request of a client.
pub struct Ask {
    /// The method.
    pub method: String,
    /// Its parameters, as they came.
    pub params: Option<Box<RawValue>>,
    /// Who asks.
    pub client: Client,
    /// The arguments that came in headers too, where the client has to send them so.
    pub arguments: Option<Vec<(String, String)>>,
}

impl Ask {
    /// The parameters as values.
    pub fn params<T: serde::de::DeserializeOwned>(&self) -> Result<T, Fault> {
        let text = self.params.as_deref().map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(|error| Fault::params(format!("the parameters of {}: {error}", self.method)))
    }
}

/// What is served to one client: for a session as long as it lasts, else for one request.
pub trait Service: Send + Sync + 'static {
    /// What it is.
    fn hello(&self) -> Hello;

    /// Whether there is such a method, in revisions with sessions or without.
    fn knows(&self, method: &str, stateless: bool) -> bool;

    /// Answers a request.
    fn request(self: Arc<Self>, ask: Ask) -> Boxed<'static, Result<Box<RawValue>, Fault>>;

    /// Hears what is not answered.
    fn notified(self: Arc<Self>, _method: String, _params: Option<Box<RawValue>>) {}

    /// A session began; through the voice something can be said by itself.
    fn joined(self: Arc<Self>, _voice: Voice) {}

    /// The session is over.
    fn left(&self) {}
}
