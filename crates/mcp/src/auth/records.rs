//! What is kept between two moments. All of it is secret; none of it is ever printed.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::client::SigningAlgorithm;

/// How a client proves itself at a token endpoint.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// Who we are at one authorization server.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) key: Option<SigningKey>,
    pub(super) method: Method,
}

/// What a client signs with.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct SigningKey {
    pub(super) pem: String,
    pub(super) algorithm: SigningAlgorithm,
}

/// Where a grant was had, and where it is renewed or given back.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Issuer {
    /// As it calls itself, byte for byte.
    pub(super) name: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
}

/// A sign-in that has begun.
#[derive(Deserialize, Serialize)]
pub(super) struct SignInRecord {
    /// SHA-256 of the state, so that what is kept is not what opens.
    pub(super) state: String,
    pub(super) person: String,
    /// The server's address.
    pub(super) server: String,
    pub(super) resource: String,
    pub(super) issuer: Issuer,
    /// Whether the answer must say whose it is.
    pub(super) iss_required: bool,
    pub(super) identity: Identity,
    pub(super) verifier: String,
    pub(super) redirect_uri: String,
    pub(super) scopes: Vec<String>,
    pub(super) expires_at: u64,
}

/// The tokens of a server.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct TokenRecord {
    /// The address that they may be sent to, and no other.
    pub(super) server: String,
    pub(super) resource: String,
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) identity: Identity,
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) obtained_at: u64,
    pub(super) expires_at: Option<u64>,
    /// When it should be renewed: before it expires, and not when everybody else does.
    pub(super) renew_at: Option<u64>,
    pub(super) asked: Vec<String>,
    pub(super) granted: Vec<String>,
    /// What the server wanted besides.
    pub(super) missing: Vec<String>,
    /// Whether nobody was asked for it.
    pub(super) machine: bool,
}

impl TokenRecord {
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    pub(super) fn is_due(&self, now: u64) -> bool {
        self.renew_at.is_some_and(|at| at <= now) || self.is_over(now)
    }
}

/// How we are known, by authorization server.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct ClientRecord {
    /// Clients that were registered on the way.
    pub(super) registered: BTreeMap<String, Registration>,
    /// The authorization server that a client which was given by hand, by its id, was first used at.
    pub(super) bound: BTreeMap<String, String>,
}

/// A client that was registered on the way.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Registration {
    pub(super) identity: Identity,
    pub(super) redirect_uri: String,
    /// When its secret is good no more.
    pub(super) expires_at: Option<u64>,
}

/// Seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
