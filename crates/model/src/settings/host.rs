//! The hosts that an organisation may dial: one of them, or all below a name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Host;

use crate::id::text_serde;

/// A host as it stands in an address (`api.example.org`, `192.0.2.1`, `[2001:db8::1]`), or `*.example.org`, which is every name
/// below that one and not the name itself. In small letters, without the dot at the end.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct HostPattern(String);

/// A text that names no hosts.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{text:?} is no host: write a name such as api.example.org, all names below one as *.example.org, or an address, without scheme, port and path"
)]
pub struct BadHost {
    text: String,
}

impl HostPattern {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostPattern {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        let bad = || BadHost { text: text.chars().take(200).collect() };
        let (below, name) = text.strip_prefix("*.").map_or(("", text), |name| ("*.", name));
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match Host::parse(name).map_err(|_| bad())? {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                let labels = name.split('.').all(|label| (1..=63).contains(&label.len()));
                let good = labels && name.len() <= 253 && name.chars().all(known);
                good.then(|| Self(format!("{below}{name}"))).ok_or_else(bad)
            }
            address if below.is_empty() => Ok(Self(address.to_string())),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_serde!(HostPattern);
