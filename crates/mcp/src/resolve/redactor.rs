//! Masks values in whatever a server says: as they are, in base64 and as URLs and JSON spell them.
//!
//! There are two measures. Words for people (errors, logs, standard error) lose every value. What tools return loses only what
//! is a secret by its name or its looks: a file's path must not be torn apart because `HOME` went into the arguments.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::connection::CallError;
use crate::tool::ToolDefinition;

/// What stands in a value's place.
const MASK: &str = "•••";

/// Shorter values are not masked: they would be found everywhere.
const SHORTEST: usize = 4;

/// Shorter pieces of an encoded value, and shorter lines of one with many, are not searched for.
const SHORTEST_PIECE: usize = 6;

/// How many values that came later are remembered: a token and those that it replaced.
const LEARNED: usize = 4;

/// Knows values and their spellings. It never shows them. Clones know the same.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a value is masked before a part of it is.
    needles: Needles,
    learned: Arc<RwLock<VecDeque<(String, Needles)>>>,
}

type Needles = Arc<[Needle]>;

struct Needle {
    text: String,
    secret: bool,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} spellings)", self.needles.len())
    }
}

impl Redactor {
    /// For these values, each with whether it is a secret.
    pub fn new(values: impl IntoIterator<Item = (String, bool)>) -> Self {
        Self { needles: needles(values), learned: Arc::default() }
    }

    /// One more secret, from now on.
    pub fn learn(&self, value: &str) {
        if self.learned.read().is_ok_and(|learned| learned.iter().any(|(known, _)| known == value)) {
            return;
        }
        let needles = needles([(value.to_owned(), true)]);
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        if learned.len() == LEARNED {
            learned.pop_front();
        }
        learned.push_back((value.to_owned(), needles));
    }

    /// Whether it has nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty() && self.learned.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// A text for people, without any of the values.
    pub fn text(&self, text: &str) -> String {
        masked(&self.all(), text, false)
    }

    /// Lines of which some may be pieces of a longer one: a value is found across their borders too.
    pub fn lines(&self, lines: &[String]) -> Vec<String> {
        if self.is_empty() {
            return lines.to_vec();
        }
        let all = lines.concat();
        let mut hidden = vec![false; all.len()];
        let needles = self.all();
        for needle in needles.iter().flat_map(|needles| needles.iter()) {
            for (at, found) in all.match_indices(&needle.text) {
                hidden[at..at + found.len()].fill(true);
            }
        }
        let mut from = 0;
        let shown = lines.iter().map(|line| {
            let mut shown = String::with_capacity(line.len());
            for (at, c) in line.char_indices() {
                match hidden[from + at] {
                    false => shown.push(c),
                    true if at > 0 && hidden[from + at - 1] => {}
                    true => shown.push_str(MASK),
                }
            }
            from += line.len();
            shown
        });
        shown.collect()
    }

    /// A tool's result or definition, without the secrets among the values. Keys of objects are looked at too.
    pub fn result(&self, value: Value) -> Value {
        if self.is_empty() {
            return value;
        }
        let all = self.all();
        let secret = |needles: &Needles| needles.iter().any(|needle| needle.secret);
        if all.iter().any(secret) { cleaned(&all, value, true) } else { value }
    }

    /// The same for a result that is still text.
    pub fn raw(&self, raw: Box<RawValue>) -> Box<RawValue> {
        if self.is_empty() {
            return raw;
        }
        let all = self.all();
        if !all.iter().any(|needles| needles.iter().any(|needle| needle.secret)) {
            return raw;
        }
        let Ok(value) = serde_json::from_str::<Value>(raw.get()) else { return raw };
        let clean = cleaned(&all, value.clone(), true);
        // What had nothing in it stays as it came.
        if clean == value { raw } else { to_raw_value(&clean).unwrap_or(raw) }
    }

    /// What a server says to people in an object, without any of the values.
    pub fn words(&self, value: Value) -> Value {
        if self.is_empty() { value } else { cleaned(&self.all(), value, false) }
    }

    /// A text that means something to machines, without the secrets among the values.
    pub fn exact(&self, text: &str) -> String {
        masked(&self.all(), text, true)
    }

