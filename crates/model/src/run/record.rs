//! A run as it is kept: exactly what was asked for, exactly what it ran with, and what became of it.

use serde_json::Value;

use super::apply::Application;
use super::config::{RunConfig, RunName, ToolsExecution};
use super::needs::Needs;
use super::renderings::RunRenderings;
use super::state::{RunError, RunState};
use super::trace::Trace;
use super::wire::ToolsetSnapshot;
use crate::id::{ChatId, ExecutorId, ManifestId, RunId, UserId};
use crate::time::Timestamp;

/// A run about to be kept.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// What people call it.
    pub name: Option<RunName>,
    /// What is asked for.
    pub config: RunConfig,
    /// Whether a toolset applies.
    pub application: Application,
    /// That toolset, as it is now.
    pub toolset: Option<ToolsetSnapshot>,
    /// How its tools' results are shown, as that is said now.
    pub renderings: RunRenderings,
    /// Whose workspace it works in.
    pub chat_id: ChatId,
    /// The state that it begins with; none: an empty folder.
    pub pre_manifest_id: Option<ManifestId>,
    /// Whether what it leaves becomes the chat's next state.
    pub apply: bool,
    /// Which run it does again.
    pub retry_of: Option<RunId>,
    /// Who asked, as records tell it.
    pub created_by: String,
    /// If its toolset is private: whose it is. Nobody else but those who manage sees the run.
    pub private_to: Option<UserId>,
    /// Of which trace it is.
    pub trace: Option<Trace>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// What people call it.
    pub name: Option<String>,
    /// What was asked for, as it was written.
    pub config: Value,
    /// Whether a toolset applies.
    pub application: Application,
    /// That toolset, as it was when the run was made.
    pub toolset: Option<ToolsetSnapshot>,
    /// Whose workspace it works in.
    pub chat_id: ChatId,
    /// The state that it began with.
    pub pre_manifest_id: Option<ManifestId>,
    /// The state that it left.
    pub post_manifest_id: Option<ManifestId>,
    /// Whether what it leaves becomes the chat's next state.
    pub apply: bool,
    /// Which run it does again.
    pub retry_of: Option<RunId>,
    /// Its state.
    pub state: RunState,
    /// How often it was given to an executor.
    pub attempt: u32,
    /// How often it may be.
    pub max_attempts: u32,
    /// Who has it, or had it last.
    pub executor_id: Option<ExecutorId>,
    /// Until when that executor has it, unless it is heard of.
    pub lease_until: Option<Timestamp>,
    /// Whether somebody wants it ended.
    pub cancel_requested: bool,
    /// The answer.
    pub output: Option<Value>,
    /// Why there is none.
    pub error: Option<RunError>,
    /// What it used.
    pub usage: Option<Value>,
    /// Who asked.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When an agent first began.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
    /// Whether a toolset of somebody's own is in it.
    pub private_to: Option<UserId>,
}

impl NewRun {
    /// What it needs of an executor.
    pub fn needs(&self) -> Needs {
        Needs::of(&self.config, needs_containers(self.toolset.as_ref(), &self.config))
    }
}

impl Run {
    /// Whether it needs an executor that runs containers: its toolset has some, and tools run there.
    pub fn needs_containers(&self, config: &RunConfig) -> bool {
        needs_containers(self.toolset.as_ref(), config)
    }

    /// What it needs of an executor.
    pub fn needs(&self, config: &RunConfig) -> Needs {
        Needs::of(config, self.needs_containers(config))
    }

    /// What was asked for. It was checked when it was kept.
    pub fn asked(&self) -> Option<RunConfig> {
        RunConfig::read(&self.config).ok()
    }
}

fn needs_containers(toolset: Option<&ToolsetSnapshot>, config: &RunConfig) -> bool {
    config.tools.execution != ToolsExecution::Cloud && toolset.is_some_and(|toolset| !toolset.containers.is_empty())
}
