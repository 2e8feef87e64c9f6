//! Pins: what a server's tool was when somebody accepted it, what the server says now, and what follows from the difference.
//!
//! Pure: whoever keeps pins asks [`judge`] what a new list means and writes down the answer.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::{ContentHash, Hasher};
use crate::id::text_serde;
use crate::name::ServerKey;
use crate::time::Timestamp;
use crate::tool_id::McpToolName;
use crate::toolset::words;

words!(
    /// What happens when a server changes a tool that is known, or adds one to those that are.
    PinPolicy, UnknownPinPolicy, "unknown pin policy; it is warn, quarantine or accept", {
        /// The tool can be called, and the difference is shown until somebody accepts it.
        Warn = "warn",
        /// The tool cannot be called until somebody accepts the difference.
        Quarantine = "quarantine",
        /// The new definition is the accepted one at once.
        Accept = "accept",
    }
);

words!(
    /// Whether a tool can be called as far as its pin is concerned.
    PinState, UnknownPinState, "unknown state of a pin; it is accepted or quarantined", {
        /// It can.
        Accepted = "accepted",
        /// Not until somebody accepts what it has become.
        Quarantined = "quarantined",
    }
);

impl PinPolicy {
    /// What holds where nobody said anything: what a stranger packed may not change under one's hands; what a person added by
    /// hand may.
    pub fn default_for(user_mcp: bool) -> Self {
        if user_mcp { Self::Accept } else { Self::Quarantine }
    }

    /// The state of a tool of which something waits to be accepted.
    fn state_of_waiting(self) -> PinState {
        if self == Self::Quarantine { PinState::Quarantined } else { PinState::Accepted }
    }
}

/// A tool's whole definition and its hash.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    /// The hash of the definition.
    pub sha256: ContentHash,
    /// All that the server said of the tool.
    pub definition: Map<String, Value>,
}

impl Pinned {
    /// With its hash.
    pub fn new(definition: Map<String, Value>) -> Self {
        Self { sha256: definition_hash(&definition), definition }
    }
}

/// What of a tool was accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Acceptance {
    /// What the server says now.
    AsSeen,
    /// Something else than what it says now.
    Other(Pinned),
    /// Nothing yet.
    Never,
}

/// What is remembered of a server's tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pin {
    /// The server.
    pub server: ServerKey,
    /// The tool's name there.
    pub tool: McpToolName,
    /// Its place in the server's list.
    pub position: usize,
    /// Whether the last list had it.
    pub listed: bool,
    /// Whether it can be called.
    pub state: PinState,
    /// What the server said last.
    pub seen: Pinned,
    /// What was accepted.
    pub accepted: Acceptance,
    /// When it was first listed.
    pub first_seen_at: Timestamp,
    /// When it was last listed.
    pub last_seen_at: Timestamp,
}

impl Pin {
    /// Whether something waits to be accepted.
    pub fn is_waiting(&self) -> bool {
        self.accepted != Acceptance::AsSeen
    }

    /// What waits to be accepted, field by field; nothing if nothing waits.
    pub fn difference(&self) -> Vec<FieldChange> {
        match &self.accepted {
            Acceptance::AsSeen => Vec::new(),
            Acceptance::Other(accepted) => difference(&accepted.definition, &self.seen.definition),
            Acceptance::Never => difference(&Map::new(), &self.seen.definition),
        }
    }

    /// The pin after its server listed the tool as `seen`.
    fn see(&mut self, seen: &Pinned, policy: PinPolicy) {
        let before = std::mem::replace(&mut self.seen, seen.clone());
        self.accepted = match std::mem::replace(&mut self.accepted, Acceptance::Never) {
            _ if policy == PinPolicy::Accept => Acceptance::AsSeen,
            Acceptance::AsSeen if before.sha256 == seen.sha256 => Acceptance::AsSeen,
            Acceptance::AsSeen => Acceptance::Other(before),
            Acceptance::Other(accepted) if accepted.sha256 == seen.sha256 => Acceptance::AsSeen,
            other => other,
        };
        self.state = if self.is_waiting() { policy.state_of_waiting() } else { PinState::Accepted };
    }
}

/// What a new list of a server's tools means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    /// Whether no list of this server was ever seen before.
    pub first: bool,
    /// Tools that the list before did not have.
    pub new: Vec<McpToolName>,
    /// Tools that are as they were.
    pub unchanged: Vec<McpToolName>,
    /// Tools that are other than they were.
    pub changed: Vec<McpToolName>,
    /// Tools that the list before had and this one has not.
    pub gone: Vec<McpToolName>,
    /// All pins as they are now, in the server's order; those that are not listed any more come last.
    pub pins: Vec<Pin>,
}

impl Sight {
    /// Whether the list says something that was not known before.
    pub fn is_news(&self) -> bool {
        self.first || !(self.new.is_empty() && self.changed.is_empty() && self.gone.is_empty())
    }
}

