//! One tool, with everything that a call of it needs; or why it cannot be called.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kitbag_model::{
    Audience, Builtin, Entrypoint, Installed, LocalToolId, McpToolName, OrgId, Pin, PinState, ServerId, ServerKey,
    ToolId, ToolsetId,
};
use kitbag_python::{Description, Program};
use kitbag_runner::Ready;
use kitbag_store::StoreError;

use super::catalogue::{Tool, of_builtin, of_toolset};
use super::describe::DescribeError;
use super::provided::{self, Provided};
use super::{ToolsetError, Toolsets};
use crate::api::error::{ApiError, Code};
use crate::containers::Contained;

/// A tool that can be called.
pub(crate) struct Callable {
    pub(crate) tool: Tool,
    pub(crate) runs: Runs,
    /// Which version of its code it is. A yes is for that one.
    pub(crate) generation: String,
    /// Whether somebody wants each of its calls recorded before it runs.
    pub(crate) strict_records: bool,
    /// Its schemas, once somebody has made them ready.
    pub(crate) input: OnceLock<Ready>,
    pub(crate) output: OnceLock<Ready>,
}

impl Callable {
    pub(super) fn new(tool: Tool, runs: Runs, generation: String, strict_records: bool) -> Self {
        Self { tool, runs, generation, strict_records, input: OnceLock::new(), output: OnceLock::new() }
    }

    /// The toolset that it is from.
    pub(crate) fn toolset(&self) -> &str {
        &self.tool.toolset.0
    }
}

/// Where a tool runs.
pub(crate) enum Runs {
    /// In a worker.
    Python {
        /// The code.
        program: Program,
        /// The function.
        entrypoint: Entrypoint,
    },
    /// On an MCP server.
    Mcp {
        /// Which.
        server: ServerKey,
        /// The server's own name for it.
        tool: McpToolName,
    },
    /// In a container.
    Container(Box<Contained>),
}

/// What the database knows of a toolset, and its code and its servers have said.
pub(crate) struct Known {
    installed: Installed,
    description: Option<Description>,
    pins: Vec<Pin>,
    /// What was made of it for calls of servers' tools.
    made: Mutex<HashMap<ToolId, Arc<Callable>>>,
}

impl Known {
    fn made(&self, id: &ToolId) -> Option<Arc<Callable>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
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
    /// Its server may not start.
    #[error("{0}")]
    NeedsTrust(String),
    /// It is not what was accepted.
    #[error("{0}")]
    Quarantined(String),
    /// Its server is not there.
    #[error("{0}")]
    NotConnected(String),
    /// Several servers have the id.
    #[error("several MCP servers are called {server:?}; say which: {}", keys.join(", "))]
    Ambiguous {
        /// Which id.
        server: String,
        /// Their keys.
        keys: Vec<String>,
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
            Refusal::NeedsTrust(_) => Self::new(Code::NeedsTrust, message),
            Refusal::Quarantined(_) => Self::new(Code::Quarantined, message),
            Refusal::NotConnected(_) => Self::new(Code::McpServerNotConnected, message),
            Refusal::Ambiguous { keys, .. } => {
                Self::new(Code::AmbiguousServerId, message).with_details(serde_json::json!({ "serverKeys": keys }))
            }
            Refusal::Unavailable { .. } => Self::new(Code::Unavailable, message),
            Refusal::Store(error) => error.into(),
        }
    }
}

impl Toolsets {
    /// A tool, ready to be called. What its code says is found out if nobody knows it yet, however long that takes.
    /// What its audience does not see is not there.
    pub(crate) async fn callable(
        &self,
        org: &OrgId,
        audience: Audience,
        id: &ToolId,
    ) -> Result<Arc<Callable>, Refusal> {
        let callable = match id {
            // Boxed, but for what is called most: else every call has room for all of them.
            ToolId::Builtin(name) => Arc::new(Box::pin(self.of_ours(org, id, name)).await?),
            ToolId::Toolset { toolset, tool } => {
                Arc::new(Box::pin(self.of_toolset(org, audience, id, toolset, tool.as_str())).await?)
            }
            ToolId::Mcp { server, tool } => self.of_server(org, audience, id, server, tool).await?,
            ToolId::LegacyMcp { .. } => {
                let id = self.canonical(org, audience, id.clone()).await?;
                return Box::pin(self.callable(org, audience, &id)).await;
            }
        };
        if !callable.tool.toolset_enabled {
            return Err(Refusal::Off(format!("the toolset {}", callable.tool.toolset.0)));
        }
        if !callable.tool.effective.enabled.value {
            return Err(Refusal::Off(format!("the tool {id}")));
        }
        match &callable.tool.problem {
            Some(problem) => Err(Refusal::Problem { id: id.clone(), problem: problem.clone() }),
            None => Ok(callable),
        }
    }

