//! Why something could not be done to a workspace.

use kitbag_cas::CasError;
use kitbag_model::{ToolCallId, WorkPath};
use kitbag_store::{KeepError, StoreError};
use rustix::io::Errno;

use crate::api::error::{ApiError, Code};
use crate::rules::Quota;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    /// There is no such chat.
    #[error("no such chat")]
    NoChat,
    /// There is no such state.
    #[error("no such manifest")]
    NoManifest,
    /// Somebody else changed the workspace in the meantime.
    #[error("the workspace has changed in the meantime")]
    Conflict,
    /// Somebody collected what a state relies on, after it was taken. Taken again, it brings that again.
    #[error("what was kept before was collected in the meantime")]
    Collected,
    /// A name is taken, and so long that no number fits behind it.
    #[error("{0} is taken, and its name is too long to get a number")]
    NameTaken(WorkPath),
    /// A tool is at work in it.
    #[error("the tool call {0} is at work in this workspace")]
    Busy(ToolCallId),
    /// Another node works for this chat.
    #[error("another server works for this chat just now")]
    Elsewhere(String),
    /// Another node took the chat over.
    #[error("another server took this chat over meanwhile")]
    Lost,
    /// The organisation's quota leaves no room for it.
    #[error("{0}. Deleting chats makes room, and so does collecting what no state of a workspace needs (gc)")]
    NoRoom(String),
    #[error(transparent)]
    Cas(#[from] CasError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl WorkspaceError {
    /// The same, with the quota named if that is what stands in the way.
    pub(super) fn of_quota(self, quota: Option<&Quota>) -> Self {
        match (self, quota) {
            (Self::Cas(error @ CasError::NoRoom { .. }), Some(quota)) => Self::NoRoom(quota.told(&error.to_string())),
            (error, _) => error,
        }
    }
}

impl From<KeepError> for WorkspaceError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::NoChat => Self::NoChat,
            KeepError::Conflict => Self::Conflict,
            KeepError::Store(error) => Self::Store(error),
        }
    }
}

impl From<WorkspaceError> for ApiError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::NoChat => Self::new(Code::NotFound, "there is no such chat"),
            WorkspaceError::NoManifest => Self::new(Code::NotFound, "there is no such manifest in this chat"),
            WorkspaceError::Conflict | WorkspaceError::Collected => {
                Self::new(Code::Conflict, "the workspace has changed in the meantime; read it again")
            }
            error @ WorkspaceError::Busy(call) => {
                let message = format!("{error}; wait for it, or cancel it");
                Self::new(Code::Conflict, message).with_details(serde_json::json!({ "callId": call.to_string() }))
            }
            error @ WorkspaceError::NameTaken(_) => Self::new(Code::Conflict, error.to_string()),
            error @ (WorkspaceError::Elsewhere(_) | WorkspaceError::Lost) => {
                Self::new(Code::Unavailable, format!("{error}; try again"))
            }
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Cas(error @ (CasError::Corrupt { .. } | CasError::Missing { .. } | CasError::Node(_))) => {
                tracing::error!(%error, "a workspace is damaged");
                Self::new(Code::BlobCorrupt, error.to_string())
            }
            WorkspaceError::Cas(CasError::InUse { .. }) => {
                Self::new(Code::Unavailable, "another process works with this workspace; try again later")
            }
            WorkspaceError::Cas(error @ CasError::Distant { .. }) => {
                tracing::warn!(%error, "the blob store does not answer");
                Self::new(Code::Unavailable, "the blob store does not answer; nothing was kept. Try again")
            }
            WorkspaceError::Cas(error @ CasError::Limit { .. }) => Self::new(Code::QuotaExceeded, error.to_string()),
            // Room comes back when somebody makes it, which takes a while.
            error @ (WorkspaceError::NoRoom(_) | WorkspaceError::Cas(CasError::NoRoom { .. })) => {
                Self::new(Code::QuotaExceeded, error.to_string()).retry_after(60)
            }
            WorkspaceError::Cas(CasError::Io { source, .. })
                if source.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
            {
                Self::new(Code::Conflict, "a link is in the way, and links are not followed")
            }
            WorkspaceError::Cas(CasError::Io { path, source }) => match source.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    Self::new(Code::Unavailable, "the disk is full: nothing was kept")
                }
                std::io::ErrorKind::AlreadyExists => {
                    Self::new(Code::Conflict, "something of that name is there already")
                }
                std::io::ErrorKind::InvalidInput => Self::new(Code::Conflict, "a folder cannot be moved into itself"),
                std::io::ErrorKind::IsADirectory | std::io::ErrorKind::NotADirectory => {
                    Self::new(Code::Conflict, "a file is where a folder is needed, or a folder where a file is")
                }
                _ => Self::internal(format!("{}: {source}", path.display())),
            },
        }
    }
}
