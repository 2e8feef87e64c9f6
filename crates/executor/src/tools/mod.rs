//! Kitbag's own tools on the executor: one more MCP server of the engine, next to the files they work on. It has the Python tools of the
//! toolset, and those built-in tools that `tools.allow` names. Whatever asks a person first is there only if `tools.allow` names it:
//! nobody is here to be asked.
//!
//! The engine starts it as `<Machine::own> executor-tools FILE`, which has to be nothing but `tools::serve(FILE).await`. The sandbox is
//! made by the same program as `<itself> guard-keeper …`, which is `kitbag_guard::keeper::main`. On its standard output are messages of
//! the protocol and nothing else, so whoever logs does it to standard error.

mod job;
mod offer;
mod serve;

use std::collections::BTreeMap;

use kitbag_model::run::wire::ToolsetSnapshot;
use kitbag_model::run::{RunConfig, ToolsExecution};
use kitbag_model::{ChatId, OrgId};

use crate::Failure;
use crate::attempt::Machine;
use crate::engine::{REACH, write_private};
use crate::prepare::{Files, How, RunFolder, stage_program};
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
    /// Whose run it is.
    pub organization: &'a OrgId,
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
        let theirs = code.as_ref().map(|code| code.tools.as_slice()).unwrap_or_default();
        let builtins = allowed.of_kitbag(theirs);
        if code.is_none() && builtins.is_empty() {
            return Ok(None);
        }
        let job = Job {
            organization: self.organization.clone(),
            // The sandbox has a room for each chat; a run has one to itself.
            room: ChatId::generate(),
            work: self.folder.work(),
            data: self.machine.data.clone(),
            timeout_ms: self.config.limits.timeout_ms,
            builtins,
            code,
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

    /// The machine's own home and ways out, not the run's: packages that were fetched once are there.
    fn environment(&self) -> BTreeMap<String, String> {
        let known = ["PATH", "HOME"].iter().chain(&REACH);
        known.filter_map(|name| Some(((*name).to_owned(), self.machine.variables.of_this_machine(name)?))).collect()
    }
}
