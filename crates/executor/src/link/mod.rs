//! The way to the server: one WebSocket for messages, and requests for the content of files. All of it goes through `guard`, to the one
//! origin that a person named when this machine was paired.

mod address;
mod backoff;
mod blobs;
mod socket;

use std::path::PathBuf;
use std::time::Duration;

use kitbag_guard::dial::{EgressPolicy, FetchError, OriginClient, Proxy, innermost};
use kitbag_model::Secret;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use url::Url;

pub use address::{BadAddress, ServerAddress};
pub use backoff::{Backoff, Patience};
pub use blobs::Blobs;
pub use socket::{Heard, Reader, Writer};

use crate::credentials::Credentials;

/// How long a connection may take to be made.
pub const CONNECT: Duration = Duration::from_secs(20);

/// How the server is reached, beside its address.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// Certificates that count besides the machine's own.
    pub ca_file: Option<PathBuf>,
    /// A proxy in between.
    pub proxy: Option<Proxy>,
}

impl Route {
    /// Whom may be dialled: a person named the server, so it may be on this machine or in the network behind it.
    pub fn policy(&self) -> EgressPolicy {
        EgressPolicy {
            allow_private: true,
            ca_file: self.ca_file.clone(),
            proxy: self.proxy.clone(),
            ..EgressPolicy::default()
        }
    }
}

/// Why the server was not reached, or said no.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkError {
    /// This machine is no executor there, or not any more.
    #[error("the server does not know this executor, or has taken it out")]
    Revoked,
    /// The attempt is somebody else's, or over.
    #[error("the attempt is not this executor's any more: {0}")]
    NotOurs(String),
    /// It answered, and asking again would not help.
    #[error("the server answered {status}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// It could not answer. Asking again later may help.
    #[error("the server answered {status}: {message}")]
    Busy {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// There was no answer.
    #[error("{0}")]
    Unreachable(String),
    /// Nobody wants the answer any more.
    #[error("it was ended meanwhile")]
    Ended,
}

/// A server and the right to speak with it.
#[derive(Clone, Debug)]
pub struct Link {
    client: OriginClient,
    address: ServerAddress,
    gateway: Url,
    token: Secret,
}

/// An error as every endpoint tells it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    code: String,
    message: String,
}

impl Link {
    /// The way to whom this machine is paired with. Nothing is dialled yet.
    pub async fn new(credentials: &Credentials, route: &Route) -> Result<Self, FetchError> {
        let address = credentials.server.clone();
        let client = OriginClient::new(address.url(), &route.policy(), CONNECT).await?;
        let gateway = address.gateway(&credentials.gateway);
        Ok(Self { client, address, gateway, token: credentials.token.clone() })
    }

    /// The server's address, for people.
    pub fn server(&self) -> &ServerAddress {
        &self.address
    }

    fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, LinkError> {
        let request = self.client.request(method, url).map_err(|error| LinkError::Unreachable(error.to_string()))?;
        Ok(request.bearer_auth(self.token.expose()))
    }
}

fn unreachable(error: &reqwest::Error) -> LinkError {
    LinkError::Unreachable(innermost(error))
}

/// What an answer that is no success means.
async fn refused(answer: reqwest::Response) -> LinkError {
    let status = answer.status();
    let told: Told = match tokio::time::timeout(CONNECT, answer.bytes()).await {
        Ok(Ok(bytes)) => serde_json::from_slice(&bytes).unwrap_or_default(),
        _ => Told::default(),
    };
    let message = match (told.message.is_empty(), told.code.is_empty()) {
        (true, true) => status.canonical_reason().unwrap_or("nothing that is understood here").to_owned(),
        (true, false) => told.code,
        _ => told.message,
    };
    match status {
        StatusCode::UNAUTHORIZED => LinkError::Revoked,
        StatusCode::CONFLICT => LinkError::NotOurs(message),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            LinkError::Busy { status: status.as_u16(), message }
        }
        _ if status.is_server_error() => LinkError::Busy { status: status.as_u16(), message },
        _ => LinkError::Refused { status: status.as_u16(), message },
    }
}
