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
    /// What it was to start in a container cannot be started: the command's own trouble, and not the engine's.
    #[error("its command could not be started: {0}")]
    Command(String),
    /// It does not answer.
    #[error("the container engine does not answer: {0}")]
    Away(String),
    /// It would start a container that takes what it likes.
    #[error(
        "the container engine cannot limit {0}: one container could take all that this machine has (`kitbag doctor` says what to do)"
    )]
    Unlimited(String),
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

impl EngineError {
    /// The same of an engine that was asked to start a container. Engines say by no status whose fault it is: Docker calls a command that is not
    /// there a bad request, podman a failure of its own.
    pub(crate) fn at_start(error: bollard::errors::Error) -> Self {
        const COMMAND: [&str; 5] =
            ["not found", "no such file or directory", "permission denied", "exec format error", "is a directory"];
        match Self::from(error) {
            Self::Refused(said) => {
                let lower = said.to_lowercase();
                let about_it = lower.contains("exec") && COMMAND.iter().any(|words| lower.contains(words));
                if about_it { Self::Command(said) } else { Self::Refused(said) }
            }
            other => other,
        }
    }
}

/// The first line of what an engine says, and not too much of it.
pub(crate) fn short(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    kitbag_model::safe_text(&line.chars().take(500).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_fault_it_is_that_nothing_starts() {
        let said = |status_code, message: &str| {
            EngineError::at_start(bollard::errors::Error::DockerResponseServerError {
                status_code,
                message: message.to_owned(),
            })
        };
        for (status, message) in [
            (400, "failed to create task: exec: \"/bin/none\": stat /bin/none: no such file or directory"),
            (500, "runc: runc create failed: unable to start container process: exec: \"/bin/none\": not found"),
            (500, "crun: open executable: Permission denied: OCI permission denied"),
        ] {
            assert!(matches!(said(status, message), EngineError::Command(_)), "{message}");
        }
        for (status, message) in [
            (500, "no space left on device"),
            (404, "no such container"),
            (500, "error mounting \"/data/x\": no such file or directory"),
        ] {
            assert!(matches!(said(status, message), EngineError::Refused(_)), "{message}");
        }
    }
}
