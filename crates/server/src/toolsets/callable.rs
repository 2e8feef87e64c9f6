//! One tool, with everything that a call of it needs; or why it cannot be called.

use std::sync::Arc;

use kitbag_model::{Builtin, Entrypoint, Installed, OrgId, ToolId, ToolsetId};
use kitbag_python::{Description, Program};
use kitbag_store::StoreError;

use super::catalogue::{Tool, of_builtin, of_toolset};
use super::describe::DescribeError;
use super::{ToolsetError, Toolsets};
use crate::api::error::{ApiError, Code};

/// A tool that can be called.
pub(crate) struct Callable {
    pub(crate) tool: Tool,
    pub(crate) program: Program,
    pub(crate) entrypoint: Entrypoint,
    /// Which version of its code it is. A yes is for that one.
    pub(crate) generation: String,
}

/// What the database knows of a toolset, and its code has said.
pub(crate) struct Known {
    installed: Installed,
    description: Option<Description>,
}

/// Why a tool cannot be called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("there is no tool {0:?}")]
    NotFound(String),
    /// It, or its toolset, is off.
    #[error("{0} is off; turn it on to call it")]
    Off(String),
    /// Its code cannot be used.
    #[error("the tool {id} cannot be called: {problem}")]
    Problem {
        /// Which.
        id: ToolId,
        /// Why.
        problem: String,
    },
    /// There is no worker for it.
    #[error("the tool {id} cannot be called on this machine: {reason}")]
    Unavailable {
        /// Which.
        id: ToolId,
        /// Why.
        reason: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::NotFound(_) => Self::new(Code::ToolNotFound, message),
            Refusal::Off(_) | Refusal::Problem { .. } => Self::new(Code::Conflict, message),
            Refusal::Unavailable { .. } => Self::new(Code::Unavailable, message),
            Refusal::Store(error) => error.into(),
        }
    }
}

impl Toolsets {
    /// A tool, ready to be called. What its code says is found out if nobody knows it yet, however long that takes.
    pub(crate) async fn callable(&self, org: &OrgId, id: &ToolId) -> Result<Callable, Refusal> {
        let callable = match id {
            ToolId::Builtin(name) => {
                let builtin = Builtin::find(name).ok_or_else(|| Refusal::NotFound(id.to_string()))?;
                let read = async { Ok(Some(Arc::new(self.store.read(org).await?.builtin_overrides().await?))) };
                let overrides = self.recent_builtin.get(&self.store, org.clone(), read).await;
                let overrides = overrides.map_err(Refusal::Store)?.unwrap_or_default();
                let builtins = self.workers.builtin().await;
                let builtins =
                    builtins.map_err(|error| Refusal::Unavailable { id: id.clone(), reason: error.to_string() })?;
                let program = Program { org: org.clone(), ..builtins };
                let entry = program.entries.iter().find(|entry| entry.entrypoint.function() == builtin.id);
                let entrypoint = entry.ok_or_else(|| Refusal::NotFound(id.to_string()))?.entrypoint.clone();
                let tool = of_builtin(builtin, &overrides);
                Callable { tool, entrypoint, generation: program.generation.clone(), program }
            }
            ToolId::Toolset { toolset, tool } => self.of_toolset(org, id, toolset, tool.as_str()).await?,
            _ => return Err(Refusal::NotFound(id.to_string())),
        };
        if !callable.tool.toolset_enabled {
            return Err(Refusal::Off(format!("the toolset {}", callable.tool.toolset.0)));
        }
        if !callable.tool.effective.enabled.value {
            return Err(Refusal::Off(format!("the tool {id}")));
        }
        match callable.tool.problem {
            Some(problem) => Err(Refusal::Problem { id: id.clone(), problem }),
            None => Ok(callable),
        }
    }

    async fn of_toolset(&self, org: &OrgId, id: &ToolId, toolset: &ToolsetId, name: &str) -> Result<Callable, Refusal> {
        let not_found = || Refusal::NotFound(id.to_string());
        let read = self.read_known(org, toolset);
        let known = self.recent.get(&self.store, (org.clone(), toolset.clone()), read).await.map_err(Refusal::Store)?;
        let known = known.ok_or_else(not_found)?;
        let Known { installed: one, description: known } = &*known;
        let generation = one.toolset.generation.clone().unwrap_or_default();
        let tool = one.tools.iter().find(|tool| tool.id.as_str() == name).ok_or_else(not_found)?;
        // What is off is said to be off, whatever its code is worth.
        let unseen = of_toolset(one, tool, None);
        let is_on = unseen.toolset_enabled && unseen.effective.enabled.value;
        let shown = match (is_on, known) {
            (false, _) => unseen,
            (true, Some(known)) => of_toolset(one, tool, Some(known)),
            (true, None) => {
                let found = self.describe(org, one).await.map_err(|error| unknown(id, error))?;
                of_toolset(one, tool, Some(&found))
            }
        };
        Ok(Callable { entrypoint: tool.entrypoint.clone(), program: self.program(org, one), generation, tool: shown })
    }

    /// What the database knows of a toolset.
    async fn read_known(&self, org: &OrgId, toolset: &ToolsetId) -> Result<Option<Arc<Known>>, StoreError> {
        let mut tx = self.store.read(org).await?;
        let Some(installed) = tx.installed(toolset).await? else { return Ok(None) };
        let generation = installed.toolset.generation.as_deref().unwrap_or_default();
        let description = tx.tool_description(toolset, generation).await?;
        let description = description.and_then(|text| serde_json::from_str(&text).ok());
        Ok(Some(Arc::new(Known { installed, description })))
    }

    /// An installed toolset.
    pub(crate) async fn installed(&self, org: &OrgId, id: &ToolsetId) -> Result<Installed, ToolsetError> {
        let found = self.store.read(org).await?.installed(id).await?;
        found.ok_or_else(|| ToolsetError::NotFound(id.to_string()))
    }
}

fn unknown(id: &ToolId, error: DescribeError) -> Refusal {
    match error {
        DescribeError::Worker(error) => Refusal::Unavailable { id: id.clone(), reason: error.to_string() },
        DescribeError::Store(error) => Refusal::Store(error),
    }
}
