//! Why a command did not do what it was asked, and with which exit code it says so.

use std::fmt::Display;
use std::process::ExitCode;

use kitbag_store::OpenError;
use serde_json::Value;

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// A stable code, for `--json`.
    pub(crate) code: String,
    /// What went wrong and what to do.
    pub(crate) message: String,
    /// More, for programs.
    pub(crate) details: Option<Box<Value>>,
    exit: u8,
}

impl Failure {
    /// Wrong use or invalid input.
    pub(crate) fn wrong_use(message: impl Into<String>) -> Self {
        Self { code: "BAD_REQUEST".to_owned(), message: message.into(), details: None, exit: 2 }
    }

    /// Something failed, or is not there.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { code: "FAILED".to_owned(), message: message.into(), details: None, exit: 1 }
    }

    /// What another part of the program says, with its own code and exit code.
    pub(crate) fn with_exit(code: &str, message: String, exit: u8) -> Self {
        Self { code: code.to_owned(), message, details: None, exit }
    }

    /// The server said no.
    pub(crate) fn refused(status: u16, code: String, message: String, details: Value) -> Self {
        let details = (!details.is_null()).then(|| Box::new(details));
        let exit = if matches!(status, 400 | 413 | 415 | 422) { 2 } else { 1 };
        Self { code, message, details, exit }
    }

    /// Whether the same may do better a moment later: nobody answered, or whoever did cannot yet.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.code.as_str(), "FAILED" | "UNAVAILABLE")
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit)
    }
}

/// Whatever else goes wrong is a failure of the machine, told with what was being done.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::failed(describe(&error.into()))
    }
}

/// An error with its causes, each told once: some say themselves what caused them.
fn describe(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match () {
        () if told.is_empty() => cause,
        () if told.contains(&cause) => told,
        () => format!("{told}: {cause}"),
    })
}

/// Says what was being done when an error came up.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::failed(format!("{what}: {}", describe(&error.into()))))
    }
}

/// A database that did not open. What the caller must change exits with 2, what the machine failed at with 1.
pub(crate) fn not_opened(error: OpenError) -> Failure {
    match error {
        OpenError::Sqlite { .. }
        | OpenError::Unreachable(_)
        | OpenError::Refused(_)
        | OpenError::InUse(_)
        | OpenError::Database(_) => Failure::failed(error.to_string()),
        refused => Failure::wrong_use(refused.to_string()),
    }
}
