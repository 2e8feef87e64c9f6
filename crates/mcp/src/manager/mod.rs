//! Many servers kept connected, for many organisations. A server that hangs, floods, lies or dies costs only its own calls.
//!
//! [`Manager::configure`] says which servers there are to be; everything else follows in the background and is told as
//! [`Change`]s. What is asked of the manager is answered from memory, except what is meant to wait for a server: calls,
//! [`Manager::refresh`], [`Manager::settled`]. The manager does not know where configurations, pins, variables and tokens are
//! kept, nor who may use what.
//!
//! Servers of one organisation whose launches resolve to the same thing share one connection (a `link`). Each link has one task
//! that looks after it, and nothing ever waits for a task while holding a lock.

mod company;
mod handle;
mod leases;
mod lent;
mod link;
mod noted;
mod org;
mod pace;
mod private;
mod serve;
mod settings;
mod state;
mod tend;
mod traced;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use kitbag_model::{OrgId, ServerKey};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;

pub use company::{APP, UI};
pub use leases::{Lease, Leases, Place, Sought};
pub use lent::{Lent, NotLent};
pub use settings::{Backoff, Settings, TokenSource, Variables};
pub use state::{Change, Configured, Listed, ManagerError, ServerState, Start, Status, Whose, offers};

use crate::connection::{Call, CallError, Connection};
use crate::resolve::Redactor;
use crate::shallow::Shallow;
use crate::tool::ToolDefinition;
use company::Masked;
use handle::{Handle, Using};
use link::{Ask, Shared};
use org::Org;

/// How long a call waits that nobody heard of before it is asked once more, the first time and at the most.
const MOVING: Duration = Duration::from_millis(20);
const LONGEST_MOVING: Duration = Duration::from_secs(1);
/// So often is looked whether a server is there again that was taken away.
const LOOK: Duration = Duration::from_secs(5);

/// Looks after servers. Clones are the same manager; with the last one everything ends.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    house: RwLock<House>,
}

#[derive(Default)]
struct House {
    orgs: HashMap<OrgId, Org>,
    closed: bool,
}

impl Manager {
    /// A manager without servers. What happens is told to `changes`.
    pub fn new(settings: Settings, changes: UnboundedSender<Change>) -> Self {
        let starts = Arc::new(Semaphore::new(settings.starts.max(1)));
        let shared = Arc::new(Shared { settings, changes, starts });
        Self { inner: Arc::new(Inner { shared, house: RwLock::default() }) }
    }

    /// Makes `wanted` all the servers of an organisation: what is new is connected, what is gone is ended, what has changed is
    /// both, and the rest is left alone. Nothing is waited for. It must be called on a runtime. Entries of another
    /// organisation are left out.
    pub fn configure(&self, org: &OrgId, wanted: Vec<Configured>) {
        let mut house = self.change();
        if house.closed {
            return;
        }
        house.orgs.entry(org.clone()).or_default().configure(&self.inner.shared, org, wanted);
    }

    /// How a server is.
    pub fn state(&self, org: &OrgId, key: &ServerKey) -> Option<ServerState> {
        self.look().orgs.get(org)?.shown(key)
    }

    /// How a server is, and whether somebody who uses it may get an answer ([`ServerState::hopeful`]). Copies nothing.
    pub fn standing(&self, org: &OrgId, key: &ServerKey) -> Option<(Status, bool)> {
        self.look().orgs.get(org)?.standing(key)
    }

    /// How many servers there are in each state, of all organisations.
    pub fn counts(&self) -> HashMap<Status, usize> {
        let mut counts = HashMap::new();
        for status in self.look().orgs.values().flat_map(Org::statuses) {
            *counts.entry(status).or_default() += 1;
        }
        counts
    }

    /// How all servers of an organisation are, in the order of their keys.
    pub fn states(&self, org: &OrgId) -> Vec<ServerState> {
        self.look().orgs.get(org).map(Org::all_shown).unwrap_or_default()
    }

    /// A server's tools, as far as they are known.
    pub fn tools(&self, org: &OrgId, key: &ServerKey) -> Option<Arc<[ToolDefinition]>> {
        self.look().orgs.get(org)?.tools(key)
    }

    /// The tools of all servers of an organisation, in the order of their keys. Copies nothing but names.
    pub fn lists(&self, org: &OrgId) -> Vec<Listed> {
        self.look().orgs.get(org).map(Org::lists).unwrap_or_default()
    }

