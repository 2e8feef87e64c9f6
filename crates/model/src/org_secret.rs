//! The secrets that an organisation gives to the server, each by a name that the server knows. They can be replaced and forgotten,
//! and never read again.

use std::fmt;
use std::str::FromStr;

use crate::secret::Secret;

/// The most bytes of a value.
const LONGEST: usize = 4096;

/// What a secret is for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum OrgSecretName {
    /// The key for models of Anthropic.
    LlmAnthropic,
    /// The key for models of OpenAI.
    LlmOpenai,
}

/// A name that no secret has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no secret of this name; there are {}", OrgSecretName::ALL.map(OrgSecretName::as_str).join(", "))]
pub struct UnknownSecret;

/// A value that cannot be one. It is not repeated.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must have 1 to {LONGEST} printable ASCII characters, and no space at either end")]
pub struct BadSecretValue;

impl OrgSecretName {
    /// All that there are.
    pub const ALL: [Self; 2] = [Self::LlmAnthropic, Self::LlmOpenai];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LlmAnthropic => "llm.anthropic",
            Self::LlmOpenai => "llm.openai",
        }
    }

    /// Takes a value in that somebody gave. It travels in a header, so that no line break may be in it.
    pub fn value(text: String) -> Result<Secret, BadSecretValue> {
        let printable = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        let good = (1..=LONGEST).contains(&text.len()) && printable && text.trim() == text;
        if good { Ok(Secret::new(text)) } else { Err(BadSecretValue) }
    }
}

impl FromStr for OrgSecretName {
    type Err = UnknownSecret;

    fn from_str(text: &str) -> Result<Self, UnknownSecret> {
        Self::ALL.into_iter().find(|name| name.as_str() == text).ok_or(UnknownSecret)
    }
}

impl fmt::Display for OrgSecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in OrgSecretName::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for unknown in ["", "llm", "LLM.anthropic", "llm.anthropic "] {
            let error = unknown.parse::<OrgSecretName>().unwrap_err();
            assert!(error.to_string().contains("llm.anthropic, llm.openai"));
        }
    }

    #[test]
    fn values() {
        for (text, good) in [
            ("sk-ant-1234".to_owned(), true),
            ("x".repeat(LONGEST), true),
            ("a key with spaces".to_owned(), true),
            (String::new(), false),
            ("x".repeat(LONGEST + 1), false),
            (" sk".to_owned(), false),
            ("sk\n".to_owned(), false),
            ("s\tk".to_owned(), false),
            ("schlüssel".to_owned(), false),
        ] {
            let taken = OrgSecretName::value(text.clone());
            assert_eq!(taken.is_ok(), good, "{text:?}");
            if let Err(error) = taken {
                assert!(text.is_empty() || text == " sk" || !error.to_string().contains(text.trim()), "{error}");
            }
        }
    }
}
