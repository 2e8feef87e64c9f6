//! Executors as they are told.

use kitbag_model::run::Executor;
use serde::Serialize;
use utoipa::ToSchema;

/// An executor.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Executor)]
pub(crate) struct ExecutorView {
    id: String,
    name: String,
    version: String,
    /// `byon` (the organisation's own) or `managed` (the operator's, for every organisation).
    pool: String,
    /// What selectors find it by. A group is the label `group:<name>`.
    labels: Vec<String>,
    /// The agents that it found on its machine.
    engines: Vec<EngineView>,
    /// How many runs it does at once.
    capacity: u32,
    /// Whether there is an engine on its machine that runs containers.
    containers: bool,
    /// How many runs of this organisation it has now.
    in_flight: usize,
    connected: bool,
    created_at: String,
    #[schema(required)]
    last_seen_at: Option<String>,
}

/// An agent on an executor's machine.
#[derive(Serialize, ToSchema)]
#[schema(as = ExecutorEngine)]
pub(crate) struct EngineView {
    id: String,
    version: String,
}

impl ExecutorView {
    pub(crate) fn new(executor: Executor, connected: bool, in_flight: usize) -> Self {
        let engine = |found: kitbag_model::run::wire::FoundEngine| EngineView {
            id: found.id.to_string(),
            version: found.version,
        };
        Self {
            id: executor.id.to_string(),
            name: executor.name,
            version: executor.version,
            pool: executor.pool.to_string(),
            labels: executor.labels,
            engines: executor.engines.into_iter().map(engine).collect(),
            capacity: executor.capacity,
            containers: executor.containers,
            in_flight,
            connected,
            created_at: executor.created_at.to_string(),
            last_seen_at: executor.last_seen_at.map(|at| at.to_string()),
        }
    }
}
