//! Runs of agents: who asks for one, which executor gets it, what is heard of it, and how it ends.
//!
//! The database is the queue and the truth: a run is given away, kept and ended by compare-and-set ([`kitbag_store`], `runs/`), so that
//! any number of servers and executors may try at once. What is in memory here are the executors that are connected to this server,
//! and nothing is lost with them: they come back and say what they have.

mod ask;
mod assign;
mod cancel;
mod choose;
mod finish;
mod heard;
mod known;
mod link;
mod links;
mod look;
mod shown;
mod sweep;
mod traced;
mod waiting;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kitbag_model::run::wire::AttemptId;
use kitbag_model::run::{Run, RunState};
use kitbag_model::{OrgId, RunId, Timestamp};
use kitbag_store::{Store, StoreError};
use serde_json::json;
use tokio::sync::{broadcast, watch};

pub(crate) use ask::Ask;
pub(crate) use link::LARGEST_MESSAGE;

use crate::events::Events;
use crate::nodes::{Line, Nodes};
use crate::ops::awhile::Awhile;
use crate::rules::Rules;
use crate::servers::Servers;
use crate::stage::Stage;
use crate::toolsets::Toolsets;
use crate::workspaces::Workspaces;
use assign::Named;
use links::Links;

/// So many runs of which something happened wait for the slowest who follows one.
const WAITING: usize = 1024;

/// How many runs wait is known for so long without being counted again.
const COUNTED: Duration = Duration::from_secs(10);

/// How runs are looked after.
#[derive(Clone, Copy, Debug)]
pub struct RunSettings {
    /// So long an executor has a run without being heard of.
    pub lease: Duration,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self { lease: Duration::from_secs(60) }
    }
}

impl RunSettings {
    /// How often an executor must say that it is alive: one message may get lost, and one more.
    fn heartbeat(self) -> Duration {
        self.lease / 4
    }
}

/// All runs of a server. Clones share them.
#[derive(Clone)]
pub(crate) struct AgentRuns(Arc<Inner>);

struct Inner {
    settings: RunSettings,
    store: Store,
    rules: Rules,
    toolsets: Toolsets,
    workspaces: Workspaces,
    events: Events,
    nodes: Nodes,
    servers: Servers,
    stage: Stage,
    links: Links,
    /// Counts what may be of interest to an executor that has room.
    work: watch::Sender<u64>,
    /// Runs of which something was written down, for those who follow one.
    news: broadcast::Sender<(OrgId, RunId)>,
    /// What executors may read of the attempts that they have.
    named: Mutex<HashMap<AttemptId, Arc<Named>>>,
    /// How many runs wait, of all organisations.
    waiting: Awhile<u64>,
}

/// What runs need of other rooms.
pub(crate) struct Rooms {
    pub(crate) rules: Rules,
    pub(crate) toolsets: Toolsets,
    pub(crate) workspaces: Workspaces,
    pub(crate) events: Events,
    pub(crate) nodes: Nodes,
    pub(crate) servers: Servers,
    pub(crate) stage: Stage,
}

impl AgentRuns {
    pub(crate) fn new(settings: RunSettings, store: &Store, rooms: Rooms) -> Self {
        Self(Arc::new(Inner {
            settings,
            store: store.clone(),
            rules: rooms.rules,
            toolsets: rooms.toolsets,
            workspaces: rooms.workspaces,
            events: rooms.events,
            nodes: rooms.nodes,
            servers: rooms.servers,
            stage: rooms.stage,
            links: Links::default(),
            work: watch::Sender::new(0),
            news: broadcast::channel(WAITING).0,
            named: Mutex::default(),
            waiting: Awhile::new(COUNTED),
        }))
    }

    /// Those who follow a run hear when something was written down of any.
    pub(crate) fn news(&self) -> broadcast::Receiver<(OrgId, RunId)> {
        self.0.news.subscribe()
    }

    /// How many executors are connected here.
    pub(crate) fn executors(&self) -> usize {
        self.0.links.count()
    }

    /// How many runs wait, and how many executors have, of all organisations and servers. The database is asked whoever asks here, but what may
    /// be much is counted once in a while.
    pub(crate) async fn counts(&self) -> Result<(u64, u64), StoreError> {
        let mut system = self.0.store.system().await?;
        let held = system.all_held().await?;
        let waiting = self.0.waiting.get(Instant::now(), async || system.all_waiting().await).await?;
        Ok((waiting, held))
    }

    /// Executors with room look again.
    fn wake(&self) {
        self.0.work.send_modify(|times| *times = times.wrapping_add(1));
    }

    /// Something was written down of a run.
    fn tell(&self, org: &OrgId, run: RunId) {
        self.0.events.tell_others(org, || Line::Run { run });
        // It fails if nobody follows one, which is fine.
        let _ = self.0.news.send((org.clone(), run));
    }

    /// Something was written down of a run by another node.
    pub(crate) fn heard_elsewhere(&self, org: &OrgId, run: RunId) {
        let _ = self.0.news.send((org.clone(), run));
        self.wake();
    }

    /// Something may have been, and nobody knows what.
    pub(crate) fn look_again(&self) {
        self.wake();
    }

    /// A run is in another state.
    fn tell_state(&self, org: &OrgId, run: &Run) {
        self.tell(org, run.id);
        metrics::counter!("kitbag_agent_runs_total", "state" => run.state.as_str()).increment(1);
        tracing::info!(run = %run.id, attempt = run.attempt, state = %run.state, "a run is in another state");
        let data = json!({ "runId": run.id, "chatId": run.chat_id, "state": run.state, "attempt": run.attempt });
        self.0.events.publish_to(org, Some(run.chat_id), run.private_to, "run_changed", data);
        if run.state == RunState::Queued || run.state.is_over() {
            self.wake();
        }
    }

    /// When a lease that begins now ends.
    fn lease_until(&self) -> Timestamp {
        let seconds = self.0.settings.lease.as_secs().max(1);
        Timestamp::now().plus_seconds(u32::try_from(seconds).unwrap_or(u32::MAX))
    }
}