    async fn of_ours(&self, org: &OrgId, id: &ToolId, name: &LocalToolId) -> Result<Callable, Refusal> {
        let builtin = Builtin::find(name).ok_or_else(|| Refusal::NotFound(id.to_string()))?;
        let read = async || Ok(Some(Arc::new(self.store.read_beside(org).await?.builtin_overrides().await?)));
        let overrides = self.recent_builtin.get(self.store.edition(), org.clone(), read).await;
        let overrides = overrides.map_err(Refusal::Store)?.unwrap_or_default();
        let builtins = self.workers.builtin().await;
        let builtins = builtins.map_err(|error| Refusal::Unavailable { id: id.clone(), reason: error.to_string() })?;
        let program = Program { org: org.clone(), ..builtins };
        let entry = program.entries.iter().find(|entry| entry.entrypoint.function() == builtin.id);
        let entrypoint = entry.ok_or_else(|| Refusal::NotFound(id.to_string()))?.entrypoint.clone();
        let tool = of_builtin(builtin, &overrides);
        let generation = program.generation.clone();
        Ok(Callable::new(tool, Runs::Python { program, entrypoint }, generation, false))
    }

    async fn of_toolset(
        &self,
        org: &OrgId,
        audience: Audience,
        id: &ToolId,
        toolset: &ToolsetId,
        name: &str,
    ) -> Result<Callable, Refusal> {
        let not_found = || Refusal::NotFound(id.to_string());
        let known = self.remembered(org, audience, toolset).await?.ok_or_else(not_found)?;
        let Known { installed: one, description: known, .. } = &*known;
        let generation = one.toolset.generation.clone().unwrap_or_default();
        let Some(tool) = one.tools.iter().find(|tool| tool.id.as_str() == name) else {
            return self.of_container(org, id, one, name).await;
        };
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
        self.lay_out(org, Some(&generation)).await.map_err(|error| unknown(id, error.into()))?;
        let runs = Runs::Python { program: self.program(org, one), entrypoint: tool.entrypoint.clone() };
        Ok(Callable::new(shown, runs, generation, false))
    }

    async fn of_server(
        &self,
        org: &OrgId,
        audience: Audience,
        id: &ToolId,
        key: &ServerKey,
        name: &McpToolName,
    ) -> Result<Arc<Callable>, Refusal> {
        let not_found = || Refusal::NotFound(id.to_string());
        let known = self.remembered(org, audience, &key.toolset).await?.ok_or_else(not_found)?;
        let Some(made) = known.made(id) else { return Box::pin(self.make(org, audience, id, key, name, known)).await };
        self.servers.start_one(org, key).await?;
        match self.servers.trouble(org, key).filter(|_| !self.servers.is_hopeful(org, key)) {
            Some(trouble) => Err(Refusal::NotConnected(trouble)),
            None => Ok(made),
        }
    }

