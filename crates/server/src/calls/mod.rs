//! Tool calls: who may make one now, whose turn it is, who decides, and how one ends.
//!
//! A call is recorded before it runs and again when it is over, or both a moment later if it may be lost in a crash; in between no
//! transaction is open. It goes on when whoever asked
//! goes away. What runs here is known in memory; what another server on the same database runs is left alone.

mod ask;
mod behind;
mod company;
mod decide;
mod elsewhere;
mod end;
mod hear;
mod keep;
mod live;
mod mcp;
mod pace;
mod plan;
mod queue;
mod run;
mod start;
mod traced;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::api::calls::ToolCallView;
use crate::api::error::{ApiError, Code};
use crate::app::Settings;
use crate::containers::Containers;
use crate::events::Events;
use crate::nodes::Nodes;
use crate::recent::Recent;
use crate::rules::Rules;
use crate::servers::Servers;
use crate::stage::Stage;
use crate::toolsets::Toolsets;
use crate::workspaces::Workspaces;
use kitbag_model::{CallStatus, ChatId, OrgId, Timestamp, ToolCall, ToolCallId};
use kitbag_python::Workers;
use kitbag_runner::Schemas;
use kitbag_store::{Places, Store};
use serde_json::Value;
use tokio::time::{Instant, sleep};

pub(crate) use ask::{Ask, Asked};
pub(crate) use behind::Stand;
pub(crate) use company::{Answered, Company};
pub(crate) use decide::Verdict;
use elsewhere::PAUSE;
pub(crate) use end::by_somebody;
use live::Lives;
pub(crate) use mcp::progress_of;
use pace::Pace;
use queue::Queue;

/// So many calls run at the same time; others wait for a place.
const AT_ONCE: usize = 64;

/// How calls are made.
#[derive(Clone, Debug)]
pub struct CallSettings {
    /// How long a tool may take.
    pub tool_timeout: Duration,
    /// How long somebody may take to say yes or no.
    pub confirmation_timeout: Duration,
    /// The most bytes that a result has in a call's record; of a larger one there is a summary.
    pub max_result_bytes: usize,
    /// The most bytes of memory for one process of a call.
    pub tool_memory_bytes: u64,
    /// Whether a call is refused when a layer of the sandbox cannot be had.
    pub require_sandbox: bool,
    /// The most processes of one chat that outlive their calls.
    pub max_processes: usize,
    /// The variables of the server's environment that a toolset with network access may know.
    pub pass_environment: Vec<String>,
    /// The most calls of one chat that run or wait for their turn, and as many that wait for a yes.
    pub max_queue_per_chat: usize,
    /// The most calls of all chats that run or wait for their turn.
    pub max_queue: usize,
    /// Whether every call is recorded before it runs, and again before its end is told.
    pub strict_records: bool,
}

impl Default for CallSettings {
    fn default() -> Self {
        Self {
            tool_timeout: Duration::from_secs(300),
            confirmation_timeout: Duration::from_secs(300),
            max_result_bytes: 256 << 10,
            tool_memory_bytes: 2 << 30,
            require_sandbox: true,
            max_processes: 8,
            pass_environment: PASSED.map(ToOwned::to_owned).into(),
            max_queue_per_chat: 64,
            max_queue: 256,
            strict_records: false,
        }
    }
}

impl CallSettings {
    /// How workers are set up for these.
    pub fn workers(&self, data: PathBuf) -> kitbag_python::Settings {
        kitbag_python::Settings {
            data,
            // This very program, whatever has become of its file meanwhile.
            keeper: vec!["/proc/self/exe".into(), "guard-keeper".into()],
            require_sandbox: self.require_sandbox,
            memory: self.tool_memory_bytes,
            most_result_bytes: MOST_RESULT_BYTES,
            most_left_running: self.max_processes,
            passed: self.pass_environment.clone(),
            idle: IDLE,
            import: IMPORT,
        }
    }
}

/// How to get out, and whom to believe there.
const PASSED: [&str; 12] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
];

/// A result that is larger is an error of the tool.
const MOST_RESULT_BYTES: u64 = 16 << 20;

/// A toolset's worker that nobody uses ends after this long.
const IDLE: Duration = Duration::from_secs(600);

/// So long a toolset's modules may take to be imported.
const IMPORT: Duration = Duration::from_secs(60);

/// The rooms that a call goes through.
pub(crate) struct Rooms {
    pub(crate) workspaces: Workspaces,
    pub(crate) toolsets: Toolsets,
    pub(crate) workers: Workers,
    pub(crate) containers: Containers,
    pub(crate) servers: Servers,
    pub(crate) events: Events,
    pub(crate) stage: Stage,
    pub(crate) rules: Rules,
    pub(crate) nodes: Nodes,
}

/// All calls of a server. Clones share them.
#[derive(Clone)]
pub(crate) struct Calls(Arc<Inner>);

