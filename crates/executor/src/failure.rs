//! Why an attempt has no answer. The code is a word that callers act on; no message repeats a value of a variable.

use kitbag_model::run::RunError;
use std::fmt;

/// A reason with its code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// Such as `MCP_ENV_NOT_SET:TOKEN`.
    pub code: String,
    /// In words.
    pub message: String,
}

impl Failure {
    /// With a code and a reason.
    pub fn new(code: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { code: code.into(), message: message.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for RunError {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message }
    }
}