/// What a list of tools means for the pins of its server. Of two tools with one name the first counts.
///
/// The first list of a server is accepted whatever the policy: there is nothing to compare it with, and the server itself was
/// trusted a moment ago. A tool that is not listed any more is remembered if somebody accepted it and the policy cares, so that
/// it cannot come back as something else; else it is forgotten, so that a server cannot fill the memory with names.
pub fn judge(
    server: &ServerKey,
    policy: PinPolicy,
    first: bool,
    before: Vec<Pin>,
    list: &[(McpToolName, Pinned)],
    now: Timestamp,
) -> Sight {
    let mut sight = Sight { first, ..Sight::default() };
    let mut known: HashMap<McpToolName, Pin> = before.into_iter().map(|pin| (pin.tool.clone(), pin)).collect();
    let mut listed: HashSet<&McpToolName> = HashSet::new();
    for (tool, seen) in list.iter().filter(|(tool, _)| listed.insert(tool)) {
        let position = sight.pins.len();
        let pin = match known.remove(tool) {
            Some(mut pin) => {
                let story = match (pin.listed, pin.seen.sha256 == seen.sha256) {
                    (false, _) => &mut sight.new,
                    (true, true) => &mut sight.unchanged,
                    (true, false) => &mut sight.changed,
                };
                story.push(tool.clone());
                pin.see(seen, policy);
                Pin { position, listed: true, last_seen_at: now, ..pin }
            }
            None => {
                sight.new.push(tool.clone());
                let waits = !first && policy != PinPolicy::Accept;
                Pin {
                    server: server.clone(),
                    tool: tool.clone(),
                    position,
                    listed: true,
                    state: if waits { policy.state_of_waiting() } else { PinState::Accepted },
                    seen: seen.clone(),
                    accepted: if waits { Acceptance::Never } else { Acceptance::AsSeen },
                    first_seen_at: now,
                    last_seen_at: now,
                }
            }
        };
        sight.pins.push(pin);
    }
    let mut left: Vec<Pin> = known.into_values().collect();
    left.sort_by(|a, b| (a.position, &a.tool).cmp(&(b.position, &b.tool)));
    sight.gone = left.iter().filter(|pin| pin.listed).map(|pin| pin.tool.clone()).collect();
    let kept = |pin: &Pin| policy != PinPolicy::Accept && pin.accepted != Acceptance::Never;
    sight.pins.extend(left.into_iter().filter(kept).map(|pin| Pin { listed: false, ..pin }));
    sight
}

/// What everything that waits is, as one hash: a yes to all of it is bound to what was shown.
pub fn waiting_hash(pins: &[Pin]) -> ContentHash {
    let mut lines: Vec<String> = pins
        .iter()
        .filter(|pin| pin.is_waiting())
        .map(|pin| format!("{} {}\n", pin.seen.sha256, Value::from(pin.tool.as_str())))
        .collect();
    lines.sort();
    ContentHash::of(lines.concat().as_bytes())
}

/// The hash of a tool's whole definition. The order of keys says nothing, so it changes nothing.
pub fn definition_hash(definition: &Map<String, Value>) -> ContentHash {
    let mut hasher = Hasher::default();
    hash_object(definition, &mut hasher);
    hasher.finish()
}

fn hash_object(object: &Map<String, Value>, hasher: &mut Hasher) {
    let mut fields: Vec<(&String, &Value)> = object.iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    hasher.update(b"{");
    for (index, (name, value)) in fields.into_iter().enumerate() {
        hasher.update(if index > 0 { b"," } else { b"" });
        hasher.update(Value::from(name.as_str()).to_string().as_bytes());
        hasher.update(b":");
        hash_value(value, hasher);
    }
    hasher.update(b"}");
}

fn hash_value(value: &Value, hasher: &mut Hasher) {
    match value {
        Value::Object(object) => hash_object(object, hasher),
        Value::Array(items) => {
            hasher.update(b"[");
            for (index, item) in items.iter().enumerate() {
                hasher.update(if index > 0 { b"," } else { b"" });
                hash_value(item, hasher);
            }
            hasher.update(b"]");
        }
        plain => hasher.update(plain.to_string().as_bytes()),
    }
}

/// A part of a definition that is other than it was.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Which.
    pub field: String,
    /// What it was; none if it was not there.
    pub before: Option<Value>,
    /// What it is; none if it is not there any more.
    pub after: Option<Value>,
}

/// What is different between two definitions, by their top-level fields in order of name.
pub fn difference(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<FieldChange> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let change = |name: &String| FieldChange {
        field: name.clone(),
        before: before.get(name).cloned(),
        after: after.get(name).cloned(),
    };
    names.into_iter().map(change).filter(|change| change.before != change.after).collect()
}

#[cfg(test)]
mod tests;