    /// Asks a server for its tools now, starting it if need be.
    pub async fn refresh(&self, org: &OrgId, key: &ServerKey) -> Result<Arc<[ToolDefinition]>, ManagerError> {
        let handle = self.handle(org, key)?;
        let using = handle.enter(self.inner.shared.settings.wait).await?;
        let (told, answer) = oneshot::channel();
        handle.ask(Ask::Refresh(told));
        // It ended meanwhile if nobody answers.
        let listed = answer.await.unwrap_or_else(|_| Err(CallError::Disconnected("it ended".to_owned())));
        drop(using);
        listed?;
        self.tools(org, key).ok_or(ManagerError::NotFound)
    }

    /// Calls a tool. A server that is not started yet is started, one that is being connected is waited for; both within the
    /// call's own deadline.
    pub async fn call(&self, org: &OrgId, key: &ServerKey, mut call: Call) -> Result<Box<RawValue>, ManagerError> {
        let mut span = traced::begin(key, &mut call);
        let answer = self.call_server(org, key, call).await;
        traced::end(&mut span, &answer);
        answer
    }

    async fn call_server(&self, org: &OrgId, key: &ServerKey, call: Call) -> Result<Box<RawValue>, ManagerError> {
        let until = Instant::now() + call.deadline.min(self.inner.shared.settings.longest_call);
        let (mut call, mut pause) = (call, MOVING);
        loop {
            match self.call_once(org, key, call, until).await {
                Called::Over(answer) => return answer,
                // It moves from one node to another just now; nobody heard of the call.
                Called::Unheard(again, error) => call = Box::pin(wait_to_ask(again, error, until, pause)).await?,
            }
            pause = LONGEST_MOVING.min(2 * pause);
        }
    }

    async fn call_once(&self, org: &OrgId, key: &ServerKey, mut call: Call, until: Instant) -> Called {
        let settings = &self.inner.shared.settings;
        let left = || until.saturating_duration_since(Instant::now());
        let begun = async {
            let handle = self.handle(org, key)?;
            let using = match handle.try_enter() {
                Some(using) => using,
                // Boxed, as is what else few calls need: else every call has room for it.
                None => tokio::select! {
                    using = Box::pin(handle.enter(settings.wait.min(left()))) => using?,
                    () = stopped(&mut call) => return Err(CallError::Cancelled.into()),
                },
            };
            Ok((handle, using))
        };
        let (handle, using) = match begun.await {
            Ok(begun) => begun,
            Err(error) => return Called::Over(Err(error)),
        };
        call.deadline = left();
        let spare = using.connection.is_distant().then(|| again(&call));
        call.beside = call.beside.map(|company| Masked::wrap(company, &handle.link.redactor));
        // A server that cannot say whom it asks must not have to.
        let alone = match &call.beside {
            Some(company) if using.connection.asks() && !using.connection.is_stateless() => {
                match Box::pin(handle.link.alone(company)).await {
                    Ok(alone) => Some(alone),
                    Err(error) => return Called::Over(Err(error)),
                }
            }
            _ => None,
        };
        let connection = alone.as_ref().map_or(&using.connection, |alone| &alone.connection).clone();
        let answer = masking_progress(&handle.link.redactor, call, |call| async move { connection.call(call).await });
        let answer = answer.await;
        drop(alone);
        match (answer, spare) {
            (Err(error @ CallError::Unheard(_)), Some(call)) => Called::Unheard(call, error),
            (answer, _) => Called::Over(finish(&handle, using, answer)),
        }
    }

    /// A connection of a server for another node, which knows it by this mark. It is started, if need be and `wakes`, and if it is this
    /// node's to start.
    pub async fn lend(&self, org: &OrgId, key: &ServerKey, mark: &str, wakes: bool) -> Result<Lent, NotLent> {
        if self.look().orgs.get(org).and_then(|org| org.mark(key)).is_some_and(|known| known != mark) {
            return Err(NotLent::Changed);
        }
        let handle = self.handle(org, key)?;
        let settings = &self.inner.shared.settings;
        let using = match handle.try_enter_for(false) {
            Some(using) => using,
            None if wakes => handle.enter(settings.wait).await?,
            None => return Err(handle.unlent()),
        };
        if using.connection.is_distant() || using.connection.is_closed() {
            return Err(NotLent::NotHere);
        }
        let connection = using.connection.clone();
        drop(using);
        let (longest, longest_call) = (settings.options.longest_message, settings.longest_call);
        Ok(Lent { handle, connection, longest, longest_call })
    }

    /// Lets go of all servers that this node holds for others, when nobody uses them or `patience` is over. They are asked at once; what
    /// comes back waits until nothing of them runs any more.
    pub fn release_all(&self, patience: Duration) -> impl Future<Output = ()> + Send + use<> {
        let links: Vec<Arc<Handle>> = self
            .look()
            .orgs
            .values()
            .flat_map(|org| org.links().iter().filter(|handle| handle.holds()).cloned())
            .collect();
        let mut all = tokio::task::JoinSet::new();
        for handle in links {
            all.spawn(async move { handle.release(patience).await });
        }
        async move { drop(all.join_all().await) }
    }

