//! Containers that stay: those whose images speak MCP, one for each chat that uses it. They are started by the first call, hear one call after
//! the other, and end when nobody called for a while, with their chat, their toolset or the server, and when a call had to be ended.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_container::{Engine, EngineError, Line};
use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::connection::{Call, Options};
use kitbag_mcp::resolve::Redactor;
use kitbag_model::container::tools_of_mcp;
use kitbag_model::{CallError, CallErrorCode, ChatId, ContainerTool, OrgId, ServerId, ToolsetId};
use kitbag_python::Event;
use kitbag_runner::{NoResident, Place, Ran, Resident};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use uuid::Uuid;

use super::call::{Around, Values, deadline, event, unavailable, without_values};
use super::{Contained, Containers};
use crate::calls::progress_of;

/// One that nobody called ends after this long, as workers of Python tools do.
const IDLE: Duration = Duration::from_secs(600);

/// So many stay at a time, of one organisation and of all. The one that was called longest ago makes room.
const MOST_OF_ONE: usize = 8;
const MOST: usize = 32;

/// How long one may take to start and to agree on a revision of the protocol.
const START: Duration = Duration::from_secs(30);

/// How long one may take to list its tools.
const ANSWER: Duration = Duration::from_secs(30);

/// How long all of that may take before a call: one that ends at the first question is started once more.
pub(super) const STARTING: Duration = Duration::from_secs(2 * START.as_secs() + ANSWER.as_secs());

/// The most bytes of one message.
const LONGEST_MESSAGE: usize = 32 << 20;

/// Where a container stays.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Key {
    org: OrgId,
    chat: ChatId,
    toolset: ToolsetId,
    container: ServerId,
}

/// One that stays.
struct Staying {
    resident: Resident,
    /// Where it sees the workspace. It goes after the container.
    place: Place,
    /// What it was started of: another is another container.
    made_of: String,
    /// What it listed when it was started.
    tools: Vec<ContainerTool>,
    redactor: Redactor,
    used: Instant,
}

impl Staying {
    async fn end(self, at_once: bool) {
        let Self { resident, place, .. } = self;
        resident.end(at_once).await;
        place.clear().await;
    }
}

/// All that stay and are not called just now.
#[derive(Default)]
pub(super) struct Warm(Mutex<State>);

#[derive(Default)]
struct State {
    idle: HashMap<Key, Staying>,
    /// Nothing stays any more: the server ends.
    closed: bool,
}

impl Warm {
    fn take(&self, key: &Key) -> Option<Staying> {
        self.state(|state| state.idle.remove(key))
    }

    /// Has one stay. Those that have to make room for it.
    fn keep(&self, key: Key, one: Staying) -> Vec<Staying> {
        self.state(|state| {
            if state.closed {
                return vec![one];
            }
            let org = key.org.clone();
            let mut out: Vec<Staying> = state.idle.insert(key, one).into_iter().collect();
            let of_one = |key: &Key| key.org == org;
            out.extend(state.oldest_beyond(MOST_OF_ONE, of_one));
            out.extend(state.oldest_beyond(MOST, |_| true));
            out
        })
    }

    fn all(&self, which: impl Fn(&Key, &Staying) -> bool) -> Vec<Staying> {
        self.state(|state| state.idle.extract_if(|key, one| which(key, one)).map(|(_, one)| one).collect())
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn oldest_beyond(&mut self, most: usize, which: impl Fn(&Key) -> bool) -> Option<Staying> {
        let of_these = || self.idle.iter().filter(|(key, _)| which(key));
        if of_these().count() <= most {
            return None;
        }
        let oldest = of_these().min_by_key(|(_, one)| one.used).map(|(key, _)| key.clone())?;
        self.idle.remove(&oldest)
    }
}

impl Containers {
    /// Calls a tool in the chat's container, which is started if there is none.
    pub(super) async fn call_warm(&self, what: &Contained, around: Around<'_>) -> Result<Ran, CallError> {
        let key = Key {
            org: around.org.clone(),
            chat: around.call.chat_id,
            toolset: what.toolset.clone(),
            container: what.container.container.id.clone(),
        };
        let values = self.values(around.org, &what.container.container)?;
        let made_of = made_of(what, &values);
        let one = match self.0.warm.take(&key) {
            Some(one) if one.made_of == made_of && !one.resident.is_closed() => one,
            other => {
                if let Some(old) = other {
                    old.end(false).await;
                }
                let mut stop = around.stop.clone();
                tokio::select! {
                    started = self.start(what, &around, values, made_of) => started?,
                    _ = stop.wait_for(|stop| *stop) => {
                        return Err(CallError::new(CallErrorCode::Cancelled, "it was stopped"));
                    }
                }
            }
        };
        let live = one.tools.iter().find(|tool| tool.mcp_name() == what.tool.mcp_name());
        if live != Some(&what.tool) {
            let say = if live.is_some() { "says something else of" } else { "does not have" };
            let problem = format!(
                "the container {} {say} the tool {} now, other than when it was trusted; look at it, then trust the toolset again",
                what.container.container.id, what.tool.id
            );
            self.keep(key, one).await;
            return Err(CallError::new(CallErrorCode::NeedsTrust, problem));
        }
        let ran = call(&one, what, &around).await;
        let ran = without_values(ran, &one.redactor);
        let code = ran.result.as_ref().err().map(|error| error.code);
        match code {
            // What did not end by itself is ended with all that it does.
            Some(CallErrorCode::Timeout | CallErrorCode::Cancelled) => one.end(true).await,
            _ if one.resident.is_closed() => one.end(true).await,
            _ => self.keep(key, Staying { used: Instant::now(), ..one }).await,
        }
        Ok(ran)
    }

