//! What a client without a session carries for us between two rounds of a request: sealed, for one owner, for one request, for
//! some minutes.

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_mcp::serve::Fault;
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{ContentHash, Hasher, OrgId};
use serde::{Deserialize, Serialize};

use crate::app::App;

/// How long a client may take to come back, in seconds.
const PATIENCE: u64 = 600;

/// What is carried.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct State {
    /// What the server behind us wants to see again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) theirs: Option<String>,
    /// Whether somebody said yes to this very request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) approved: bool,
    #[serde(default)]
    request: String,
    #[serde(default)]
    until: u64,
}

/// What a request is, without what differs from round to round.
fn digest(method: &str, params: &Shallow) -> ContentHash {
    let mut hasher = Hasher::default();
    hasher.update(method.as_bytes());
    for (name, value) in params.iter().filter(|(name, _)| !["_meta", "inputResponses", "requestState"].contains(name)) {
        let value: serde_json::Value = serde_json::from_str(value.get()).unwrap_or_default();
        let mut value = value;
        value.sort_all_objects();
        hasher.update(format!("\n{name} {value}").as_bytes());
    }
    hasher.finish()
}

/// Seconds on the clock of the world: what is carried may come back after a restart.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl State {
    pub(super) fn new(theirs: Option<String>, approved: bool) -> Self {
        Self { theirs, approved, ..Self::default() }
    }

    /// As text that only this installation can read and nobody can change.
    pub(super) async fn seal(
        mut self,
        app: &App,
        (org, who): (&OrgId, &str),
        method: &str,
        params: &Shallow,
    ) -> Result<String, Fault> {
        self.request = digest(method, params).to_string();
        self.until = now() + PATIENCE;
        let plain = serde_json::to_vec(&self).unwrap_or_default();
        let vault = app.servers().vault().await.map_err(|error| super::tools::internal(&error))?;
        Ok(URL_SAFE_NO_PAD.encode(vault.seal(&["mcp state", org.as_str(), who], &plain)))
    }

    /// Reads it again. Why it cannot be read is nobody's business.
    pub(super) async fn unseal(
        text: &str,
        app: &App,
        (org, who): (&OrgId, &str),
        method: &str,
        params: &Shallow,
    ) -> Result<Self, Fault> {
        let wrong = || {
            let message = "`requestState` is not one that was given for this request, or its time is up; ask anew";
            Fault::params(message).with_status(400)
        };
        let sealed = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let vault = app.servers().vault().await.map_err(|error| super::tools::internal(&error))?;
        let plain = vault.unseal(&["mcp state", org.as_str(), who], &sealed).map_err(|_| wrong())?;
        let state: Self = serde_json::from_slice(&plain).map_err(|_| wrong())?;
        let fits = state.request == digest(method, params).to_string() && state.until > now();
        if fits { Ok(state) } else { Err(wrong()) }
    }
}