    /// The same for one server.
    pub async fn release(&self, org: &OrgId, key: &ServerKey, patience: Duration) {
        let handle = self.look().orgs.get(org).and_then(|org| org.handle(key).ok());
        if let Some(handle) = handle.filter(|handle| handle.holds()) {
            handle.release(patience).await;
        }
    }

    /// Sends a request of the protocol as it is, under the same conditions as a call.
    pub async fn request(
        &self,
        org: &OrgId,
        key: &ServerKey,
        method: &str,
        params: Value,
    ) -> Result<Value, ManagerError> {
        let params = to_raw_value(&params).ok().and_then(|raw| Shallow::read(&raw)).unwrap_or_default();
        let (_stop, stopped) = watch::channel(false);
        let call = Call::new(method, params, self.inner.shared.settings.options.answer, stopped);
        let answer = self.call(org, key, call).await?;
        let read = serde_json::from_str(answer.get());
        read.map_err(|error| ManagerError::Call(CallError::Nonsense(error.to_string())))
    }

    /// Waits until what a server says to somebody comes on another connection than now, or on none. A connection that is theirs alone stays
    /// meanwhile.
    pub async fn until_other(&self, org: &OrgId, key: &ServerKey, who: &str) {
        let Ok(handle) = self.handle(org, key) else { return };
        let mut news = handle.link.news.subscribe();
        let kept = handle.link.kept(who);
        let used = |alone: Option<&Connection>| {
            let shared = || handle.link.state().connection.clone();
            alone.cloned().or_else(shared).map(|connection| (connection.mark(), connection.over()))
        };
        let Some((mark, over)) = used(kept.as_ref().map(|kept| &kept.connection)) else { return };
        let other = async {
            while news.changed().await.is_ok() {
                let now = used(handle.link.private_of(who).as_ref()).map(|(mark, _)| mark);
                if now != Some(mark) {
                    return;
                }
            }
        };
        tokio::select! {
            () = over => {}
            () = other => {}
        }
    }

