//! One attempt at a run, from what the server says of it to how it ended.

use std::path::{Path, PathBuf};

use kitbag_model::run::wire::Assignment;
use kitbag_model::run::{Application, EngineId, Output, Profile, RunConfig, RunEventKind, RunOutcome, RunState};
use serde_json::Value;
use tokio::sync::watch;

use crate::Failure;
use crate::drive::{Ended, Used, drive};
use crate::engine::{Installed, Start, find, plan};
use crate::prepare::{Files, ReadyServers, RunFolder, Variables, stage};

/// What attempts need of the machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where the folders of runs are.
    pub root: PathBuf,
    /// Where agents are looked for.
    pub programs: Vec<PathBuf>,
    /// What toolsets may know of its environment.
    pub variables: Variables,
}

/// Does an attempt. Its folder is left for whoever collects the files; `tell` hears everything that happens.
pub async fn attempt(
    machine: &Machine,
    job: &Assignment,
    contents: &impl Files,
    cancel: watch::Receiver<bool>,
    mut tell: impl FnMut(RunEventKind),
) -> (RunOutcome, Option<RunFolder>) {
    let folder = match RunFolder::make(&machine.root, &job.organization_id, job.id) {
        Ok(folder) => folder,
        Err(failure) => return (failed(failure, Used::default()), None),
    };
    let outcome = match work(machine, job, &folder, contents, cancel, &mut tell).await {
        Ok(outcome) => outcome,
        Err(failure) => failed(failure, Used::default()),
    };
    match (&outcome.error, &outcome.output) {
        (Some(error), _) => tell(RunEventKind::Error { error: error.clone() }),
        (None, Some(output)) => tell(RunEventKind::Final { output: output.clone() }),
        (None, None) => {}
    }
    (outcome, Some(folder))
}

fn failed(failure: Failure, used: Used) -> RunOutcome {
    let usage = (used != Used::default()).then(|| used.to_json());
    RunOutcome { state: RunState::Failed, output: None, error: Some(failure.into()), usage }
}

async fn work(
    machine: &Machine,
    job: &Assignment,
    folder: &RunFolder,
    contents: &impl Files,
    cancel: watch::Receiver<bool>,
    tell: &mut impl FnMut(RunEventKind),
) -> Result<RunOutcome, Failure> {
    // The server checked it; a server that did not is not obeyed.
    let config = RunConfig::read(&job.config).map_err(|error| Failure::new("INVALID_AGENT_RUN_PAYLOAD", error))?;
    folder.fill(&job.files, contents).await?;
    let (skills, servers) = toolset(machine, job, folder, contents, &config, tell).await?;
    let installed = find(config.engine.id, &machine.programs).await?;
    let start = Start { config: &config, folder, servers: &servers, skills: &skills, installed: &installed };
    let (plan, listener) = plan(&start)?;
    let work = folder.work();
    let (ended, used) = drive(plan, &work, listener, &config.limits, &servers, cancel, tell).await;
    Ok(outcome(&config, ended, used))
}

/// The toolset's part, in its order: skills, values, names. Nothing of it where it does not apply.
async fn toolset(
    machine: &Machine,
    job: &Assignment,
    folder: &RunFolder,
    contents: &impl Files,
    config: &RunConfig,
    tell: &mut impl FnMut(RunEventKind),
) -> Result<(Vec<String>, ReadyServers), Failure> {
    let (profile, toolset) = match (&job.application, &job.toolset) {
        (Application::Toolset { profile, .. }, Some(toolset)) => (*profile, toolset),
        (Application::Toolset { toolset_id, .. }, None) => {
            return Err(Failure::new("TOOLSET_NOT_FOUND", format_args!("the toolset {toolset_id} did not come along")));
        }
        (Application::Nothing(reason), _) => {
            tell(RunEventKind::ToolsetNotApplied { reason: reason.to_string() });
            return Ok(Default::default());
        }
    };
    let skills = stage(&toolset.agent_skills, profile, &folder.work(), contents).await?;
    let servers = ReadyServers::new(&toolset.mcp_servers, &job.organization_id, &machine.variables)?;
    link(&folder.work(), profile, config.engine.id, !skills.is_empty())?;
    tell(RunEventKind::AgentToolsetApplied {
        toolset_id: toolset.id.clone(),
        toolset_name: toolset.name.clone(),
        engine_id: config.engine.id.to_string(),
        servers: servers.servers.iter().map(|server| server.name.clone()).collect(),
        skills: skills.clone(),
    });
    Ok((skills, servers))
}

/// None of the engines looks for skills where the gateway's profile puts them: a link leads there from where each does.
fn link(work: &Path, profile: Profile, engine: EngineId, any: bool) -> Result<(), Failure> {
    let read = if engine == EngineId::Codex { ".agents" } else { ".claude" };
    if !any || profile == Profile::Node {
        return Ok(());
    }
    let made = || {
        let folder = work.join(read);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        std::os::unix::fs::symlink(Path::new("..").join(profile.skills_folder()), folder.join("skills"))
    };
    made().map_err(|error| {
        Failure::new(
            "SKILL_STAGING_FAILED",
            format_args!("{read}/skills could not be made, where {engine} looks: {error}"),
        )
    })
}

fn outcome(config: &RunConfig, ended: Ended, used: Used) -> RunOutcome {
    let usage = Some(used.to_json());
    let without = |state: RunState, code: &str, message: String| RunOutcome {
        state,
        output: None,
        error: Some(Failure::new(code, message).into()),
        usage: usage.clone(),
    };
    match ended {
        Ended::Answer(answer) => match output(config, answer) {
            Ok(output) => RunOutcome { state: RunState::Succeeded, output: Some(output), error: None, usage },
            Err(failure) => failed(failure, used),
        },
        Ended::Failed(failure) => failed(failure, used),
        Ended::TimedOut => {
            let message = format!("it took longer than the {} ms of `limits.timeoutMs`", config.limits.timeout_ms);
            without(RunState::TimedOut, "NODE_EXECUTION_TIMEOUT", message)
        }
        Ended::Cancelled => without(RunState::Cancelled, "CANCELLED", "somebody ended it".to_owned()),
    }
}

/// The answer as it was asked for. An agent likes to put a fence around JSON.
fn output(config: &RunConfig, answer: String) -> Result<Value, Failure> {
    let Output::Json { .. } = &config.output else { return Ok(Value::String(answer)) };
    let inside =
        |open: &str| answer.split_once(open).and_then(|(_, rest)| rest.rsplit_once("```")).map(|(text, _)| text);
    let candidates = [Some(answer.as_str()), inside("```json"), inside("```")];
    let read = candidates.into_iter().flatten().find_map(|text| serde_json::from_str(text.trim()).ok());
    read.ok_or_else(|| Failure::new("INVALID_AGENT_OUTPUT", "JSON was asked for, and the answer is none"))
}

/// The engines that this machine can offer.
pub async fn engines(machine: &Machine) -> Vec<Installed> {
    crate::engine::find_all(&machine.programs).await
}
