//! The executor at work: one connection after the other, and what stays between them.
//!
//! `desk` knows every attempt, `workshop` does them, `session` is one connection, `progress` what it has said, `collect` what an agent
//! left in its folder.

mod collect;
mod desk;
mod progress;
mod session;
mod workshop;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kitbag_model::run::wire::FoundEngine;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

pub use collect::CollectLimits;
use desk::Desk;
use session::session;
use workshop::Workshop;

use crate::Spool;
use crate::attempt::Machine;
use crate::link::{Backoff, Link, LinkError, Patience};
use crate::voice::Voice;

/// This executor's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long ending an agent may take: it is asked twice before it is killed.
const KILLING: Duration = Duration::from_secs(20);

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Everything that an executor needs to begin.
#[derive(Debug)]
pub struct Setup {
    /// The machine it is.
    pub machine: Machine,
    /// The agents that were found.
    pub engines: Vec<FoundEngine>,
    /// The server.
    pub link: Link,
    /// What was left unsaid.
    pub spool: Spool,
    /// How many attempts at once.
    pub capacity: u32,
    /// How long running attempts have when it is stopped.
    pub grace: Duration,
    /// Whether the folders of attempts stay.
    pub keep_folders: bool,
    /// What is kept of a folder.
    pub limits: CollectLimits,
    /// How long things are tried.
    pub patience: Patience,
    /// Who hears of it.
    pub voice: Voice,
}

/// What is said first on every connection.
#[derive(Debug)]
struct Greeting {
    engines: Vec<FoundEngine>,
    capacity: u32,
    containers: bool,
}

/// How much somebody wants it to stop.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Stop {
    /// Not at all.
    #[default]
    No,
    /// When what it works at is done, or its time is up.
    Soon,
    /// Now.
    Now,
}

/// Why it ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// Somebody stopped it.
    Stopped,
    /// The server has taken it out.
    Revoked,
}

/// Works until it is stopped or taken out.
pub async fn run(setup: Setup, stop: watch::Receiver<Stop>) -> io::Result<End> {
    let desk = Desk::open(setup.spool, setup.capacity as usize)?;
    let greeting =
        Greeting { engines: setup.engines, capacity: setup.capacity, containers: setup.machine.containers.is_some() };
    let workshop = Arc::new(Workshop {
        machine: setup.machine,
        link: setup.link,
        desk: desk.clone(),
        voice: setup.voice,
        patience: setup.patience,
        keep_folders: setup.keep_folders,
        limits: setup.limits,
        busy: watch::Sender::new(0),
    });
    let end = tokio::select! {
        () = connections(&workshop, &greeting) => End::Revoked,
        () = stopped(&workshop, stop, setup.grace) => End::Stopped,
    };
    if end == End::Revoked {
        desk.close("the executor was taken out");
        desk.give_back();
        until(&desk, KILLING, |desk| desk.working() == 0).await;
    }
    workshop.cleared(LAST_WORDS).await;
    Ok(end)
}

/// One connection after the other, until the server wants none.
async fn connections(workshop: &Arc<Workshop>, greeting: &Greeting) {
    let mut backoff = Backoff::new(workshop.patience);
    loop {
        let error = session(workshop, greeting, &mut backoff).await;
        if matches!(error, LinkError::Revoked) {
            return;
        }
        let wait = backoff.failed();
        let told = json!({ "event": "disconnected", "reason": error.to_string(), "retryMs": wait.as_millis() });
        workshop.voice.tell(&told, || format!("no connection: {error}; once more in {:.1} s", wait.as_secs_f32()));
        sleep(wait).await;
    }
}

/// Waits until somebody stops it, then until there is nothing to wait for.
async fn stopped(workshop: &Workshop, mut stop: watch::Receiver<Stop>, grace: Duration) {
    let desk = &workshop.desk;
    wanted(&mut stop, Stop::Soon).await;
    desk.close("the executor stops");
    let working = desk.working();
    workshop.voice.tell(&json!({ "event": "stopping", "working": working }), || match working {
        0 => "stopping".to_owned(),
        _ => format!("stopping; {working} attempts have {} s to end", grace.as_secs()),
    });
    tokio::select! {
        () = until(desk, grace, |desk| desk.working() == 0) => {}
        () = wanted(&mut stop, Stop::Now) => {}
    }
    desk.give_back();
    until(desk, KILLING, |desk| desk.working() == 0).await;
    // What the server does not hear now it hears at the next start.
    until(desk, LAST_WORDS, |desk| desk.held() == 0).await;
}

async fn wanted(stop: &mut watch::Receiver<Stop>, least: Stop) {
    if stop.wait_for(|stop| *stop >= least).await.is_err() {
        // Nobody can stop it any more.
        std::future::pending::<()>().await;
    }
}

/// Waits until something holds of the desk, and not longer than `long`.
async fn until(desk: &Desk, long: Duration, holds: impl Fn(&Desk) -> bool) {
    let mut changes = desk.listen();
    let waiting = async {
        while !holds(desk) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    let _ = timeout(long, waiting).await;
}