struct Inner {
    store: Store,
    workspaces: Workspaces,
    toolsets: Toolsets,
    workers: Workers,
    containers: Containers,
    servers: Servers,
    events: Events,
    stage: Stage,
    rules: Rules,
    settings: CallSettings,
    schemas: Schemas,
    nodes: Nodes,
    lives: Arc<Lives>,
    /// Who made the calls that wait for a yes, as far as they wait too.
    companies: Mutex<HashMap<ToolCallId, Arc<Company>>>,
    /// When the time is up of calls that wait for a yes, as far as it is waited for that.
    waited_for: Mutex<HashSet<(OrgId, Timestamp)>>,
    /// Calls of which nobody knows whether they were recorded, and since when.
    doubts: Mutex<HashMap<live::Key, Instant>>,
    /// Whether all were ended and waited for, because the server ends.
    interrupted: AtomicBool,
    queue: Queue,
    pace: Pace,
    places: Places,
    /// The state that the workspace of a chat is at.
    stands: Recent<(OrgId, ChatId), Stand>,
}

/// How many calls there are of which kind just now.
pub(crate) struct CallCounts {
    /// Running or waiting, of all kinds.
    pub(crate) queued: usize,
    /// How many that may be.
    pub(crate) most: usize,
    /// Those of workers that run.
    pub(crate) working: usize,
    /// Those of workers that have their workspace and wait for a place.
    pub(crate) waiting: usize,
}

impl Calls {
    /// How many calls there are just now.
    pub(crate) fn counts(&self) -> CallCounts {
        let ((queued, most), (working, waiting)) = (self.0.queue.counts(), self.0.places.counts());
        CallCounts { queued, most, working, waiting }
    }

    pub(crate) fn new(settings: &Settings, store: &Store, rooms: Rooms) -> Self {
        let Rooms { workspaces, toolsets, workers, containers, servers, events, stage, rules, nodes } = rooms;
        let settings = settings.calls.clone();
        Self(Arc::new(Inner {
            store: store.clone(),
            workspaces,
            toolsets,
            workers,
            containers,
            servers,
            events,
            stage,
            rules,
            schemas: Schemas::default(),
            nodes,
            lives: Arc::default(),
            companies: Mutex::default(),
            waited_for: Mutex::default(),
            doubts: Mutex::default(),
            interrupted: AtomicBool::new(false),
            queue: Queue::new(settings.max_queue_per_chat, settings.max_queue),
            pace: Pace::default(),
            places: Places::new(AT_ONCE),
            stands: Recent::default(),
            settings,
        }))
    }

    /// A call as it is now.
    pub(crate) async fn find(&self, org: &OrgId, chat: ChatId, id: ToolCallId) -> Result<Option<ToolCall>, ApiError> {
        let found = self.0.store.read(org).await?.tool_call(chat, id).await?;
        match &found {
            // Its time is up, and nobody has said so yet.
            Some(call) if call.status == CallStatus::Pending && call.expires_at <= Some(Timestamp::now()) => {
                self.expire(org).await?;
                Ok(self.0.store.read(org).await?.tool_call(chat, id).await?)
            }
            _ => Ok(found),
        }
    }

    /// Waits until a call is over: for as long as that takes if it runs here, else not for long. The call as it is then.
    pub(crate) async fn wait(&self, org: &OrgId, asked: Asked) -> Result<Arc<ToolCall>, ApiError> {
        let work = asked.take_work();
        let Asked { call, live, .. } = asked;
        if let Some(live) = live.or_else(|| self.0.lives.find(org, call.chat_id, call.id)) {
            let over = async {
                match work {
                    Some(work) => work.await,
                    None => live.over().await,
                }
            };
            tokio::select! {
                biased;
                () = over => {}
                // It goes on by itself, until its end is recorded.
                () = live.late() => {}
            }
            if let Some(ended) = live.end_of_it() {
                return Ok(ended);
            }
            return Box::pin(self.recorded_end(org, &call)).await.map(Arc::new);
        }
        // Another node has it, or had it: from when that one is dead until somebody has said how its calls ended takes a moment.
        Box::pin(self.recorded_end(org, &call)).await.map(Arc::new)
    }

    /// How a call ended of which only the record tells: its work is over here, but another node may have it, or may say that it is dead with
    /// that node. One that is not over is no answer: it would look like one that went well.
    async fn recorded_end(&self, org: &OrgId, call: &ToolCall) -> Result<ToolCall, ApiError> {
        let until = Instant::now() + self.0.nodes.patience();
        loop {
            match self.again(org, call).await {
                Ok(found) if found.status != CallStatus::Running => return Ok(found),
                Err(error) if error.code() == Code::NotFound || Instant::now() >= until => return Err(error),
                Ok(_) if Instant::now() >= until => {
                    let message = format!("how the call {} ends is not known yet; ask for it later", call.id);
                    return Err(ApiError::new(Code::Unavailable, message));
                }
                _ => sleep(PAUSE).await,
            }
        }
    }

    async fn again(&self, org: &OrgId, call: &ToolCall) -> Result<ToolCall, ApiError> {
        let found = self.find(org, call.chat_id, call.id).await?;
        found.ok_or_else(|| ApiError::not_found("tool call", &call.id.to_string()))
    }

    fn companies(&self) -> MutexGuard<'_, HashMap<ToolCallId, Arc<Company>>> {
        self.0.companies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doubts(&self) -> MutexGuard<'_, HashMap<live::Key, Instant>> {
        self.0.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever listens how a call is now.
    fn tell(&self, org: &OrgId, call: &ToolCall) {
        if self.0.events.has_listeners() {
            let data = serde_json::to_value(ToolCallView::short(call.clone())).unwrap_or(Value::Null);
            self.0.events.publish(org, Some(call.chat_id), "tool_call", data);
        }
    }
}
