//! What a server and an executor say to each other, as JSON messages over one WebSocket that the executor opened.
//!
//! Everything that an executor produces is numbered, kept on its disk and sent until it is acknowledged, so a connection may break
//! at any moment and a message may come twice. What the server says may be lost: after each greeting it says again what it wants.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::apply::Application;
use super::config::EngineId;
use super::event::RunEvent;
use super::state::RunOutcome;
use super::trace::Trace;
use crate::container::{ContainerLimits, ImageSource};
use crate::hash::ContentHash;
use crate::id::{ExecutorId, OrgId, RunId};
use crate::name::{LocalToolId, ServerId};
use crate::path::WorkPath;
use crate::python::{Entrypoint, PythonNeeds};

/// The version of these messages.
pub const PROTOCOL: u32 = 1;

/// One attempt at a run: the key under which a result counts once.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptId {
    /// The run.
    pub run_id: RunId,
    /// Which attempt, from 1.
    pub attempt: u32,
}

impl std::fmt::Display for AttemptId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.run_id, self.attempt)
    }
}

/// An agent that an executor found on its machine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundEngine {
    /// Which one.
    pub id: EngineId,
    /// Its version, as it says it.
    pub version: String,
}

/// What an executor says.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum FromExecutor {
    /// First: what it is and what it still has. Labels are not among it.
    Hello {
        /// See [`PROTOCOL`].
        protocol: u32,
        /// The executor's version.
        version: String,
        /// What it can run.
        engines: Vec<FoundEngine>,
        /// How many runs at once.
        capacity: u32,
        /// Whether there is an engine on its machine that runs containers.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        containers: bool,
        /// The attempts that it works at, or whose results were never acknowledged.
        holding: Vec<AttemptId>,
    },
    /// It is alive, and has these attempts. An attempt that is named keeps its lease.
    Heartbeat {
        /// The attempts that it works at.
        holding: Vec<AttemptId>,
    },
    /// Work on an attempt has begun.
    Started {
        /// Which.
        id: AttemptId,
    },
    /// It cannot take this attempt: somebody else may.
    Refused {
        /// Which.
        id: AttemptId,
        /// Why.
        reason: String,
    },
    /// What happened, in order.
    Events {
        /// In which attempt.
        id: AttemptId,
        /// What.
        events: Vec<RunEvent>,
    },
    /// An attempt is over.
    Result {
        /// Which.
        id: AttemptId,
        /// How.
        outcome: RunOutcome,
        /// The files of its folder, if they are to be kept. Their content was sent before.
        files: Option<BTreeMap<WorkPath, FileRef>>,
    },
}

/// What a server says.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum FromServer {
    /// Who the executor is here, and how often it must say that it is alive.
    Welcome {
        /// Its id.
        executor_id: ExecutorId,
        /// How often, in seconds.
        heartbeat_seconds: u32,
        /// When an attempt that nobody speaks of is given to somebody else, in seconds.
        lease_seconds: u32,
    },
    /// An attempt to work at.
    Run(Box<Assignment>),
    /// Somebody ended it.
    Cancel {
        /// Which.
        id: AttemptId,
    },
    /// The attempt is not this executor's any more: stop, and send nothing of it.
    Drop {
        /// Which.
        id: AttemptId,
        /// Why.
        reason: String,
    },
    /// Everything up to here was written down.
    Ack {
        /// Of which attempt.
        id: AttemptId,
        /// The last event.
        seq: u64,
        /// Whether the result was, too.
        result: bool,
    },
    /// Go away and do not come back: the executor was taken out.
    Revoked,
}

/// Everything that an executor needs to know of an attempt.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Which attempt.
    pub id: AttemptId,
    /// Of which organisation.
    pub organization_id: OrgId,
    /// The configuration, as it was given. It was checked; whoever takes it checks again.
    pub config: Value,
    /// Whether a toolset applies.
    pub application: Application,
    /// That toolset, as it was when the run was made.
    pub toolset: Option<ToolsetSnapshot>,
    /// The files that the folder begins with.
    pub files: BTreeMap<WorkPath, FileRef>,
    /// Whether the files are wanted afterwards.
    pub keep_files: bool,
    /// The last number that was acknowledged of an earlier connection of this attempt.
    pub acknowledged: u64,
    /// Of which trace it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// A toolset as it was when a run was made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolsetSnapshot {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its servers, with placeholders where values will be.
    pub mcp_servers: Vec<ServerSnapshot>,
    /// Its skills.
    pub agent_skills: Vec<SkillSnapshot>,
    /// Its tools that Kitbag itself runs, if it has any that are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramSnapshot>,
    /// Its containers that have a tool that is on. Only an executor with an engine for them is given such a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerSnapshot>,
}

