//! What an expression is: how it is written, and what it leads to.

use serde_json::{Map, Value};

use super::Scene;
use super::error::clip;

/// What an expression begins with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Root {
    Args,
    Return,
    ChatId,
    Workspace,
    Toolset,
}

impl Root {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "args" => Self::Args,
            "return" => Self::Return,
            "chat_id" => Self::ChatId,
            "workspace" => Self::Workspace,
            "toolset" => Self::Toolset,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Return => "return",
            Self::ChatId => "chat_id",
            Self::Workspace => "workspace",
            Self::Toolset => "toolset",
        }
    }

    /// The others are texts, which have no parts: what follows them is text as well, as in `$chat_id.txt`.
    fn has_parts(self) -> bool {
        matches!(self, Self::Args | Self::Return)
    }
}

/// A root and the keys behind it.
#[derive(Debug)]
pub(super) struct Expression<'t> {
    root: Root,
    path: Vec<&'t str>,
}

/// What an expression leads to.
pub(super) enum Found<'s> {
    Object(&'s Map<String, Value>),
    Value(&'s Value),
    Text(String),
}

/// An expression that leads to nothing.
pub(super) struct Lost {
    /// The expression, up to the part that was not found.
    pub(super) expression: String,
    pub(super) reason: String,
}

impl<'t> Expression<'t> {
    /// The expression at the beginning of a text, and what follows it.
    pub(super) fn at(text: &'t str) -> Option<(Self, &'t str)> {
        let text = text.strip_prefix('$')?;
        if let Some(braced) = text.strip_prefix('{') {
            let (inside, rest) = braced.split_once('}')?;
            return Some((Self::whole(inside)?, rest));
        }
        let (word, mut rest) = word(text);
        let root = Root::named(word)?;
        let mut path = Vec::new();
        while let Some((key, after)) = rest.strip_prefix('.').filter(|_| root.has_parts()).map(self::word)
            && !key.is_empty()
        {
            path.push(key);
            rest = after;
        }
        Some((Self { root, path }, rest))
    }

    /// A text without its `$` that is one expression. Its keys may have any character but a dot.
    pub(super) fn whole(text: &'t str) -> Option<Self> {
        let mut parts = text.split('.');
        let root = Root::named(parts.next()?)?;
        let path: Vec<_> = parts.collect();
        (path.is_empty() || root.has_parts()).then_some(Self { root, path })
    }

    /// What it leads to.
    pub(super) fn find<'s>(&self, scene: &Scene<'s>) -> Result<Found<'s>, Lost> {
        let lost = |length, reason| Lost { expression: clip(&self.to_text(length)), reason };
        let (mut value, begun) = match (self.root, self.path.first()) {
            (Root::ChatId, _) => return Ok(Found::Text(scene.chat.to_string())),
            (Root::Workspace, _) => return Ok(Found::Text(scene.workspace.to_owned())),
            (Root::Toolset, _) => {
                let toolset = scene.toolset.ok_or_else(|| lost(0, "the tool belongs to no toolset".to_owned()))?;
                return Ok(Found::Text(toolset.to_owned()));
            }
            (Root::Args, None) => return Ok(Found::Object(scene.args)),
            (Root::Args, Some(name)) => {
                let missing = || lost(1, format!("there is no argument {:?}", clip(name)));
                (scene.args.get(*name).ok_or_else(missing)?, 1)
            }
            (Root::Return, _) => (scene.result, 0),
        };
        for (at, key) in self.path.iter().enumerate().skip(begun) {
            let next = match value {
                Value::Object(fields) => fields.get(*key),
                Value::Array(items) => place(key).and_then(|place| items.get(place)),
                _ => None,
            };
            value = next.ok_or_else(|| {
                let (here, kind) = (clip(&self.to_text(at)), kind(value));
                let reason = match value {
                    Value::Object(_) | Value::Array(_) => format!("{here} is {kind} without {:?}", clip(key)),
                    _ => format!("{here} is {kind}; to end the expression there, write ${{{}}}", &here[1..]),
                };
                lost(at + 1, reason)
            })?;
        }
        Ok(Found::Value(value))
    }

    /// As it is written, with so many keys.
    pub(super) fn to_text(&self, keys: usize) -> String {
        let mut text = format!("${}", self.root.name());
        for key in &self.path[..keys] {
            text.push('.');
            text.push_str(key);
        }
        text
    }

    /// As it is written.
    pub(super) fn to_whole_text(&self) -> String {
        clip(&self.to_text(self.path.len()))
    }
}

/// Letters, digits and `_` at the beginning of a text, and the rest.
fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len()))
}

/// A place in a list, which has one spelling.
fn place(key: &str) -> Option<usize> {
    let plain = key == "0" || !key.starts_with(['0', '+']);
    key.parse().ok().filter(|_| plain)
}

/// What a value is, for a message.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
