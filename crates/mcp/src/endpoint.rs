//! Where a server is, with every variable resolved. It holds secrets, so it is never shown.

use std::fmt;
use std::path::PathBuf;

use kitbag_guard::child::Fence;
use kitbag_model::RemoteKind;
use url::Url;

/// A server that can be started or dialled.
#[derive(Clone, Eq, PartialEq)]
pub enum Endpoint {
    /// A process to start, without a shell.
    Stdio {
        /// The program: a name to look up on the path, or a path.
        command: String,
        /// Its arguments, as they are.
        args: Vec<String>,
        /// The folder it is started in; none is the user's home, or the one that it keeps.
        cwd: Option<PathBuf>,
        /// What its environment has besides the usual.
        env: Vec<(String, String)>,
        /// What stands around it; none: it runs with our own rights. Paths are those that it sees.
        fence: Option<Fence>,
    },
    /// An address to dial.
    Remote {
        /// In which way.
        kind: RemoteKind,
        /// Where.
        url: Url,
        /// What every request carries.
        headers: Vec<(String, String)>,
    },
}

impl fmt::Debug for Endpoint {
    /// Neither arguments nor addresses: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, .. } => write!(f, "Stdio({command:?}, …)"),
            Self::Remote { kind, .. } => write!(f, "Remote({kind:?}, …)"),
        }
    }
}
