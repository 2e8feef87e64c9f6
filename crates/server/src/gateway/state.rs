//! What a client without a session carries for us between two rounds of a request: sealed, for one owner, for one request, for
//! some minutes.

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_mcp::serve::Fault;
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{ContentHash, Hasher, OrgId};
use kitbag_vault::Vault;
use serde::{Deserialize, Serialize};

use crate::app::App;

/// How long a client may take to come back, in seconds.
pub(super) const PATIENCE: u64 = 600;

/// What is carried.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct State {
    /// What the server behind us wants to see again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) theirs: Option<String>,
    /// The name of the yes that somebody said to this very request ([`super::approvals`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approved: Option<String>,
    #[serde(default)]
    request: String,
    #[serde(default)]
    until: u64,
}

/// What a request is, without what differs from round to round.
fn digest(method: &str, params: &Shallow) -> ContentHash {
    let mut hasher = Hasher::default();
    hasher.update(method.as_bytes());
    let is_of_it = |name: &str| !["_meta", "inputResponses", "requestState"].contains(&name);
    let mut all: Vec<_> = params.iter().filter(|(name, _)| is_of_it(name)).collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in all {
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
    pub(super) fn new(theirs: Option<String>, approved: Option<String>) -> Self {
        Self { theirs, approved, ..Self::default() }
    }

    /// As text that only this installation can read and nobody can change.
    pub(super) async fn seal(
        self,
        app: &App,
        whose: (&OrgId, &str),
        method: &str,
        params: &Shallow,
    ) -> Result<String, Fault> {
        let vault = app.servers().vault().await.map_err(|error| super::tools::internal(&error))?;
        // Only the node that gave out a yes knows whether it was spent.
        let node = self.approved.as_ref().and_then(|_| app.nodes().mark());
        let sealed = self.seal_at(&vault, whose, method, params, now());
        Ok(node.into_iter().fold(sealed, |sealed, node| format!("{sealed}@{node}")))
    }

    fn seal_at(
        mut self,
        vault: &Vault,
        (org, who): (&OrgId, &str),
        method: &str,
        params: &Shallow,
        now: u64,
    ) -> String {
        self.request = digest(method, params).to_string();
        self.until = now + PATIENCE;
        let plain = serde_json::to_vec(&self).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(vault.seal(&["mcp state", org.as_str(), who], &plain))
    }

    /// Reads it again. Why it cannot be read is nobody's business.
    pub(super) async fn unseal(
        text: &str,
        app: &App,
        whose: (&OrgId, &str),
        method: &str,
        params: &Shallow,
    ) -> Result<Self, Fault> {
        let vault = app.servers().vault().await.map_err(|error| super::tools::internal(&error))?;
        Self::unseal_at(text, &vault, whose, method, params, now()).ok_or_else(|| {
            let message = "`requestState` is not one that was given for this request, or its time is up; ask anew";
            Fault::params(message).with_status(400)
        })
    }

    fn unseal_at(
        text: &str,
        vault: &Vault,
        (org, who): (&OrgId, &str),
        method: &str,
        params: &Shallow,
        now: u64,
    ) -> Option<Self> {
        // Behind it may stand the node that gave it out.
        let sealed = URL_SAFE_NO_PAD.decode(text.split('@').next()?).ok()?;
        let plain = vault.unseal(&["mcp state", org.as_str(), who], &sealed).ok()?;
        let state: Self = serde_json::from_slice(&plain).ok()?;
        (state.request == digest(method, params).to_string() && state.until > now).then_some(state)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn params(text: &str) -> Shallow {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_state_is_for_its_owner_its_request_and_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::open(folder.path(), None).unwrap();
        let (org, other): (OrgId, OrgId) = (OrgId::local(), "other".parse().unwrap());
        let asked = params(r#"{"name":"echo","arguments":{"a":1,"b":[2]}}"#);
        let state = State::new(Some("theirs".to_owned()), Some("once".to_owned()));
        let sealed = state.seal_at(&vault, (&org, "me"), "tools/call", &asked, 1000);
        let open = |text: &str, org, who, method, params: &Shallow, now| {
            State::unseal_at(text, &vault, (org, who), method, params, now).map(|state| (state.theirs, state.approved))
        };
        let again =
            params(r#"{"requestState":"x","arguments":{"b":[2],"a":1},"_meta":{},"inputResponses":{},"name":"echo"}"#);
        let opened = Some((Some("theirs".to_owned()), Some("once".to_owned())));
        assert_eq!(open(&sealed, &org, "me", "tools/call", &again, 1000 + PATIENCE - 1), opened);
        assert_eq!(open(&format!("{sealed}@a-node"), &org, "me", "tools/call", &again, 1000), opened);
        assert_eq!(open(&sealed, &org, "me", "tools/call", &again, 1000 + PATIENCE), None, "its time is up");
        assert_eq!(open(&sealed, &org, "you", "tools/call", &again, 1000), None, "it is somebody else's");
        assert_eq!(open(&sealed, &other, "me", "tools/call", &again, 1000), None, "it is of another organisation");
        assert_eq!(open(&sealed, &org, "me", "prompts/get", &again, 1000), None, "it is for another method");
        for changed in
            [r#"{"name":"echo","arguments":{"a":2,"b":[2]}}"#, r#"{"name":"other","arguments":{"a":1,"b":[2]}}"#]
        {
            assert_eq!(open(&sealed, &org, "me", "tools/call", &params(changed), 1000), None, "{changed}");
        }
        for text in ["", "@a-node", "not one", &sealed[1..], &sealed[..sealed.len() - 4]] {
            assert_eq!(open(text, &org, "me", "tools/call", &again, 1000), None, "{text}");
        }
    }
}
