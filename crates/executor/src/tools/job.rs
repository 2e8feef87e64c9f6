//! What the process that serves the tools is told: a file in the run's home, which it reads once.

use std::path::PathBuf;

use kitbag_model::run::wire::ToolSnapshot;
use kitbag_model::{ChatId, OrgId, PythonNeeds};
use serde::{Deserialize, Serialize};

use super::contained::Containing;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Job {
    /// Whose run it is.
    pub organization: OrgId,
    /// The place in the sandbox that calls of this run share.
    pub room: ChatId,
    /// The folder that the agent works in.
    pub work: PathBuf,
    /// Where packages are kept.
    pub data: PathBuf,
    /// How long one call may take: no longer than the run.
    pub timeout_ms: u64,
    /// The built-in tools that are offered.
    pub builtins: Vec<String>,
    /// The toolset's code, if any of its tools is offered.
    pub code: Option<Code>,
    /// Its containers, if any of their tools is offered.
    #[serde(default)]
    pub containing: Option<Containing>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Code {
    /// Whose code it is.
    pub toolset: String,
    /// Where it was staged.
    pub folder: PathBuf,
    /// Changes with its files.
    pub generation: String,
    /// Which interpreter and packages it needs.
    pub needs: PythonNeeds,
    /// Whether it may reach the network.
    pub network: bool,
    /// Whether a person trusts it.
    pub trusted: bool,
    /// The tools that are offered.
    pub tools: Vec<ToolSnapshot>,
}
