//! Why something could not be done to a toolset.

use kitbag_formats::bundle::Refused;
use kitbag_model::launch::LaunchReason;
use kitbag_model::{LaunchError, ServerId, ServerKey, ToolsetId, Version};
use kitbag_store::{InstallError, StoreError};
use serde_json::json;

use super::draft::DraftProblem;
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
    /// The same, of somebody who would edit it.
    #[error("{0} was made for one MCP server: change it as a server (PUT …/mcp-servers/{0}~{0})")]
    EditServer(ToolsetId),
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
    /// What an organisation that shares Kitbag with others may not store. Where, but not what.
    #[error("{}", .0.iter().map(|(server, problem)| format!("{} of the server {server} {}", problem.field, problem.reason)).collect::<Vec<_>>().join("; "))]
    Literal(Vec<(ServerId, LaunchError)>),
    /// What somebody wrote is wrong: everything that is.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Draft(Vec<DraftProblem>),
    /// It is published, and stays what people were shown.
    #[error("Published toolsets must be unpublished before editing.")]
    Published,
    /// Not what somebody looked at before.
    #[error("the bundle is not the one that was looked at any more; look at it again")]
    Changed,
    /// Nobody was shown the image that this container would be.
    #[error("the image of the container {0} is not the one that was shown; look at it again")]
    OtherImage(String),
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
            ToolsetError::Literal(problems) => {
                let told: Vec<_> = problems
                    .iter()
                    .map(|(server, problem)| {
                        json!({ "server": server, "field": problem.field.to_string(), "message": problem.reason.to_string() })
                    })
                    .collect();
                Self::new(Code::InvalidMcpPlaceholder, message).with_details(json!({ "problems": told }))
            }
            ToolsetError::Draft(problems) => {
                let code = problems.first().map_or(Code::BadRequest, |problem| problem.code);
                let told: Vec<_> = problems.iter().map(DraftProblem::told).collect();
                Self::new(code, message).with_details(json!({ "problems": told }))
            }
            ToolsetError::Published => Self::new(Code::BadRequest, message),
            ToolsetError::IsServer(_)
            | ToolsetError::EditServer(_)
            | ToolsetError::Taken(_)
            | ToolsetError::OfBundle { .. }
            | ToolsetError::Another { .. }
            | ToolsetError::Conflict
            | ToolsetError::Changed => Self::new(Code::Conflict, message),
            ToolsetError::OtherImage(id) => Self::new(Code::Conflict, message).with_details(json!({ "container": id })),
            ToolsetError::Damaged { .. } => {
                tracing::error!(message, "a toolset is damaged");
                Self::new(Code::BlobCorrupt, message)
            }
            ToolsetError::Shelf(ShelfError::Disk { source, .. })
                if source.kind() == std::io::ErrorKind::StorageFull =>
            {
                Self::new(Code::Unavailable, "the disk is full: nothing was changed")
            }
            ToolsetError::Shelf(ShelfError::Bucket(_)) => {
                tracing::warn!(message, "the blob store does not answer");
                Self::new(Code::Unavailable, "the blob store does not answer; nothing was changed. Try again")
            }
            ToolsetError::Shelf(ShelfError::Gone(_)) => {
                tracing::error!(message, "a toolset is damaged");
                Self::new(Code::BlobCorrupt, message)
            }
            ToolsetError::Shelf(error) => Self::internal(error),
            ToolsetError::Transfer(error) => error.into(),
            ToolsetError::Store(error) => error.into(),
        }
    }
}

/// What kind of problem of a launch it is. A value where only a reference may be has a code of its own, as has a reference that is none.
pub(super) fn launch_code(reason: &LaunchReason) -> Code {
    if reason.is_of_placeholders() { Code::InvalidMcpPlaceholder } else { Code::BadRequest }
}

/// Everything that is wrong with how a server would be reached.
fn launch_error(message: String, problems: &[LaunchError]) -> ApiError {
    // Whoever wrote a secret must hear of that, whatever else is wrong.
    let is_placeholder = problems.iter().any(|problem| problem.reason.is_of_placeholders());
    let code = if is_placeholder { Code::InvalidMcpPlaceholder } else { Code::BadRequest };
    let told: Vec<_> = problems
        .iter()
        .map(|problem| json!({ "field": problem.field.to_string(), "message": problem.reason.to_string() }))
        .collect();
    ApiError::new(code, message).with_details(json!({ "problems": told }))
}
