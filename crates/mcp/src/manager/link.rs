//! One connection and all who share it: what is known of it, who may use it now, and the door to the task that looks after
//! it. What the task does is in `tend` and `serve`.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kitbag_model::{ContentHash, OrgId, ServerKey, Timestamp};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::leases::Lease;
use super::noted::Noted;
use super::private::Privates;
use super::{Change, ServerState, Settings, Status, Whose, tend};
use crate::connection::{CallError, Connection, Tokens, ToolList};
use crate::endpoint::Endpoint;
use crate::resolve::Redactor;
use crate::tool::ToolDefinition;

/// How many things that a server said for the log and on its standard error are kept, and how much of each.
const MOST_LOGS: usize = 50;
const MOST_LINES: usize = 50;
const LONGEST_LOG: usize = 2_000;

/// What all links of a manager have in common.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) changes: mpsc::UnboundedSender<Change>,
    pub(super) starts: Arc<Semaphore>,
}

/// What a server said that belongs to no request: the method, the parameters, and who alone is to hear it.
type Heard = (String, Value, Option<String>);

/// What makes two servers one connection, within an organisation.
#[derive(Clone, PartialEq)]
pub(super) struct Identity {
    pub(super) endpoint: Endpoint,
    pub(super) folder: Option<PathBuf>,
    /// A server with tokens of its own speaks in somebody's name, so it shares with nobody.
    pub(super) owner: Option<ServerKey>,
}

/// All that a link is made from.
pub(super) struct Plan {
    pub(super) identity: Identity,
    pub(super) redactor: Redactor,
    pub(super) tokens: Option<Arc<dyn Tokens>>,
    pub(super) lazy: bool,
    /// The tools that it is known to have had.
    pub(super) known: Arc<[ToolDefinition]>,
    /// The revision that is known to have been agreed on.
    pub(super) revision: Option<String>,
    /// What it is known to have said that it can.
    pub(super) offers: Option<Vec<String>>,
    /// Whether its tools are to be learnt anew.
    pub(super) learns: bool,
}

/// What the task is asked to do.
pub(super) enum Ask {
    /// Somebody wants to use it.
    Wake,
    /// Somebody wants it to be connected anew.
    Reconnect,
    /// Somebody wants to know its tools.
    Refresh(oneshot::Sender<Result<(), CallError>>),
    /// A call went wrong in a way that makes one wonder whether it still lives.
    Check,
    /// Another node is to have it, when nobody uses it or so much time is over. Told when nothing of it runs here any more.
    Release(Duration, oneshot::Sender<()>),
    /// Nobody needs it any more.
    Stop,
}

/// What somebody who wants to use it now can hope for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hope {
    /// It is started when somebody asks.
    Asleep,
    /// It is being connected.
    Soon,
    /// It is tried again then, if somebody asks.
    At(Instant),
    /// Nothing happens until somebody decides something.
    None,
}

/// One of those who share a link.
pub(super) struct Member {
    pub(super) key: ServerKey,
    pub(super) lazy: bool,
    /// What it wants to be launched, and the revision and what it can that are remembered for that.
    pub(super) launch: ContentHash,
    pub(super) revision: Option<String>,
    pub(super) offers: Option<Vec<String>>,
    /// What it is started from, as all nodes know it.
    pub(super) mark: String,
}

