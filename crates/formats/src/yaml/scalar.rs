//! What a scalar means, by the core schema of YAML 1.2: `true` and `false` are booleans, `yes`, `no` and `on` are texts.

use std::fmt;

use serde_json::{Map, Number, Value as Json};

use super::{Entry, Node, Value};

/// A scalar with its meaning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    /// A number that JSON has too.
    Number(Number),
    /// Infinity, not a number, or an integer too large for JSON's readers.
    OddNumber(&'a str),
    Text(&'a str),
}

impl<'a> Scalar<'a> {
    pub(crate) fn of(text: &'a str, plain: bool) -> Self {
        if !plain {
            return Self::Text(text);
        }
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "true" | "True" | "TRUE" => Self::Bool(true),
            "false" | "False" | "FALSE" => Self::Bool(false),
            _ => number(text).unwrap_or(Self::Text(text)),
        }
    }
}

fn number(text: &str) -> Option<Scalar<'_>> {
    let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = text.strip_prefix(prefix).filter(|rest| digits(rest, radix)) {
            let value = u64::from_str_radix(rest, radix).ok();
            return Some(value.map_or(Scalar::OddNumber(text), |value| Scalar::Number(value.into())));
        }
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits(unsigned, 10) {
        let value = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok();
        return Some(value.map_or(Scalar::OddNumber(text), Scalar::Number));
    }
    let special = [".inf", ".Inf", ".INF"].contains(&unsigned) || [".nan", ".NaN", ".NAN"].contains(&text);
    if special {
        return Some(Scalar::OddNumber(text));
    }
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let or_none = |text: &str| text.is_empty() || digits(text, 10);
    let exponent_fits = exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e), 10));
    let is_float = or_none(whole) && or_none(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_fits;
    if !is_float {
        return None;
    }
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite()).and_then(Number::from_f64);
    Some(value.map_or(Scalar::OddNumber(text), Scalar::Number))
}

impl fmt::Display for Scalar<'_> {
    /// What it is, for a message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(_) | Self::OddNumber(_) => f.write_str("a number"),
            Self::Text(_) => f.write_str("a text"),
        }
    }
}

/// The value as JSON. The place and text of a number that JSON does not have come back instead.
pub(super) fn to_json<'a>(node: &'a Node) -> Result<Json, (&'a Node, &'a str)> {
    match &node.value {
        Value::Scalar { text, plain } => match Scalar::of(text, *plain) {
            Scalar::Null => Ok(Json::Null),
            Scalar::Bool(value) => Ok(value.into()),
            Scalar::Number(value) => Ok(Json::Number(value)),
            Scalar::Text(text) => Ok(text.into()),
            Scalar::OddNumber(text) => Err((node, text)),
        },
        Value::List(items) => items.iter().map(to_json).collect::<Result<_, _>>().map(Json::Array),
        Value::Map(entries) => {
            let pair = |entry: &'a Entry| to_json(&entry.value).map(|value| (entry.key.clone(), value));
            entries.iter().map(pair).collect::<Result<Map<_, _>, _>>().map(Json::Object)
        }
    }
}
