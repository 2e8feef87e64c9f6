//! A whole number within bounds that its type has.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// A number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Count<const LEAST: u64, const MOST: u64>(u64);

/// A number that is too small or too large.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be a whole number from {least} to {most}, not {found}")]
pub struct BadCount {
    least: u64,
    most: u64,
    found: u64,
}

impl<const LEAST: u64, const MOST: u64> Count<LEAST, MOST> {
    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl<const LEAST: u64, const MOST: u64> TryFrom<u64> for Count<LEAST, MOST> {
    type Error = BadCount;

    fn try_from(found: u64) -> Result<Self, BadCount> {
        let good = (LEAST..=MOST).contains(&found);
        good.then_some(Self(found)).ok_or(BadCount { least: LEAST, most: MOST, found })
    }
}

impl<const LEAST: u64, const MOST: u64> fmt::Display for Count<LEAST, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Count<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = |found: &dyn fmt::Display| {
            D::Error::custom(format!("must be a whole number from {LEAST} to {MOST}, not {found}"))
        };
        let value = serde_json::Value::deserialize(deserializer)?;
        let found = value.as_u64().ok_or_else(|| match &value {
            serde_json::Value::Number(number) => wrong(number),
            serde_json::Value::String(_) => wrong(&"a text"),
            _ => wrong(&"anything else"),
        })?;
        Self::try_from(found).map_err(D::Error::custom)
    }
}