    /// An error, without any of the values.
    pub fn error(&self, error: CallError) -> CallError {
        match error {
            CallError::Disconnected(reason) => CallError::Disconnected(self.text(&reason)),
            CallError::NeedsAuth { challenge } => {
                CallError::NeedsAuth { challenge: challenge.map(|challenge| self.exact(&challenge)) }
            }
            CallError::Refused { code, message, data } => {
                CallError::Refused { code, message: self.text(&message), data: data.map(|data| self.result(data)) }
            }
            CallError::Nonsense(reason) => CallError::Nonsense(self.text(&reason)),
            CallError::Unheard(reason) => CallError::Unheard(self.text(&reason)),
            error @ (CallError::Timeout(_) | CallError::Cancelled) => error,
        }
    }

    /// A tool's definition, without the secrets among the values.
    pub fn tool(&self, tool: ToolDefinition) -> ToolDefinition {
        if self.is_empty() {
            return tool;
        }
        match self.result(Value::Object(tool.raw())) {
            Value::Object(raw) => ToolDefinition::new(self.exact(&tool.name), &raw),
            _ => unreachable!("an object stays an object"),
        }
    }

    fn all(&self) -> Vec<Needles> {
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        [self.needles.clone()].into_iter().chain(learned.iter().map(|(_, needles)| needles.clone())).collect()
    }
}

fn masked(all: &[Needles], text: &str, secrets_only: bool) -> String {
    let mut text = text.to_owned();
    for needle in all.iter().flat_map(|needles| needles.iter()) {
        if (needle.secret || !secrets_only) && text.contains(&needle.text) {
            text = text.replace(&needle.text, MASK);
        }
    }
    text
}

fn cleaned(all: &[Needles], value: Value, secrets_only: bool) -> Value {
    match value {
        Value::String(text) => Value::String(masked(all, &text, secrets_only)),
        Value::Array(items) => items.into_iter().map(|item| cleaned(all, item, secrets_only)).collect(),
        Value::Object(map) => {
            let entry = |(key, value): (String, Value)| (masked(all, &key, true), cleaned(all, value, secrets_only));
            Value::Object(map.into_iter().map(entry).collect())
        }
        other => other,
    }
}

/// Everything to look for, for these values.
fn needles(values: impl IntoIterator<Item = (String, bool)>) -> Needles {
    let mut needles = Vec::new();
    for (value, secret) in values {
        if value.chars().count() >= SHORTEST {
            needles.extend(spellings(&value).into_iter().map(|text| Needle { text, secret }));
        }
    }
    // Of two equal ones the secret is kept.
    needles.sort_by(|a, b| {
        b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)).then(b.secret.cmp(&a.secret))
    });
    needles.dedup_by(|later, kept| later.text == kept.text);
    needles.into()
}

/// The ways in which a value is usually written.
fn spellings(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned()];
    let escaped = Value::from(value).to_string();
    all.push(escaped[1..escaped.len() - 1].to_owned());
    // Keys in PEM form are printed line by line.
    all.extend(value.lines().filter(|line| line.len() >= SHORTEST_PIECE && *line != value).map(str::to_owned));
    for plus in [false, true] {
        let upper = percent_encoded(value, plus);
        all.push(lower_escapes(&upper));
        all.push(upper);
    }
    for skipped in 0..3 {
        let piece = base64_piece(value.as_bytes(), skipped);
        if piece.len() >= SHORTEST_PIECE {
            all.push(piece.replace('+', "-").replace('/', "_"));
            all.push(piece);
        }
    }
    all.retain(|text| !text.is_empty());
    all
}

/// What of a value's base64 does not depend on what is around it, when `skipped` bytes of a group of three come before it.
/// So it is found inside `user:password` too.
fn base64_piece(value: &[u8], skipped: usize) -> String {
    let mut bytes = vec![0; skipped];
    bytes.extend(value);
    let encoded = STANDARD_NO_PAD.encode(&bytes);
    // A character stands for six bits; those that share bits with a neighbour are left out.
    let start = (skipped * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    encoded.get(start..end).unwrap_or_default().to_owned()
}

/// As URLs write it: everything but letters, digits and `-._~`.
fn percent_encoded(value: &str, plus: bool) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b' ' if plus => encoded.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// `%2F` as `%2f`.
fn lower_escapes(encoded: &str) -> String {
    let mut pieces = encoded.split('%');
    let mut lower = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (escape, rest) = piece.split_at(2);
        lower.push('%');
        lower.push_str(&escape.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}