/// What is known of a link. Locked for moments only, never while anything is waited for.
pub(super) struct State {
    pub(super) members: Vec<Member>,
    pub(super) status: Status,
    pub(super) reason: String,
    pub(super) since: Timestamp,
    pub(super) challenge: Option<String>,
    pub(super) hope: Hope,
    pub(super) connection: Option<Connection>,
    /// What was agreed on last, for the next connection.
    pub(super) revision: Option<String>,
    /// What it said last that it can.
    pub(super) offers: Option<Vec<String>>,
    /// How it said last that it wants to be used.
    pub(super) instructions: Option<String>,
    pub(super) running: usize,
    pub(super) used: Instant,
    pub(super) answered: Instant,
    pub(super) tools: Option<Arc<[ToolDefinition]>>,
    pub(super) live: bool,
    pub(super) warnings: Vec<String>,
    pub(super) stderr: Vec<String>,
    pub(super) logs: VecDeque<String>,
    pub(super) attempts: u32,
    pub(super) stopping: bool,
    /// What says that its process is this node's, where it could be another's.
    pub(super) lease: Option<Arc<dyn Lease>>,
    /// The name under which it was looked for, while it is not known how that went.
    pub(super) sought: Option<ServerKey>,
    /// Whether another node has its process.
    pub(super) distant: bool,
}

/// One connection, wanted by at least one server.
pub(super) struct Link {
    pub(super) org: OrgId,
    pub(super) identity: Identity,
    pub(super) redactor: Redactor,
    pub(super) tokens: Option<Arc<dyn Tokens>>,
    pub(super) known: Arc<[ToolDefinition]>,
    pub(super) shared: Arc<Shared>,
    pub(super) news: watch::Sender<()>,
    /// Connections of single clients, where the server asks its clients things.
    pub(super) privates: Privates,
    /// Told when its last request is over after its connection was taken away.
    pub(super) quiet: Notify,
    /// Other nodes, which want to know what the server says by itself.
    listeners: Mutex<Vec<mpsc::UnboundedSender<Heard>>>,
    state: Mutex<State>,
}

impl State {
    /// Whether nobody wants it to be there before it is used.
    pub(super) fn is_lazy(&self) -> bool {
        self.members.iter().all(|member| member.lazy)
    }
}