    async fn keep(&self, key: Key, one: Staying) {
        for out in self.0.warm.keep(key, one) {
            out.end(false).await;
        }
    }

    async fn start(
        &self,
        what: &Contained,
        around: &Around<'_>,
        values: Values,
        made_of: String,
    ) -> Result<Staying, CallError> {
        let engine = self.engine_for(around.org).await.map_err(|error| unavailable(error.to_string()))?;
        let name = Uuid::now_v7().to_string();
        let place = self.0.places.make(&name, around.workspace, *around.org != OrgId::local()).await;
        let place = place.map_err(unavailable)?;
        let Values { env, redactor } = values;
        let mut spec = self.spec(around.org, &what.container.container, &what.image, &place, env);
        spec.place.exchange = None;
        let told = |error: NoResident| {
            let code = match error {
                NoResident::Engine(EngineError::Command(_)) | NoResident::Silent(_) | NoResident::Ended(_) => {
                    CallErrorCode::ToolFailed
                }
                NoResident::Engine(_) => CallErrorCode::Unavailable,
            };
            CallError::new(code, redactor.text(&error.to_string()))
        };
        let resident = Resident::start(&engine, &spec, &options()).await.map_err(told)?;
        let listed = resident.tools().await;
        let listed = match listed {
            Ok(listed) => listed,
            Err(why) => {
                resident.end(true).await;
                return Err(CallError::new(CallErrorCode::ToolFailed, redactor.text(&why)));
            }
        };
        let (tools, _) = tools_of_mcp(listed.tools.iter().map(kitbag_mcp::tool::ToolDefinition::raw));
        Ok(Staying { resident, place, made_of, tools, redactor, used: Instant::now() })
    }

    /// Ends those that nobody called for long, removes what could not be removed because the engine was away, and looks again for images that could
    /// not be had.
    pub(crate) async fn end_idle(&self) {
        if Engine::has_left()
            && let Ok(engine) = self.engine().await
        {
            engine.remove_left().await;
        }
        self.collect().await;
        self.try_again();
        self.end_all(self.0.warm.all(|_, one| one.used.elapsed() > IDLE || one.resident.is_closed())).await;
    }

    /// Whether one stays for a chat.
    pub(crate) fn stay_for(&self, org: &OrgId, chat: ChatId) -> bool {
        self.0.warm.state(|state| state.idle.keys().any(|key| key.org == *org && key.chat == chat))
    }

    /// Ends those of a chat, whose calls are over.
    pub(crate) async fn end_chat(&self, org: &OrgId, chat: ChatId) {
        self.end_all(self.0.warm.all(|key, _| key.org == *org && key.chat == chat)).await;
    }

    /// Ends those of a toolset, whose calls are over.
    pub(crate) async fn end_toolset(&self, org: &OrgId, toolset: &str) {
        self.end_all(self.0.warm.all(|key, _| key.org == *org && key.toolset.as_str() == toolset)).await;
    }

    /// Ends all, because the server does.
    pub(crate) async fn shut_down(&self) {
        self.0.warm.state(|state| state.closed = true);
        self.end_all(self.0.warm.all(|_, _| true)).await;
    }

    async fn end_all(&self, all: Vec<Staying>) {
        let ending: Vec<_> = all.into_iter().map(|one| tokio::spawn(one.end(false))).collect();
        for one in ending {
            let _ = one.await;
        }
    }
}

/// What a container is started of. One with other values of its variables is another one.
fn made_of(what: &Contained, values: &Values) -> String {
    let env = kitbag_model::ContentHash::of(format!("{:?}", values.env).as_bytes());
    format!("{}+{}+{env}", what.container.fingerprint(), what.image)
}

async fn call(one: &Staying, what: &Contained, around: &Around<'_>) -> Ran {
    let deadline = deadline(what, around.deadline);
    let mut made = Call::of_tool(what.tool.mcp_name(), &around.call.args, deadline, around.stop.clone());
    let (told, progress) = unbounded_channel();
    made.progress = Some(told);
    let (tell, said) = unbounded_channel();
    let passing = tokio::spawn(pass_on(progress, said, around.heard.clone(), one.redactor.clone()));
    let ran = one.resident.call(made, tell).await;
    // Both ways to it are closed: it ends when it has passed on what is there.
    let _ = passing.await;
    ran
}

/// Passes on what is heard of a call while it runs.
async fn pass_on(
    mut progress: UnboundedReceiver<Value>,
    mut said: UnboundedReceiver<Line>,
    heard: tokio::sync::mpsc::UnboundedSender<Event>,
    redactor: Redactor,
) {
    loop {
        let one = tokio::select! {
            Some(params) = progress.recv() => redacted(progress_of(&params), &redactor),
            Some(line) = said.recv() => event(&line, &redactor),
            else => return,
        };
        let _ = heard.send(one);
    }
}

fn redacted(event: Event, redactor: &Redactor) -> Event {
    match event {
        Event::Progress { fraction, message } => {
            Event::Progress { fraction, message: message.map(|message| redactor.text(&message)) }
        }
        other => other,
    }
}

/// How they are talked to. They are not dialled, so nothing of that matters.
pub(super) fn options() -> Options {
    Options {
        connect: START,
        answer: ANSWER,
        egress: EgressPolicy::default(),
        longest_message: LONGEST_MESSAGE,
        most_tools: kitbag_model::container::MOST_TOOLS,
        pass_environment: Vec::new(),
        sandbox: None,
    }
}
