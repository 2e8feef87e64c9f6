//! How a fetch can fail, in words for who asked for it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::policy::Refused;

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Looking up the name or connecting.
    Connect,
    /// Waiting for the next part of the answer.
    Idle,
    /// All of it together.
    Total,
}

/// Why nothing was fetched. Part of the body may have been written already: the caller throws it away. The texts name hosts
/// only, since paths and queries may hold keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The policy does not allow it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The name leads nowhere.
    #[error("there is no address for `{host}`")]
    NotFound {
        /// The host that was looked up.
        host: String,
        /// What the resolver said.
        source: Option<io::Error>,
    },
    /// No connection, or no trust in the certificate.
    #[error("cannot connect to `{host}`: {reason}")]
    Connect {
        /// The host.
        host: String,
        /// The innermost cause.
        reason: String,
    },
    /// A deadline passed.
    #[error("`{host}` is too slow: {}", too_slow(*stage, *limit))]
    Slow {
        /// The host that was waited for.
        host: String,
        /// Which deadline.
        stage: Stage,
        /// How long it is.
        limit: Duration,
    },
    /// Not a success and not a redirect.
    #[error("`{host}` answered {status}")]
    Status {
        /// The host.
        host: String,
        /// Its answer.
        status: u16,
    },
    /// A redirect whose target cannot be read.
    #[error("`{host}` redirects to something that is not a URL")]
    Location {
        /// The host that redirects.
        host: String,
    },
    /// A redirect from https to http.
    #[error("`{host}` redirects from https to http, which is not encrypted")]
    Downgrade {
        /// The host that redirects.
        host: String,
    },
    /// Redirects without end.
    #[error("more than {limit} redirects")]
    Redirects {
        /// How many are followed.
        limit: usize,
    },
    /// The body is larger than allowed.
    #[error("`{host}` sends more than the {limit} bytes that are allowed")]
    TooLarge {
        /// The host.
        host: String,
        /// How many are.
        limit: u64,
    },
    /// The body is compressed although we asked for it as it is; how large it is inside would be anybody's guess.
    #[error("`{host}` sends its answer compressed, which was not asked for")]
    Encoded {
        /// The host.
        host: String,
    },
    /// The connection or the answer broke half-way.
    #[error("the answer of `{host}` is broken: {reason}")]
    Broken {
        /// The host.
        host: String,
        /// The innermost cause.
        reason: String,
    },
    /// What was read cannot be written.
    #[error("cannot keep what was fetched")]
    Sink(#[source] io::Error),
    /// The file of additional certificate authorities is of no use.
    #[error("cannot read certificates from `{}`: {source}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// This machine cannot make secure connections: most often it has no certificate authorities installed.
    #[error("cannot prepare a connection (are the system's CA certificates installed?)")]
    Setup(#[source] io::Error),
}

fn too_slow(stage: Stage, limit: Duration) -> String {
    match stage {
        Stage::Connect => format!("no connection within {limit:?}"),
        Stage::Idle => format!("nothing came for {limit:?}"),
        Stage::Total => format!("not done within {limit:?}"),
    }
}