impl Link {
    pub(super) fn new(shared: Arc<Shared>, org: OrgId, plan: Plan) -> Self {
        let now = Instant::now();
        let Plan { identity, redactor, tokens, lazy, known, revision, offers, learns } = plan;
        let tokens = tokens.map(|tokens| Noted::wrap(tokens, redactor.clone()));
        let (status, reason, hope) = if lazy && !known.is_empty() && !learns {
            (Status::Disconnected, tend::NOT_STARTED, Hope::Asleep)
        } else {
            (Status::Connecting, tend::CONNECTING, Hope::Soon)
        };
        Self {
            org,
            identity,
            redactor,
            tokens,
            known,
            shared,
            news: watch::channel(()).0,
            privates: Privates::default(),
            quiet: Notify::new(),
            listeners: Mutex::default(),
            state: Mutex::new(State {
                members: Vec::new(),
                status,
                reason: reason.to_owned(),
                since: Timestamp::now(),
                challenge: None,
                hope,
                connection: None,
                revision,
                offers,
                instructions: None,
                running: 0,
                used: now,
                answered: now,
                tools: None,
                live: false,
                warnings: Vec::new(),
                stderr: Vec::new(),
                logs: VecDeque::new(),
                attempts: 0,
                stopping: false,
                lease: None,
                sought: None,
                distant: false,
            }),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known and tells it, if it is something else than before.
    pub(super) fn becomes(&self, status: Status, reason: &str, hope: Hope, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        state.hope = hope;
        let reason = self.redactor.text(reason);
        if (state.status, &state.reason) != (status, &reason) {
            if state.status != status {
                state.since = Timestamp::now();
            }
            state.status = status;
            state.reason = reason;
            for member in &state.members {
                self.tell(self.status_change(&state, &member.key));
            }
        }
        drop(state);
        self.news.send_replace(());
    }

    /// There is a connection, and whoever waited can use it. That it has to tell its tools first is not told to everybody.
    pub(super) fn connected(&self, connection: Connection, now: Instant) {
        let mut state = self.state();
        state.revision = Some(connection.protocol_version().to_owned());
        state.offers = Some(super::offers(&connection.capabilities()));
        state.instructions = connection.instructions().map(ToOwned::to_owned);
        state.distant = connection.is_distant();
        state.connection = Some(connection);
        (state.used, state.answered) = (now, now);
        self.tell_revision(&mut state);
        "it is being asked for its tools".clone_into(&mut state.reason);
        drop(state);
        self.news.send_replace(());
    }

    /// Tells what was agreed on to those for whom something else is remembered, or nothing.
    pub(super) fn tell_revision(&self, state: &mut State) {
        let State { members, revision: Some(revision), offers: Some(offers), connection: Some(_), .. } = state else {
            return;
        };
        let knows =
            |member: &Member| member.revision.as_ref() == Some(revision) && member.offers.as_ref() == Some(offers);
        for member in members.iter_mut().filter(|member| !knows(member)) {
            (member.revision, member.offers) = (Some(revision.clone()), Some(offers.clone()));
            let (org, key, launch) = (self.org.clone(), member.key.clone(), member.launch);
            self.tell(Change::Agreed { org, key, launch, revision: revision.clone(), offers: offers.clone() });
        }
    }

    /// Takes a new list in and tells it.
    pub(super) fn listed(&self, list: ToolList, first: bool) {
        let tools: Arc<[ToolDefinition]> = list.tools.into_iter().map(|tool| self.redactor.tool(tool)).collect();
        let mut state = self.state();
        let different = state.tools.as_ref().unwrap_or(&self.known) != &tools;
        state.warnings = list.warnings.iter().map(|warning| self.redactor.text(warning)).collect();
        state.live = true;
        if different {
            state.tools = Some(tools.clone());
        } else if state.tools.is_none() {
            // The same, but not twice in memory.
            state.tools = Some(self.known.clone());
        }
        if first || different {
            for member in &state.members {
                self.tell(self.tools_change(&state, &member.key, &tools, different));
            }
        }
    }

    /// Keeps a line that the server wrote for the log.
    pub(super) fn log(&self, text: &str) {
        let cut = text.char_indices().nth(LONGEST_LOG).map_or(text, |(at, _)| &text[..at]);
        let line = self.redactor.text(cut);
        let mut state = self.state();
        if state.logs.len() == MOST_LOGS {
            state.logs.pop_front();
        }
        state.logs.push_back(line);
    }

    /// Takes the connection out, so that nobody begins to use it any more.
    pub(super) fn take(&self) -> Option<Connection> {
        let taken = {
            let mut state = self.state();
            self.take_from(&mut state)
        };
        self.news.send_replace(());
        taken
    }

    /// Waits until nobody uses what was taken away.
    pub(super) async fn unused(&self) {
        loop {
            let quiet = self.quiet.notified();
            if self.state().running == 0 {
                return;
            }
            quiet.await;
        }
    }

    /// Whose a change is to tell.
    fn whose(state: &State) -> Whose {
        match state {
            State { distant: true, .. } => Whose::Elsewhere,
            State { lease: Some(_), .. } => Whose::Everybody,
            _ => Whose::Here,
        }
    }

    /// What the server says by itself from now on.
    pub(super) fn listen(&self) -> mpsc::UnboundedReceiver<Heard> {
        let (told, heard) = mpsc::unbounded_channel();
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        heard
    }

    /// The same, if nobody uses it and nobody did for so long. Whoever comes later finds it asleep and wakes it.
    pub(super) fn take_if_idle(&self, now: Instant, idle: Duration, reason: &str) -> Option<Connection> {
        {
            let mut state = self.state();
            if state.running > 0 || state.used + idle > now {
                return None;
            }
            state.hope = Hope::Asleep;
            self.take_from(&mut state)
        }
        .inspect(|_| self.becomes(Status::Disconnected, reason, Hope::Asleep, |_| ()))
    }

    fn take_from(&self, state: &mut State) -> Option<Connection> {
        let connection = state.connection.take()?;
        self.privates.clear();
        state.live = false;
        state.stderr = self.tail(&connection);
        Some(connection)
    }

    /// How it is, and whether somebody who uses it may get an answer.
    pub(super) fn standing(&self) -> (Status, bool) {
        let state = self.state();
        (state.status, self.is_hopeful(&state))
    }

    fn is_hopeful(&self, state: &State) -> bool {
        match state.hope {
            Hope::Asleep | Hope::Soon => true,
            Hope::At(at) => at <= Instant::now() + self.shared.settings.wait,
            Hope::None => state.connection.is_some(),
        }
    }

    /// How it is, for one of those who share it.
    pub(super) fn shown(&self, key: &ServerKey, known: &Arc<[ToolDefinition]>) -> ServerState {
        let state = self.state();
        let connection = state.connection.clone();
        let mut shown = ServerState {
            key: key.clone(),
            status: state.status,
            reason: state.reason.clone(),
            since: state.since,
            tools: state.tools.clone().unwrap_or_else(|| known.clone()),
            live: state.live,
            warnings: state.warnings.clone(),
            protocol_version: None,
            server_info: None,
            capabilities: None,
            offers: state.offers.clone(),
            instructions: state.instructions.as_ref().map(|words| self.redactor.exact(words)),
            stderr: state.stderr.clone(),
            logs: state.logs.iter().cloned().collect(),
            pid: None,
            attempts: state.attempts,
            hopeful: self.is_hopeful(&state),
            challenge: state.challenge.clone(),
        };
        drop(state);
        if let Some(connection) = connection {
            shown.protocol_version = Some(connection.protocol_version().to_owned());
            shown.server_info = Some(self.redactor.result(connection.server_info()));
            shown.capabilities = Some(connection.capabilities());
            shown.pid = connection.pid();
            shown.stderr = self.tail(&connection);
        }
        shown
    }

    /// How other nodes know it: by the key and the mark of whoever was here first.
    pub(super) fn known_as(&self) -> Option<(ServerKey, String)> {
        self.state().members.first().map(|member| (member.key.clone(), member.mark.clone()))
    }

    /// Keeps what a process said last, unless there is another one already.
    pub(super) fn keep_tail(&self, connection: &Connection) {
        let tail = self.tail(connection);
        let mut state = self.state();
        if state.connection.is_none() {
            state.stderr = tail;
        }
    }

    fn tail(&self, connection: &Connection) -> Vec<String> {
        let lines = connection.stderr_tail();
        self.redactor.lines(&lines[lines.len().saturating_sub(MOST_LINES)..])
    }

    pub(super) fn status_change(&self, state: &State, key: &ServerKey) -> Change {
        Change::Status {
            org: self.org.clone(),
            key: key.clone(),
            status: state.status,
            reason: state.reason.clone(),
            since: state.since,
            whose: Self::whose(state),
        }
    }

    pub(super) fn tools_change(
        &self,
        state: &State,
        key: &ServerKey,
        tools: &Arc<[ToolDefinition]>,
        different: bool,
    ) -> Change {
        Change::Tools {
            org: self.org.clone(),
            key: key.clone(),
            tools: tools.clone(),
            warnings: state.warnings.clone(),
            different,
            whose: Self::whose(state),
        }
    }

    /// The server said something that belongs to no request, to all or to one.
    pub(super) fn told(&self, method: &str, params: &Value, whom: Option<&str>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if !listeners.is_empty() {
            let params = self.redactor.words(params.clone());
            listeners
                .retain(|listener| listener.send((method.to_owned(), params.clone(), whom.map(str::to_owned))).is_ok());
        }
        drop(listeners);
        let state = self.state();
        for member in &state.members {
            let params = self.redactor.words(params.clone());
            let (org, key) = (self.org.clone(), member.key.clone());
            let whom = whom.map(str::to_owned);
            self.tell(Change::Told { org, key, method: method.to_owned(), params, whom });
        }
    }

    pub(super) fn tell(&self, change: Change) {
        // Nobody listens any more when the program ends; then there is nothing to tell.
        let _ = self.shared.changes.send(change);
    }
}
