//! Kitbag's own tools on the executor: one more MCP server of the engine, next to the files they work on. It has the Python tools of the
//! toolset, those of its containers where this machine has an engine for them, and those built-in tools that `tools.allow` names. Whatever asks a person first is there only if `tools.allow` names it:
//! nobody is here to be asked.
//!
//! The engine starts it as `<Machine::own> executor-tools FILE`, which has to be nothing but `tools::serve(FILE).await`. The sandbox is
//! made by the same program as `<itself> guard-keeper …`, which is `kitbag_guard::keeper::main`. On its standard output are messages of
//! the protocol and nothing else, so whoever logs does it to standard error.

mod contained;
mod job;
mod offer;
mod serve;

use std::collections::BTreeMap;

use kitbag_model::ChatId;
use kitbag_model::run::wire::{Assignment, ToolsetSnapshot};
use kitbag_model::run::{RunConfig, ToolsExecution};

use crate::Failure;
use crate::attempt::Machine;
use crate::engine::{REACH, write_private};
use crate::prepare::{Files, How, ReadyServers, RunFolder, Whose, image, stage_program};
pub use contained::Containers;
use contained::{Contained, Containing};
use job::{Code, Job};
use offer::Allowed;
pub use offer::is_own;
pub use serve::{ServeError, serve};

/// The command that serves.
pub const COMMAND: &str = "executor-tools";

/// What decides about the tools of a run.
pub struct Own<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The attempt.
    pub job: &'a Assignment,
    /// What was asked for.
    pub config: &'a RunConfig,
    /// The run's folder.
    pub folder: &'a RunFolder,
}

impl Own<'_> {
    /// Stages what the tools need, and says how the engine reaches them; nothing if there are none.
    pub async fn prepare(
        &self,
        toolset: Option<&ToolsetSnapshot>,
        contents: &impl Files,
        servers: &mut ReadyServers,
    ) -> Result<Option<How>, Failure> {
        if self.config.tools.execution == ToolsExecution::Cloud {
            return Ok(None);
        }
        let allowed = Allowed::read(&self.config.tools.allow)?;
        let program = toolset.and_then(|toolset| Some((toolset, toolset.program.as_ref()?)));
        let code = match program {
            Some((toolset, program)) => {
                let tools = allowed.of_toolset(&program.tools);
                match tools.is_empty() {
                    true => None,
                    false => Some(Code {
                        toolset: toolset.id.clone(),
                        folder: stage_program(program, &self.folder.home(), contents).await?,
                        generation: program.generation.clone(),
                        needs: program.needs.clone(),
                        network: program.network,
                        trusted: program.trusted,
                        tools,
                    }),
                }
            }
            None => None,
        };
        let containing = self.containing(&allowed, toolset, contents, servers).await?;
        let of_code = code.iter().flat_map(|code| &code.tools).map(|tool| &tool.id);
        let of_containers = containing.iter().flat_map(|all| &all.containers).flat_map(|one| &one.tools);
        let theirs: Vec<_> = of_code.chain(of_containers.map(|tool| &tool.id)).collect();
        let builtins = allowed.of_kitbag(&theirs);
        if code.is_none() && containing.is_none() && builtins.is_empty() {
            return Ok(None);
        }
        let job = Job {
            organization: self.job.organization_id.clone(),
            // The sandbox has a room for each chat; a run has one to itself.
            room: ChatId::generate(),
            work: self.folder.work(),
            data: self.machine.data.clone(),
            timeout_ms: self.config.limits.timeout_ms,
            builtins,
            code,
            containing,
        };
        let file = self.folder.home().join("tools.json");
        let text = serde_json::to_string(&job).map_err(|error| Failure::new("TOOLSET_STAGING_FAILED", error))?;
        write_private(&file, &text)?;
        Ok(Some(How::Stdio {
            command: self.machine.own.to_string_lossy().into_owned(),
            args: vec![COMMAND.to_owned(), file.to_string_lossy().into_owned()],
            cwd: None,
            env: self.environment(),
        }))
    }

    /// The containers that are offered, with their images and the values of their variables.
    async fn containing(
        &self,
        allowed: &Allowed,
        toolset: Option<&ToolsetSnapshot>,
        contents: &impl Files,
        servers: &mut ReadyServers,
    ) -> Result<Option<Containing>, Failure> {
        let Some(toolset) = toolset.filter(|toolset| !toolset.containers.is_empty()) else { return Ok(None) };
        let Some(machine) = &self.machine.containers else {
            return Err(Failure::new(
                "CONTAINERS_UNAVAILABLE",
                "the toolset has containers, and this machine has no engine that runs them",
            ));
        };
        let (org, executor) = (&self.job.organization_id, machine.name());
        let whose = Whose { org, toolset: &toolset.id, executor };
        let mut ready = Vec::new();
        for container in &toolset.containers {
            let tools = allowed.of_container(&container.tools);
            if tools.is_empty() {
                continue;
            }
            ready.push(Contained {
                id: container.id.clone(),
                image: image(machine.engine(), whose, container, serve::MEMORY, contents).await?,
                speaks_mcp: container.speaks_mcp,
                command: container.command.clone(),
                env: servers.values_of(container, &self.job.organization_id, &self.machine.variables)?,
                network: container.network,
                limits: container.limits,
                tools,
            });
        }
        let places = self.folder.home().join("containers");
        Ok((!ready.is_empty()).then(|| machine.told(self.job.id, places, ready)))
    }

    /// The machine's own home and ways out, not the run's: packages that were fetched once are there.
    fn environment(&self) -> BTreeMap<String, String> {
        let known = ["PATH", "HOME"].iter().chain(&REACH);
        known.filter_map(|name| Some(((*name).to_owned(), self.machine.variables.of_this_machine(name)?))).collect()
    }
}
