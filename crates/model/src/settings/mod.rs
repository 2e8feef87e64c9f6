//! The settings of an organisation: a checked value, strict in what it reads.
//!
//! What is absent or null is the server's default. A number has its bounds in its type, so that whoever holds settings need not check
//! them again; whether a name means something, and what the operator allows, is for those who know the organisation.

mod count;
mod host;
#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::hash::ContentHash;
use crate::name::ToolsetId;
use crate::resolution::{Lists, Problems};

pub use count::{BadCount, Count};
pub use host::{BadHost, HostPattern};

/// The most hosts on an organisation's list.
const MOST_HOSTS: usize = 256;

/// Calls in a minute.
pub type CallsPerMinute = Count<1, 1_000_000>;
/// Calls at the same time.
pub type ConcurrentCalls = Count<1, 10_000>;
/// Runs that wait.
pub type QueuedRuns = Count<1, 1_000_000>;
/// Bytes, up to a pebibyte: every number of them is exact in JSON.
pub type Bytes = Count<1, { 1 << 50 }>;
/// Days, up to a hundred years.
pub type Days = Count<1, 36_500>;

/// Everything that an organisation says about itself.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OrgSettings {
    /// About its toolsets.
    #[serde(deserialize_with = "or_default")]
    pub toolsets: ToolsetSettings,
    /// Which tools its clients get.
    #[serde(deserialize_with = "or_default")]
    pub resolution: ListSettings,
    /// How much of the server it takes.
    #[serde(deserialize_with = "or_default")]
    pub quotas: Quotas,
    /// How long it keeps what nobody uses.
    #[serde(deserialize_with = "or_default")]
    pub retention: Retention,
    /// What it dials.
    #[serde(deserialize_with = "or_default")]
    pub network: Network,
}

/// About toolsets.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolsetSettings {
    /// The toolset that is used where none is named.
    pub default_toolset_id: Option<ToolsetId>,
}

/// The four settings of resolution, as lists. An empty list says "none".
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListSettings {
    /// Toolset ids, or `all`.
    pub toolsets: Option<Vec<String>>,
    /// Tools beside those of the toolsets.
    pub enabled_tools: Option<Vec<String>>,
    /// Tools to take away, whatever put them in.
    pub disabled_tools: Option<Vec<String>>,
    /// Whether meta tools are listed in place of the tools.
    pub dynamic: Option<bool>,
}

/// How much of the server an organisation takes at the most.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Quotas {
    /// Calls in a minute.
    pub calls_per_minute: Option<CallsPerMinute>,
    /// Calls that run or wait for their turn.
    pub concurrent_calls: Option<ConcurrentCalls>,
    /// Bytes that all states of all workspaces take.
    pub workspace_bytes: Option<Bytes>,
    /// Runs that executors have at the same time.
    pub executors_in_flight: Option<ConcurrentCalls>,
    /// Runs that wait for an executor.
    pub queued_runs: Option<QueuedRuns>,
}

/// How long things are kept that nobody uses. Nothing said is for ever.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retention {
    /// Chats that nobody touched.
    pub chat_days: Option<Days>,
    /// Lines of the audit.
    pub audit_days: Option<Days>,
}

/// What an organisation dials.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Network {
    /// The hosts that its servers and imports may be at. Nothing said: whatever the operator allows.
    #[serde(deserialize_with = "few")]
    pub allow: Option<Vec<HostPattern>>,
}

impl ListSettings {
    /// The lists as resolution knows them, or all that is wrong with how they are written.
    pub fn lists(&self) -> Result<Lists, Problems> {
        let tidy =
            |list: &Option<Vec<String>>| list.as_ref().map(|list| Lists::entries(list.iter().map(String::as_str)));
        Lists {
            toolsets: tidy(&self.toolsets),
            enabled_tools: tidy(&self.enabled_tools),
            disabled_tools: tidy(&self.disabled_tools),
            dynamic: self.dynamic,
        }
        .checked()
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl OrgSettings {
    /// The text that is kept, which is the same for the same settings.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("names and numbers are JSON")
    }

    /// What tells one version from another.
    pub fn digest(&self) -> ContentHash {
        ContentHash::of(self.to_text().as_bytes())
    }

    /// The paths, such as `quotas.callsPerMinute`, of what is other than in `before`.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let value = |settings: &Self| serde_json::to_value(settings).unwrap_or_default();
        let (now, then) = (value(self), value(before));
        let sections = now.as_object().into_iter().flatten();
        let of_section = |(section, values): (&String, &Value)| {
            let changed = values.as_object().into_iter().flatten().filter(|(key, value)| then[section][key] != **value);
            changed.map(|(key, _)| format!("{section}.{key}")).collect::<Vec<_>>()
        };
        sections.flat_map(of_section).collect()
    }
}

/// A section that may be null. An object and nothing else: what is derived would take a list of values in the order of the fields too.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Section(PhantomData))
}

struct Section<T>(PhantomData<T>);

impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for Section<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<HostPattern>>, D::Error> {
    let hosts: Option<Vec<HostPattern>> = Option::deserialize(deserializer)?;
    match hosts.as_ref().map(Vec::len).filter(|has| *has > MOST_HOSTS) {
        Some(has) => Err(serde::de::Error::custom(format!("has {has} hosts; at most {MOST_HOSTS} are allowed"))),
        None => Ok(hosts),
    }
}
