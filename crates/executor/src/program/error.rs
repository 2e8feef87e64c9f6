//! Why a command of an executor did not do what it was asked.

use std::io;
use std::path::{Path, PathBuf};

use kitbag_guard::dial::{BadProxy, FetchError};

use crate::link::BadAddress;

/// A reason, in words for whoever asked.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It was asked for something that cannot be.
    #[error("{0}")]
    WrongUse(String),
    /// The address of the server is none.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// The proxy is none.
    #[error(transparent)]
    Proxy(#[from] BadProxy),
    /// Nobody said where the server is.
    #[error(
        "which server? Name it with --server (or KITBAG_SERVER): no server runs on the data folder {}", .0.display()
    )]
    NoServer(PathBuf),
    /// It was never paired.
    #[error("this machine is not paired with a server: `kitbag executor pair TOKEN --server URL` does that")]
    NotPaired,
    /// It was paired before.
    #[error(
        "this machine is paired already: with {server}, as {executor} of the organisation {organization}. --replace pairs it anew"
    )]
    Paired {
        /// With whom.
        server: String,
        /// As whom.
        executor: String,
        /// For whom.
        organization: String,
    },
    /// Another one works here.
    #[error("an executor works on {} already; stop it first, or use another data folder", .0.display())]
    Running(PathBuf),
    /// The token is none, or was used.
    #[error("the server does not take this pairing token: it is not one, or was used already. Make a new one there")]
    TokenInvalid,
    /// The token is too old.
    #[error("the pairing token has expired: they are good for a quarter of an hour. Make a new one on the server")]
    TokenExpired,
    /// The server said something else.
    #[error("the server at {server} answered {status}: {message}")]
    Refused {
        /// Which server.
        server: String,
        /// Its status.
        status: u16,
        /// Its code, if it is a server of ours.
        code: String,
        /// What it said.
        message: String,
    },
    /// It could not be reached.
    #[error("the server at {server} cannot be reached: {source}{}", hint(source))]
    Unreachable {
        /// Which server.
        server: String,
        /// Why.
        source: FetchError,
    },
    /// The server has taken it out.
    #[error(
        "the server at {0} does not know this executor any more: it was taken out, and stops. To let it work again, pair it \
         anew with `kitbag executor pair TOKEN --replace`"
    )]
    Revoked(String),
    /// Kitbag's own tools could not be served.
    #[error(transparent)]
    Tools(#[from] crate::tools::ServeError),
    /// The machine failed at something.
    #[error("{}: {source}", path.display())]
    Io {
        /// At which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ProgramError {
    /// An error of the system, with the file it was about.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// A stable word for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::WrongUse(_) | Self::Address(_) | Self::Proxy(_) | Self::NoServer(_) => "BAD_REQUEST",
            Self::NotPaired => "NOT_PAIRED",
            Self::Paired { .. } | Self::Running(_) => "CONFLICT",
            Self::TokenInvalid => "PAIRING_TOKEN_INVALID",
            Self::TokenExpired => "PAIRING_TOKEN_EXPIRED",
            Self::Refused { code, .. } if !code.is_empty() => code,
            Self::Revoked(_) => "UNAUTHORIZED",
            Self::Refused { .. } | Self::Unreachable { .. } | Self::Tools(_) | Self::Io { .. } => "FAILED",
        }
    }

    /// 2 for what was asked wrongly, 1 for what failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::WrongUse(_) | Self::Address(_) | Self::Proxy(_) | Self::NoServer(_) | Self::TokenExpired => 2,
            _ => 1,
        }
    }
}

/// What to do about a certificate that nobody vouches for, which is what goes wrong most often inside companies.
fn hint(source: &FetchError) -> &'static str {
    match source {
        FetchError::Connect { reason, .. } if reason.contains("certificate") => {
            ". If an authority of your own signed its certificate, name that authority's file with --ca-file"
        }
        FetchError::Connect { .. } | FetchError::NotFound { .. } => ". Is the address right, and does the server run?",
        _ => "",
    }
}
