//! `kitbag executor start`: everything that has to be there before the first connection, and who may stop it.

use std::path::PathBuf;
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_model::run::EngineId;
use kitbag_model::run::wire::FoundEngine;
use kitbag_trace::Exporter;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::cli::StartFlags;
use super::pair::route;
use super::{ProgramError, logging};
use crate::attempt::Machine;
use crate::credentials::Credentials;
use crate::daemon::{self, CollectLimits, End, Setup, Stop};
use crate::engine::find;
use crate::link::{Link, Patience};
use crate::place::Place;
use crate::prepare::Variables;
use crate::tools::Containers;
use crate::voice::Voice;
use crate::{Failure, Spool};

/// How long a collector may take for the last spans.
const TRACES_PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(place: &Place, flags: StartFlags, voice: Voice) -> Result<(), ProgramError> {
    logging::start(flags.log.as_deref().unwrap_or("info"), flags.log_format.as_deref())?;
    let path = place.credentials();
    let credentials = Credentials::read(&path).map_err(ProgramError::at(&path))?.ok_or(ProgramError::NotPaired)?;
    let lock = place.lock().await.map_err(ProgramError::at(place.folder()))?;
    let _lock = lock.ok_or_else(|| ProgramError::Running(place.folder().to_owned()))?;
    // Before anything else: a signal that comes while engines are looked for is one, too.
    let stop = signals().map_err(ProgramError::at(place.folder()))?;
    let containers = containers(&flags, &credentials, voice).await;
    tidied(place, flags.keep_folders, voice).await;
    let traces = traces(&flags).await?;
    let (programs, variables) = (programs(), Variables::of_this_process(flags.allow_env));
    let mut engines = Vec::new();
    for (engine, found) in look(&programs, &variables).await {
        voice.tell(&line(engine, &found), || match &found {
            Ok(version) => format!("found {engine}, version {version}"),
            Err(failure) => format!("without {engine}: {}", failure.message),
        });
        engines.extend(found.ok().map(|version| FoundEngine { id: engine, version }));
    }
    if engines.is_empty() {
        voice.note("no agent was found on the path: this executor is given no runs until it is started with one");
    }
    let server = credentials.server.to_string();
    let link = Link::new(&credentials, &route(&flags.route)?).await;
    let link = link.map_err(|source| ProgramError::Unreachable { server: server.clone(), source })?;
    let spool = Spool::open(&place.spool()).map_err(ProgramError::at(&place.spool()))?;
    let setup = Setup {
        machine: Machine { data: place.tools(), containers, ..Machine::new(place.runs(), programs, variables) },
        engines,
        link,
        spool,
        capacity: flags.capacity,
        grace: Duration::from_secs(flags.grace),
        keep_folders: flags.keep_folders,
        limits: CollectLimits::default(),
        patience: Patience::default(),
        voice,
    };
    let ended = daemon::run(setup, stop).await;
    if let Some(traces) = traces {
        traces.stop(TRACES_PATIENCE).await;
    }
    match ended.map_err(ProgramError::at(&place.spool()))? {
        End::Stopped => {
            voice.tell(&json!({ "event": "stopped" }), || "stopped".to_owned());
            Ok(())
        }
        End::Revoked => Err(ProgramError::Revoked(server)),
    }
}

/// Traces what happens from now on, if there is somewhere to send it. The proxy leads to the server, and not there.
async fn traces(flags: &StartFlags) -> Result<Option<Exporter>, ProgramError> {
    let Some(endpoint) = flags.otlp.as_deref().map(str::trim).filter(|endpoint| !endpoint.is_empty()) else {
        return Ok(None);
    };
    let policy = EgressPolicy { ca_file: flags.route.ca_file.clone(), ..EgressPolicy::default() };
    let started = Exporter::start(endpoint, &policy, "kitbag-executor", env!("CARGO_PKG_VERSION")).await;
    started.map(Some).map_err(|error| ProgramError::WrongUse(format!("otlp: {error}")))
}

/// What runs containers here, without those that an executor left that was killed.
async fn containers(flags: &StartFlags, credentials: &Credentials, voice: Voice) -> Option<Containers> {
    if flags.no_containers {
        return None;
    }
    let found = match Containers::find(&credentials.executor_id.to_string()).await {
        Ok(found) => found,
        Err(error) => {
            tracing::info!(%error, "this executor is given no runs whose toolsets have containers");
            return None;
        }
    };
    match found.sweep().await {
        Ok(0) => {}
        Ok(left) => voice.note(&format!("removed {left} containers that an executor before this one left")),
        Err(error) => tracing::warn!(%error, "containers that were left could not be looked for"),
    }
    let (kind, version) = (found.engine().kind(), found.engine().version().to_owned());
    voice.tell(&json!({ "event": "containers", "engine": kind.as_str(), "version": version }), || {
        format!("found {kind} for containers, version {version}")
    });
    Some(found)
}

/// What an executor that was killed left: agents that live on, and the folders they worked in.
async fn tidied(place: &Place, keep: bool, voice: Voice) {
    let place = place.clone();
    let tidied = tokio::task::spawn_blocking(move || {
        let orphans = kitbag_guard::child::end_orphans(&place.runs());
        if let Err(error) = kitbag_guard::shown::hide_all(&place.runs()) {
            tracing::warn!(%error, "what was shown to containers is still there");
        }
        (orphans, if keep { 0 } else { place.clear_runs() })
    });
    let (orphans, folders) = tidied.await.unwrap_or_default();
    if orphans + folders > 0 {
        voice.tell(&json!({ "event": "tidied", "processes": orphans, "folders": folders }), || {
            format!("ended {orphans} processes and removed {folders} folders that an executor before this one left")
        });
    }
}

/// Where agents are looked for.
pub(super) fn programs() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Every engine, with its version or why it cannot be used.
pub(super) async fn look(programs: &[PathBuf], variables: &Variables) -> Vec<(EngineId, Result<String, Failure>)> {
    let mut all = Vec::new();
    for engine in EngineId::ALL {
        all.push((*engine, find(*engine, programs, variables).await.map(|found| found.version)));
    }
    all
}

fn line(engine: EngineId, found: &Result<String, Failure>) -> Value {
    match found {
        Ok(version) => json!({ "event": "engine", "engine": engine, "version": version }),
        Err(failure) => {
            json!({ "event": "engine", "engine": engine, "missing": failure.message, "code": failure.code })
        }
    }
}

/// The first signal stops it soon, the second now.
fn signals() -> std::io::Result<watch::Receiver<Stop>> {
    let (sender, receiver) = watch::channel(Stop::No);
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            sender.send_modify(|stop| *stop = if *stop == Stop::No { Stop::Soon } else { Stop::Now });
        }
    });
    Ok(receiver)
}
