//! Why an engine did not do what was asked.

use std::io;

/// Why an engine did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is none on this machine.
    #[error("no container engine answers on this machine: {0}")]
    None(String),
    /// It says no.
    #[error("the container engine says: {0}")]
    Refused(String),
    /// It does not answer.
    #[error("the container engine does not answer: {0}")]
    Away(String),
    /// It has no such image, and cannot get it.
    #[error("the image {name} cannot be had: {reason}")]
    NoImage {
        /// Which.
        name: String,
        /// What the engine says.
        reason: String,
    },
    /// It could not build an image.
    #[error("the image could not be built: {0}")]
    Build(String),
    /// A file of ours could not be read or written.
    #[error("{what}: {source}")]
    Disk {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl From<bollard::errors::Error> for EngineError {
    fn from(error: bollard::errors::Error) -> Self {
        use bollard::errors::Error;
        match error {
            Error::DockerResponseServerError { message, .. } => Self::Refused(short(&message)),
            Error::DockerStreamError { error } => Self::Refused(short(&error)),
            other => Self::Away(short(&other.to_string())),
        }
    }
}

/// The first line of what an engine says, and not too much of it.
pub(crate) fn short(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    kitbag_model::safe_text(&line.chars().take(500).collect::<String>())
}