    /// Makes what a call of a server's tool needs.
    async fn make(
        &self,
        org: &OrgId,
        audience: Audience,
        id: &ToolId,
        key: &ServerKey,
        name: &McpToolName,
        mut known: Arc<Known>,
    ) -> Result<Arc<Callable>, Refusal> {
        let not_found = || Refusal::NotFound(id.to_string());
        let is_known = |known: &Known| known.pins.iter().any(|pin| pin.listed && pin.server == *key);
        let server = known.installed.server(key.server.as_str()).ok_or_else(not_found)?;
        let is_on = known.installed.toolset.enabled && server.is_enabled();
        if !is_on {
            return Err(Refusal::Off(format!("the MCP server {key}")));
        }
        if !server.is_trusted() {
            let line = server.server.launch.command_line();
            return Err(Refusal::NeedsTrust(format!("{key} must be trusted first: it would start {line}")));
        }
        self.servers.start_one(org, key).await?;
        if !is_known(&known) {
            // Nobody has seen its tools yet: now somebody has to.
            self.servers.learn(org, key).await.map_err(|error| Refusal::NotConnected(format!("{key}: {error}")))?;
            known = self.remembered(org, audience, &key.toolset).await?.ok_or_else(not_found)?;
        }
        let Known { installed, pins, made, .. } = &*known;
        let server = installed.server(key.server.as_str()).ok_or_else(not_found)?;
        let pin =
            pins.iter().find(|pin| pin.listed && pin.server == *key && pin.tool == *name).ok_or_else(not_found)?;
        let mut tool = provided::tool(installed, server, pin, None);
        if pin.state == PinState::Quarantined {
            return Err(Refusal::Quarantined(tool.problem.take().unwrap_or_default()));
        }
        let provided = Provided { servers: &self.servers, org, pins };
        // One that ended is started for the call, and variables are looked at again; what comes of it is the call's own end.
        if let Some(problem) = provided.problem(installed, server, key)
            && !self.servers.is_hopeful(org, key)
        {
            return Err(Refusal::NotConnected(problem));
        }
        let runs = Runs::Mcp { server: key.clone(), tool: name.clone() };
        let callable = Callable::new(tool, runs, pin.seen.sha256.to_string(), server.strict_records);
        let callable = Arc::new(callable);
        made.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), Arc::clone(&callable));
        Ok(callable)
    }

    /// A tool's id as it is written from now on: the old form of an MCP tool's becomes the new one, if one server alone is meant.
    pub(crate) async fn canonical(&self, org: &OrgId, audience: Audience, id: ToolId) -> Result<ToolId, Refusal> {
        match &id {
            ToolId::LegacyMcp { server, tool } => Box::pin(self.meant(org, audience, &id, server, tool)).await,
            _ => Ok(id),
        }
    }

    /// The tool that the old form of an id means.
    async fn meant(
        &self,
        org: &OrgId,
        audience: Audience,
        id: &ToolId,
        server: &ServerId,
        tool: &McpToolName,
    ) -> Result<ToolId, Refusal> {
        let all = self.store.read_beside(org).await?.all_installed().await?;
        let seen = all.iter().filter(|one| audience.sees(&one.toolset));
        let servers = seen.flat_map(|one| one.servers.iter().map(|found| one.server_key(&found.server)));
        let mut keys: Vec<ServerKey> = servers.filter(|key| key.server == *server).collect();
        match (keys.pop(), keys.is_empty()) {
            (Some(key), true) => Ok(ToolId::Mcp { server: key, tool: tool.clone() }),
            (Some(key), false) => {
                let keys = keys.iter().chain([&key]).map(ToString::to_string).collect();
                Err(Refusal::Ambiguous { server: server.to_string(), keys })
            }
            (None, _) => Err(Refusal::NotFound(id.to_string())),
        }
    }

    /// What is remembered is the same for everybody; whether there is such a toolset is not.
    async fn remembered(
        &self,
        org: &OrgId,
        audience: Audience,
        toolset: &ToolsetId,
    ) -> Result<Option<Arc<Known>>, Refusal> {
        let read = || self.read_known(org, toolset);
        let known = self.recent.get(self.store.edition(), (org.clone(), toolset.clone()), read).await;
        Ok(known.map_err(Refusal::Store)?.filter(|known| audience.sees(&known.installed.toolset)))
    }

    /// What the database knows of a toolset.
    async fn read_known(&self, org: &OrgId, toolset: &ToolsetId) -> Result<Option<Arc<Known>>, StoreError> {
        let mut tx = self.store.read_beside(org).await?;
        let Some(installed) = tx.installed(toolset).await? else { return Ok(None) };
        let generation = installed.toolset.generation.as_deref().unwrap_or_default();
        let description = tx.tool_description(toolset, generation).await?;
        let description = description.and_then(|text| serde_json::from_str(&text).ok());
        let mut pins = Vec::new();
        for server in &installed.servers {
            pins.extend(tx.pins(&installed.server_key(&server.server)).await?);
        }
        Ok(Some(Arc::new(Known { installed, description, pins, made: Mutex::default() })))
    }

    /// An installed toolset, for who sees it. What an audience does not see is not there.
    pub(crate) async fn seen(
        &self,
        org: &OrgId,
        audience: Audience,
        id: &ToolsetId,
    ) -> Result<Installed, ToolsetError> {
        let one = self.installed(org, id).await?;
        if audience.sees(&one.toolset) { Ok(one) } else { Err(ToolsetError::NotFound(id.to_string())) }
    }

    /// An installed toolset.
    pub(crate) async fn installed(&self, org: &OrgId, id: &ToolsetId) -> Result<Installed, ToolsetError> {
        let found = self.store.read_beside(org).await?.installed(id).await?;
        found.ok_or_else(|| ToolsetError::NotFound(id.to_string()))
    }
}

fn unknown(id: &ToolId, error: DescribeError) -> Refusal {
    match error {
        DescribeError::Worker(error) => Refusal::Unavailable { id: id.clone(), reason: error.to_string() },
        DescribeError::Files(error) => Refusal::Unavailable { id: id.clone(), reason: error.to_string() },
        DescribeError::Store(error) => Refusal::Store(error),
    }
}