impl ToolsetSnapshot {
    /// All files that it is made of.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        let skills = self.agent_skills.iter().flat_map(|skill| skill.files.values());
        let program = self.program.iter().flat_map(|program| program.files.values());
        skills.chain(program).chain(self.containers.iter().flat_map(|container| container.files.values()))
    }
}

/// The code of such a toolset, for the executor's own MCP server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramSnapshot {
    /// Changes with its files.
    pub generation: String,
    /// All of them.
    pub files: BTreeMap<WorkPath, FileRef>,
    /// The tools that are on.
    pub tools: Vec<ToolSnapshot>,
    /// Which interpreter and packages they need.
    pub needs: PythonNeeds,
    /// Whether they may reach the network: the toolset asks for it, and is trusted.
    pub network: bool,
    /// Whether a person trusts it, so that packages may be built from source for it.
    pub trusted: bool,
}

/// One tool of such code, as a model sees it: overrides are in it already.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSnapshot {
    /// Its id inside the toolset.
    pub id: LocalToolId,
    /// Which function it is.
    pub entrypoint: Entrypoint,
    /// What people call it.
    pub title: String,
    /// What a model reads about it.
    pub description: String,
    /// The arguments it takes.
    pub input_schema: Map<String, Value>,
    /// What it returns, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    /// Whether a person must say yes. On an executor there is nobody to ask.
    pub requires_confirmation: bool,
}

/// A container of such a toolset, which a person trusts.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSnapshot {
    /// Its id inside the toolset.
    pub id: ServerId,
    /// Where its image comes from.
    pub source: ImageSource,
    /// The image that it must be; none: its name says so itself, or it is built from files that are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What trust in it is bound to.
    pub fingerprint: ContentHash,
    /// Whether its tools are called in MCP, in a container that stays.
    #[serde(default)]
    pub speaks_mcp: bool,
    /// What is started; empty: what the image says.
    #[serde(default)]
    pub command: Vec<String>,
    /// Its variables, with placeholders where values will be.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether it reaches the network.
    #[serde(default)]
    pub network: bool,
    /// What it may use.
    #[serde(default)]
    pub limits: ContainerLimits,
    /// The files of the folder that its image is built from, below it.
    #[serde(default)]
    pub files: BTreeMap<WorkPath, FileRef>,
    /// Its tools that are on.
    pub tools: Vec<ContainedTool>,
}

/// One tool of a container, as a model sees it: overrides are in it already.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainedTool {
    /// Its id inside the toolset.
    pub id: LocalToolId,
    /// What its image calls it, where it speaks MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_name: Option<String>,
    /// What is started, in place of the container's own command.
    #[serde(default)]
    pub command: Vec<String>,
    /// What people call it.
    pub title: String,
    /// What a model reads about it.
    pub description: String,
    /// The arguments it takes.
    pub input_schema: Map<String, Value>,
    /// What it returns, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    /// Whether a person must say yes. On an executor there is nobody to ask.
    pub requires_confirmation: bool,
}

/// An MCP server of such a toolset, as somebody would write it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerSnapshot {
    /// Its id, which becomes part of its tools' names.
    pub id: String,
    /// `stdio`, `sse` or `streamable-http`.
    pub server_type: String,
    /// Whether it is used.
    pub enabled: bool,
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The folder it is started in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What every request carries.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A skill of such a toolset.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillSnapshot {
    /// Its id, the name of its folder.
    pub id: String,
    /// Whether it is used.
    pub enabled: bool,
    /// Its files, below its folder.
    pub files: BTreeMap<WorkPath, FileRef>,
}

/// A file by its content, which is asked for by its hash.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileRef {
    /// The hash of its content.
    pub sha256: ContentHash,
    /// How many bytes it has.
    pub size: u64,
    /// Whether it may be executed.
    #[serde(default)]
    pub executable: bool,
}
