//! One attempt at a run, from what the server says of it to how it ended.

use std::path::PathBuf;
use std::time::Duration;

use kitbag_model::run::wire::{Assignment, ToolsetSnapshot};
use kitbag_model::run::{Application, Profile, RunConfig, RunEventKind, RunOutcome, RunState};
use tokio::sync::watch;

use crate::Failure;
use crate::answer::Form;
use crate::drive::{Ended, Used, drive};
use crate::engine::{Installed, Start, find, keys, plan};
use crate::prepare::{Files, ReadyServers, RunFolder, Variables, stage, unstage};
use crate::tools::{self, Containers};

/// What attempts need of the machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where the folders of runs are.
    pub root: PathBuf,
    /// Where agents are looked for.
    pub programs: Vec<PathBuf>,
    /// What the machine's environment says: some of it toolsets may know, and agents what is about models.
    pub variables: Variables,
    /// A program that knows the commands `executor-tools` and `guard-keeper`: this one, usually. See [`crate::tools`].
    pub own: PathBuf,
    /// Where the tools keep what outlives a run, such as Python packages.
    pub data: PathBuf,
    /// What runs containers, if there is anything that does.
    pub containers: Option<Containers>,
}

impl Machine {
    /// With this very program for tools, and what they keep beside the runs.
    pub fn new(root: PathBuf, programs: Vec<PathBuf>, variables: Variables) -> Self {
        // No organisation's id begins with a dot.
        let data = root.join(".tools");
        let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
        Self { root, programs, variables, own, data, containers: None }
    }
}

/// Does an attempt. Its folder is left for whoever collects the files; `tell` hears everything that happens.
pub async fn attempt(
    machine: &Machine,
    job: &Assignment,
    contents: &impl Files,
    cancel: watch::Receiver<bool>,
    mut tell: impl FnMut(RunEventKind),
) -> (RunOutcome, Option<RunFolder>) {
    let (root, org, id) = (machine.root.clone(), job.organization_id.clone(), job.id);
    let making = tokio::task::spawn_blocking(move || RunFolder::make(&root, &org, id)).await;
    let made = making.unwrap_or_else(|_| Err(Failure::new("WORKSPACE_FAILED", "its folder could not be made")));
    let folder = match made {
        Ok(folder) => folder,
        Err(failure) => return (failed(failure, Used::default()), None),
    };
    let outcome = match work(machine, job, &folder, contents, cancel, &mut tell).await {
        Ok(outcome) => outcome,
        Err(failure) => failed(failure, Used::default()),
    };
    if let Some(containers) = machine.containers.as_ref().filter(|_| has_containers(job)) {
        containers.clear(job.id, &folder.home()).await;
    }
    match (&outcome.error, &outcome.output) {
        (Some(error), _) => tell(RunEventKind::Error { error: error.clone() }),
        (None, Some(output)) => tell(RunEventKind::Final { output: output.clone() }),
        (None, None) => {}
    }
    (outcome, Some(folder))
}

fn has_containers(job: &Assignment) -> bool {
    job.toolset.as_ref().is_some_and(|toolset| !toolset.containers.is_empty())
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
    let form = Form::new(&config.output).await?;
    folder.fill(&job.files, contents).await?;
    let applied = applied(job)?;
    let profile = applied.map_or(Profile::Gateway, |(profile, _)| profile);
    let (skills, mut servers) = match applied {
        Some((profile, toolset)) => {
            let skills = stage(&toolset.agent_skills, profile, &folder.work(), contents).await?;
            (skills, ReadyServers::new(&toolset.mcp_servers, &job.organization_id, &machine.variables)?)
        }
        None => Default::default(),
    };
    let own = tools::Own { machine, job, config: &config, folder };
    // An image may be fetched or built: that ends with the run, and takes no longer than it may.
    let (mut ended, longest) = (cancel.clone(), Duration::from_millis(config.limits.timeout_ms));
    let how = tokio::select! {
        biased;
        Ok(_) = ended.wait_for(|ended| *ended) => Err(Ended::Cancelled),
        how = own.prepare(applied.map(|(_, toolset)| toolset), contents, &mut servers) => Ok(how?),
        () = tokio::time::sleep(longest) => Err(Ended::TimedOut),
    };
    match how {
        Ok(Some(how)) => servers.add_own(how),
        Ok(None) => {}
        // What has no usage never began.
        Err(ended) => return Ok(RunOutcome { usage: None, ..outcome(&config, &form, ended, Used::default()).await }),
    }
    servers.hide(keys(&machine.variables));
    tell(what_applies(job, &config, &servers, &skills));
    let installed = find(config.engine.id, &machine.programs, &machine.variables).await?;
    let start = Start {
        config: &config,
        folder,
        files: &job.files,
        servers: &servers,
        skills: &skills,
        skills_folder: &folder.work().join(profile.skills_folder()),
        installed: &installed,
        variables: &machine.variables,
    };
    let (plan, listener) = plan(&start)?;
    let (ended, used) = drive(plan, &folder.work(), listener, &config.limits, &servers, cancel, tell).await;
    let (staged, work) = (skills.clone(), folder.work());
    let _ = tokio::task::spawn_blocking(move || unstage(&staged, profile, &work)).await;
    Ok(outcome(&config, &form, ended, used).await)
}

/// The toolset that applies, and how.
fn applied(job: &Assignment) -> Result<Option<(Profile, &ToolsetSnapshot)>, Failure> {
    match (&job.application, &job.toolset) {
        (Application::Toolset { profile, .. }, Some(toolset)) => Ok(Some((*profile, toolset))),
        (Application::Toolset { toolset_id, .. }, None) => {
            Err(Failure::new("TOOLSET_NOT_FOUND", format_args!("the toolset {toolset_id} did not come along")))
        }
        (Application::Nothing(_), _) => Ok(None),
    }
}

fn what_applies(job: &Assignment, config: &RunConfig, servers: &ReadyServers, skills: &[String]) -> RunEventKind {
    match (&job.application, &job.toolset) {
        (Application::Nothing(reason), _) => RunEventKind::ToolsetNotApplied { reason: reason.to_string() },
        (Application::Toolset { toolset_id, .. }, toolset) => RunEventKind::AgentToolsetApplied {
            toolset_id: toolset_id.to_string(),
            toolset_name: toolset.as_ref().map(|toolset| toolset.name.clone()).unwrap_or_default(),
            engine_id: config.engine.id.to_string(),
            servers: servers.servers.iter().map(|server| server.name.clone()).collect(),
            skills: skills.to_vec(),
        },
    }
}

async fn outcome(config: &RunConfig, form: &Form, ended: Ended, used: Used) -> RunOutcome {
    let usage = Some(used.to_json());
    let without = |state: RunState, code: &str, message: String| RunOutcome {
        state,
        output: None,
        error: Some(Failure::new(code, message).into()),
        usage: usage.clone(),
    };
    match ended {
        Ended::Answer(answer) => match form.read(answer).await {
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

/// The engines that this machine can offer.
pub async fn engines(machine: &Machine) -> Vec<Installed> {
    crate::engine::find_all(&machine.programs, &machine.variables).await
}
