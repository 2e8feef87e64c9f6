//! Why something could not be done to a toolset.

use kitbag_formats::bundle::Refused;
use kitbag_model::launch::LaunchReason;
use kitbag_model::{LaunchError, ServerKey, ToolsetId, Version};
use kitbag_store::{InstallError, StoreError};
use serde_json::json;

use super::shelf::ShelfError;
use crate::api::error::{ApiError, Code};
use crate::transfer::TransferError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolsetError {
    /// There is no such toolset.
    #[error("there is no toolset {0:?}")]
    NotFound(String),
    /// The bundle is wrong.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// An older version than the one that is installed.
    #[error("{id} {installed} is installed, and the bundle has the older version {offered}; force it to go back")]
    Downgrade {
        /// Which toolset.
        id: ToolsetId,
        /// What is there.
        installed: Version,
        /// What came.
        offered: Version,
    },
    /// The id belongs to a server that a person added.
    #[error("{0} is an MCP server that was added by itself; remove it first, or give the toolset another id")]
    IsServer(ToolsetId),
    /// There is no such server.
    #[error("there is no MCP server {0:?}")]
    NoServer(String),
    /// The id that a server was to have belongs to something else.
    #[error("{0} is taken; choose another id, or give only a name and one is made from it")]
    Taken(ToolsetId),
    /// Something that only the bundle can do to its server.
    #[error(
        "{server} cannot be {what} by itself: it belongs to the toolset {}. It can be turned off (enabled: false), or the toolset \
         uninstalled", server.toolset
    )]
    OfBundle {
        /// Which server.
        server: ServerKey,
        /// What was to be done to it.
        what: &'static str,
    },
    /// How a server would be reached is wrong. What is wrong is told, the values are not.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Launch(Vec<LaunchError>),
    /// A value that was to stay what it is, and is not there.
    #[error("{field}.{name}: there is no value that could stay; give one")]
    NoValue {
        /// Of what.
        field: &'static str,
        /// Whose value.
        name: String,
    },
    /// Another toolset than the one that was to be updated.
    #[error("where {wanted} came from is another toolset now: {found}; import it by its address if you want it")]
    Another {
        /// What was to be updated.
        wanted: ToolsetId,
        /// What came.
        found: ToolsetId,
    },
    /// A value where an organisation that shares the server must refer to a variable. Where, but not what.
    #[error("only whole references to variables, such as ${{ENV:NAME}}, are allowed in env and headers; change {}", .0.join(", "))]
    Literal(Vec<String>),
    /// Not what somebody looked at before.
    #[error("the bundle is not the one that was looked at any more; look at it again")]
    Changed,
    /// Somebody else changed it in the meantime.
    #[error("somebody else changed the toolset in the meantime; try again")]
    Conflict,
    /// A file of the toolset is not what was installed.
    #[error("the file {path} of the toolset is missing or was changed on the disk; import the toolset again")]
    Damaged {
        /// Which.
        path: String,
    },
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<InstallError> for ToolsetError {
    fn from(error: InstallError) -> Self {
        match error {
            InstallError::Conflict => Self::Conflict,
            InstallError::Store(error) => Self::Store(error),
        }
    }
}

impl From<ToolsetError> for ApiError {
    fn from(error: ToolsetError) -> Self {
        let message = error.to_string();
        match error {
            ToolsetError::NotFound(_) => Self::new(Code::ToolsetNotFound, message),
            ToolsetError::Refused(refused) => {
                let code = refused.problems.first().map_or(Code::InvalidBundle, |problem| problem.code.into());
                let details = json!({ "problems": refused.problems, "warnings": refused.warnings });
                Self::new(code, message).with_details(details)
            }
            ToolsetError::Downgrade { installed, offered, .. } => Self::new(Code::Conflict, message)
                .with_details(json!({ "installed": installed.to_string(), "offered": offered.to_string() })),
            ToolsetError::NoServer(_) => Self::new(Code::NotFound, message),
            ToolsetError::Launch(problems) => launch_error(message, &problems),
            ToolsetError::NoValue { .. } => Self::new(Code::BadRequest, message),
            ToolsetError::Literal(_) => Self::new(Code::InvalidMcpPlaceholder, message),
            ToolsetError::IsServer(_)
            | ToolsetError::Taken(_)
            | ToolsetError::OfBundle { .. }
            | ToolsetError::Another { .. }
            | ToolsetError::Conflict
            | ToolsetError::Changed => Self::new(Code::Conflict, message),
            ToolsetError::Damaged { .. } => {
                tracing::error!(message, "a toolset is damaged");
                Self::new(Code::BlobCorrupt, message)
            }
            ToolsetError::Shelf(error) if error.source.kind() == std::io::ErrorKind::StorageFull => {
                Self::new(Code::Unavailable, "the disk is full: nothing was changed")
            }
            ToolsetError::Shelf(error) => Self::internal(error),
            ToolsetError::Transfer(error) => error.into(),
            ToolsetError::Store(error) => error.into(),
        }
    }
}

/// Everything that is wrong with how a server would be reached. A reference that is none has a code of its own.
fn launch_error(message: String, problems: &[LaunchError]) -> ApiError {
    let is_placeholder =
        |problem: &LaunchError| matches!(problem.reason, LaunchReason::Placeholder(_) | LaunchReason::NoPlaceholders);
    let code = if problems.iter().all(is_placeholder) { Code::InvalidMcpPlaceholder } else { Code::BadRequest };
    let told: Vec<_> = problems
        .iter()
        .map(|problem| json!({ "field": problem.field.to_string(), "message": problem.reason.to_string() }))
        .collect();
    ApiError::new(code, message).with_details(json!({ "problems": told }))
}
