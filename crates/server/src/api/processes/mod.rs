//! Processes that outlive the tool calls that started them.

pub(crate) mod list;
pub(crate) mod stop;

use kitbag_python::Process;
use serde::Serialize;
use utoipa::ToSchema;

/// What a call left running.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Process)]
pub(crate) struct ProcessView {
    /// The id of the call.
    id: String,
    toolset_id: String,
    /// Command lines of what runs.
    commands: Vec<String>,
    /// Ports that it listens on, in the chat's own network.
    ports: Vec<u16>,
    #[schema(format = DateTime)]
    started_at: String,
}

impl From<Process> for ProcessView {
    fn from(process: Process) -> Self {
        Self {
            id: process.id,
            toolset_id: process.toolset,
            commands: process.commands,
            ports: process.ports,
            started_at: process.started_at.to_string(),
        }
    }
}
