//! What can go wrong with a workspace, by what the caller can do about it. An I/O error always carries its path.

use std::io;
use std::path::{Path, PathBuf};

use kitbag_model::ContentHash;

use crate::tree::NodeError;

/// Why an operation on a workspace failed.
#[derive(Debug, thiserror::Error)]
pub enum CasError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A blob that a state needs is not there.
    #[error("the blob {hash} is missing")]
    Missing {
        /// Its name.
        hash: ContentHash,
    },
    /// A blob's bytes do not have its hash any more.
    #[error("the blob {hash} is damaged")]
    Corrupt {
        /// Its name.
        hash: ContentHash,
    },
    /// The store that has the blobs does not answer, or says no.
    #[error("the blob store does not answer: {reason}")]
    Distant {
        /// What it said, or what is in the way.
        reason: String,
    },
    /// A tree node is not there.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Another process works with the folder and does not let go of it.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The store of blobs takes no more.
    #[error(
        "there is no room for {wanted} bytes more: of {most} bytes that all workspaces may take together, {left} are left"
    )]
    NoRoom {
        /// How many were wanted.
        wanted: u64,
        /// How many are left.
        left: u64,
        /// How many there may be in all.
        most: u64,
    },
    /// A limit is passed.
    #[error("the workspace has {has} {what}, and at most {most} are allowed")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        has: u64,
        /// How much there may be.
        most: u64,
    },
}

impl CasError {
    /// An I/O error at `path`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// The same, for the calls that answer with a bare error number.
    pub(crate) fn errno(path: &Path) -> impl Fn(rustix::io::Errno) -> Self {
        move |source| Self::Io { path: path.to_owned(), source: source.into() }
    }
}