    /// Waits until a server is connected. It is not woken for that.
    pub async fn until_connected(&self, org: &OrgId, key: &ServerKey) {
        loop {
            let handle = self.look().orgs.get(org).and_then(|org| org.handle(key).ok());
            let waited = match handle {
                Some(handle) => {
                    let mut news = handle.link.news.subscribe();
                    if handle.link.state().connection.is_some() {
                        return;
                    }
                    tokio::time::timeout(LOOK, news.changed()).await.is_ok_and(|changed| changed.is_ok())
                }
                None => false,
            };
            if !waited {
                // It is off, or another one by now: nobody tells when that is over.
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Says something to a server that is not answered, on the connection that is one client's alone. False if there is none: then the server
    /// never learnt anything of this client that could have changed.
    pub fn notify(&self, org: &OrgId, key: &ServerKey, who: &str, method: &str, params: Option<&Value>) -> bool {
        let handle = self.look().orgs.get(org).and_then(|org| org.handle(key).ok());
        let connection = handle.and_then(|handle| handle.link.private_of(who));
        connection.inspect(|connection| connection.notify(method, params.cloned())).is_some()
    }

    /// The same on the connection that all share, if there is one.
    pub fn notify_shared(&self, org: &OrgId, key: &ServerKey, method: &str, params: Option<&Value>) {
        let handle = self.look().orgs.get(org).and_then(|org| org.handle(key).ok());
        let connection = handle.and_then(|handle| handle.link.state().connection.clone());
        if let Some(connection) = connection {
            connection.notify(method, params.cloned());
        }
    }

    /// Connects a server anew, with the values that its variables have now and as if it had never failed. Whether that works is
    /// told as a change.
    pub fn reconnect(&self, org: &OrgId, key: &ServerKey) -> Result<(), ManagerError> {
        let mut house = self.change();
        let org = house.orgs.get_mut(org).ok_or(ManagerError::NotFound)?;
        org.again(&self.inner.shared, key, true)
    }

    /// Takes a server's connection away. It stays disconnected until [`Manager::reconnect`] or another launch.
    pub fn disconnect(&self, org: &OrgId, key: &ServerKey) -> Result<(), ManagerError> {
        let mut house = self.change();
        let org = house.orgs.get_mut(org).ok_or(ManagerError::NotFound)?;
        org.hold(&self.inner.shared, key)
    }

    /// How a server is as soon as it is not connecting any more, or when this time has passed.
    pub async fn settled(&self, org: &OrgId, key: &ServerKey, within: Duration) -> Option<ServerState> {
        let handle = self.look().orgs.get(org)?.handle(key).ok();
        if let Some(handle) = handle {
            // What it is when the time has passed is told below.
            let _ = tokio::time::timeout(within, handle.settled()).await;
        }
        self.state(org, key)
    }

    /// Ends all servers and waits until they have ended. Nothing is connected afterwards.
    pub async fn shut_down(&self) {
        let links: Vec<Arc<Handle>> = {
            let mut house = self.change();
            house.closed = true;
            house.orgs.values().flat_map(|org| org.links().iter().cloned()).collect()
        };
        links.iter().for_each(|handle| handle.stop());
        for handle in links {
            handle.done().await;
        }
    }

    /// The link of a server that can be used. One whose variables had no values is looked at again.
    fn handle(&self, org: &OrgId, key: &ServerKey) -> Result<Arc<Handle>, ManagerError> {
        let found = self.look().orgs.get(org).ok_or(ManagerError::NotFound)?.handle(key);
        match found {
            Err(ManagerError::EnvNotSet(_)) => {
                let mut house = self.change();
                let org = house.orgs.get_mut(org).ok_or(ManagerError::NotFound)?;
                org.again(&self.inner.shared, key, false)?;
                org.handle(key)
            }
            found => found,
        }
    }

    fn look(&self) -> RwLockReadGuard<'_, House> {
        self.inner.house.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, House> {
        self.inner.house.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a call.
enum Called {
    Over(Result<Box<RawValue>, ManagerError>),
    /// Nobody heard of it, so it can be asked once more.
    Unheard(Call, CallError),
}

/// Waits before a call is asked once more that nobody heard of. Not if there is no time for that.
async fn wait_to_ask(mut call: Call, error: CallError, until: Instant, pause: Duration) -> Result<Call, ManagerError> {
    let pause = pace::jittered(pause);
    if until.saturating_duration_since(Instant::now()) <= pause {
        return Err(error.into());
    }
    tokio::select! {
        () = tokio::time::sleep(pause) => Ok(call),
        () = stopped(&mut call) => Err(CallError::Cancelled.into()),
    }
}

/// The same call once more.
fn again(call: &Call) -> Call {
    Call {
        method: call.method.clone(),
        params: call.params.clone(),
        deadline: call.deadline,
        progress: call.progress.clone(),
        stop: call.stop.clone(),
        beside: call.beside.clone(),
        relay: call.relay,
        as_task: call.as_task,
    }
}

/// Until somebody stops the call.
async fn stopped(call: &mut Call) {
    if call.stop.wait_for(|stop| *stop).await.is_err() {
        // Whoever could stop it is gone.
        std::future::pending::<()>().await;
    }
}

/// Makes a call whose progress loses what must not be seen before it gets to the caller.
async fn masking_progress<F: Future<Output = Result<Box<RawValue>, CallError>>>(
    redactor: &Redactor,
    mut call: Call,
    make: impl FnOnce(Call) -> F,
) -> Result<Box<RawValue>, CallError> {
    let Some(told) = call.progress.take_if(|_| !redactor.is_empty()) else { return make(call).await };
    let (sender, mut progress) = mpsc::unbounded_channel();
    call.progress = Some(sender);
    let pass_on = |params: Value| {
        // Who does not listen any more misses nothing.
        let _ = told.send(redactor.words(params));
    };
    let mut making = std::pin::pin!(make(call));
    let answer = loop {
        tokio::select! {
            biased;
            Some(said) = progress.recv() => pass_on(said),
            answer = &mut making => break answer,
        }
    };
    while let Ok(said) = progress.try_recv() {
        pass_on(said);
    }
    answer
}

/// What a call's end says of its server, and what the caller gets to see of it.
fn finish(
    handle: &Handle,
    mut using: Using,
    answer: Result<Box<RawValue>, CallError>,
) -> Result<Box<RawValue>, ManagerError> {
    let redactor = &handle.link.redactor;
    using.answered = answer.is_ok();
    // A server is not asked how it is while it is in use.
    drop(using);
    match answer {
        Ok(result) => Ok(redactor.raw(result)),
        Err(error) => match redactor.error(error) {
            CallError::NeedsAuth { challenge } => {
                // Some calls need more rights than others. Whether the server is to be used at all shows when it is asked.
                handle.ask(Ask::Check);
                Err(ManagerError::NeedsAuth { challenge })
            }
            error => {
                if matches!(error, CallError::Timeout(_) | CallError::Disconnected(_)) {
                    handle.ask(Ask::Check);
                }
                Err(error.into())
            }
        },
    }
}
