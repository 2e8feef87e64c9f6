//! The servers of one organisation: which are wanted, and which link each of them has. Nothing here waits; what takes time
//! happens in the links' tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use kitbag_model::{Launch, OrgId, ServerKey, Timestamp};

use super::handle::Handle;
use super::link::{Ask, Identity, Plan, Shared};
use super::{Change, Configured, Listed, ManagerError, ServerState, Start, Status, Whose};
use crate::endpoint::Endpoint;
use crate::resolve::{ResolveError, resolve};
use crate::tool::ToolDefinition;

/// One server.
pub(super) struct Server {
    configured: Configured,
    /// Somebody disconnected it; it stays so until somebody connects it.
    held: bool,
    /// The tools that the configuration said it had, and those that it is known to have since.
    given: Arc<[ToolDefinition]>,
    known: Arc<[ToolDefinition]>,
    slot: Slot,
}

enum Slot {
    /// It has no connection and is not to have one.
    Still(Box<Still>),
    Linked(Arc<Handle>),
}

struct Still {
    status: Status,
    reason: String,
    since: Timestamp,
    error: ManagerError,
}

impl Still {
    /// A variable may have got a value: that is looked at when somebody uses it.
    fn is_hopeful(&self) -> bool {
        matches!(self.error, ManagerError::EnvNotSet(_))
    }

    fn because(status: Status, reason: &str, error: Option<ManagerError>) -> Box<Self> {
        let reason = reason.to_owned();
        let error = error.unwrap_or_else(|| ManagerError::NotConnected { status, reason: reason.clone() });
        Box::new(Self { status, reason, since: Timestamp::now(), error })
    }
}

/// All servers of an organisation.
#[derive(Default)]
pub(super) struct Org {
    servers: BTreeMap<ServerKey, Server>,
    links: Vec<Arc<Handle>>,
}

impl Org {
    /// Makes `wanted` the servers that there are.
    pub(super) fn configure(&mut self, shared: &Arc<Shared>, id: &OrgId, wanted: Vec<Configured>) {
        let mut before = std::mem::take(&mut self.servers);
        let wanted: BTreeMap<ServerKey, Configured> =
            wanted.into_iter().filter(|wanted| wanted.org == *id).map(|wanted| (wanted.key.clone(), wanted)).collect();
        for (key, mut configured) in wanted {
            let before = before.remove(&key);
            let known = std::mem::take(&mut configured.known);
            // What is known already is not kept twice.
            let given = match &before {
                Some(before) if before.given[..] == known[..] => before.given.clone(),
                Some(before) => before.told().filter(|told| told[..] == known[..]).unwrap_or_else(|| known.into()),
                None => known.into(),
            };
            let server = self.place(shared, configured, given, before, false);
            self.servers.insert(key, server);
        }
        // Those that are gone leave last: one that was renamed shares its connection with itself for a moment.
        for (key, gone) in before {
            if let Slot::Linked(handle) = gone.slot {
                handle.leave(&key);
            }
        }
        self.links.retain(|handle| !handle.is_done());
    }

    /// The server, in the place that it is to have now. `anew`: somebody asked for it.
    fn place(
        &mut self,
        shared: &Arc<Shared>,
        configured: Configured,
        given: Arc<[ToolDefinition]>,
        before: Option<Server>,
        anew: bool,
    ) -> Server {
        let key = configured.key.clone();
        let same_launch = before.as_ref().is_some_and(|before| {
            let before = &before.configured;
            before.launch == configured.launch && before.folder == configured.folder && before.fence == configured.fence
        });
        let held = !anew && same_launch && before.as_ref().is_some_and(|before| before.held);
        let (old, mut known) = match before {
            Some(before) if Arc::ptr_eq(&before.given, &given) => (Some(before.slot), before.known),
            Some(before) => (Some(before.slot), given.clone()),
            None => (None, given.clone()),
        };
        let handle = match wanted(shared, &configured, held, known.clone()) {
            Ok(plan) => self.link(shared, &configured, plan, old),
            Err(still) => {
                let still = match old {
                    Some(Slot::Linked(handle)) => {
                        // What it told last is better than what was known before it.
                        known = handle.leave(&key).filter(|_| same_launch).unwrap_or(known);
                        still
                    }
                    Some(Slot::Still(was)) if (was.status, &was.reason) == (still.status, &still.reason) => {
                        return Server { configured, held, given, known, slot: Slot::Still(was) };
                    }
                    _ => still,
                };
                let change = Change::Status {
                    org: configured.org.clone(),
                    key,
                    status: still.status,
                    reason: still.reason.clone(),
                    since: still.since,
                    whose: Whose::Here,
                };
                // Nobody listens any more when the program ends; then there is nothing to tell.
                let _ = shared.changes.send(change);
                return Server { configured, held, given, known, slot: Slot::Still(still) };
            }
        };
        Server { configured, held, given, known, slot: Slot::Linked(handle) }
    }

    /// The link for this plan: the one that it has, one that others have, or a new one.
    fn link(&mut self, shared: &Arc<Shared>, configured: &Configured, plan: Plan, old: Option<Slot>) -> Arc<Handle> {
        let (key, lazy) = (&configured.key, plan.lazy);
        let fits = |handle: &Arc<Handle>| handle.link.identity == plan.identity && !handle.is_stopping();
        let before = match old {
            Some(Slot::Linked(handle)) if fits(&handle) => {
                handle.join(configured, lazy);
                return handle;
            }
            Some(Slot::Linked(handle)) => {
                handle.leave(key);
                Some(handle)
            }
            Some(Slot::Still(_)) | None => None,
        };
        self.links.retain(|handle| !handle.is_done());
        if let Some(there) = self.links.iter().find(|handle| fits(handle)) {
            there.join(configured, lazy);
            return there.clone();
        }
        // One that was switched off a moment ago may still be on its way out.
        let leaving = |handle: &&Arc<Handle>| handle.link.identity == plan.identity && !handle.is_done();
        let after = before.filter(|before| before.is_stopping());
        let after = after.or_else(|| self.links.iter().rfind(leaving).cloned());
        let handle = Handle::start(shared.clone(), configured, plan, after.as_deref());
        self.links.push(handle.clone());
        handle
    }

    /// The link of a server that can be used.
    pub(super) fn handle(&self, key: &ServerKey) -> Result<Arc<Handle>, ManagerError> {
        match self.servers.get(key).map(|server| &server.slot) {
            Some(Slot::Linked(handle)) => Ok(handle.clone()),
            Some(Slot::Still(still)) => Err(still.error.clone()),
            None => Err(ManagerError::NotFound),
        }
    }

    /// Looks again what place a server is to have: a variable may have got a value. `anew`: somebody wants it connected anew.
    pub(super) fn again(&mut self, shared: &Arc<Shared>, key: &ServerKey, anew: bool) -> Result<(), ManagerError> {
        let before = self.servers.remove(key).ok_or(ManagerError::NotFound)?;
        let was = match &before.slot {
            Slot::Linked(handle) => Some(handle.clone()),
            Slot::Still(_) => None,
        };
        let server = self.place(shared, before.configured.clone(), before.given.clone(), Some(before), anew);
        let answer = match &server.slot {
            Slot::Linked(handle) => {
                if anew && was.is_some_and(|was| Arc::ptr_eq(&was, handle)) {
                    handle.ask(Ask::Reconnect);
                } else if anew {
                    handle.ask(Ask::Wake);
                }
                Ok(())
            }
            Slot::Still(still) => Err(still.error.clone()),
        };
        self.servers.insert(key.clone(), server);
        answer
    }

    /// Takes a server's connection away until somebody wants it back.
    pub(super) fn hold(&mut self, shared: &Arc<Shared>, key: &ServerKey) -> Result<(), ManagerError> {
        let mut before = self.servers.remove(key).ok_or(ManagerError::NotFound)?;
        before.held = true;
        let server = self.place(shared, before.configured.clone(), before.given.clone(), Some(before), false);
        self.servers.insert(key.clone(), server);
        Ok(())
    }

    /// What a server is started from.
    pub(super) fn mark(&self, key: &ServerKey) -> Option<&str> {
        self.servers.get(key).map(|server| server.configured.mark.as_str())
    }

    pub(super) fn shown(&self, key: &ServerKey) -> Option<ServerState> {
        self.servers.get(key).map(|server| server.shown(key))
    }

    pub(super) fn standing(&self, key: &ServerKey) -> Option<(Status, bool)> {
        Some(match &self.servers.get(key)?.slot {
            Slot::Linked(handle) => handle.link.standing(),
            Slot::Still(still) => (still.status, still.is_hopeful()),
        })
    }

    pub(super) fn statuses(&self) -> impl Iterator<Item = Status> {
        self.servers.values().map(|server| match &server.slot {
            Slot::Linked(handle) => handle.link.standing().0,
            Slot::Still(still) => still.status,
        })
    }

    pub(super) fn all_shown(&self) -> Vec<ServerState> {
        self.servers.iter().map(|(key, server)| server.shown(key)).collect()
    }

    pub(super) fn tools(&self, key: &ServerKey) -> Option<Arc<[ToolDefinition]>> {
        let server = self.servers.get(key)?;
        Some(server.told().unwrap_or_else(|| server.known.clone()))
    }

    pub(super) fn lists(&self) -> Vec<Listed> {
        let listed = |(key, server): (&ServerKey, &Server)| {
            let (status, live, tools) = match &server.slot {
                Slot::Linked(handle) => {
                    let state = handle.link.state();
                    (state.status, state.live, state.tools.clone())
                }
                Slot::Still(still) => (still.status, false, None),
            };
            Listed { key: key.clone(), status, live, tools: tools.unwrap_or_else(|| server.known.clone()) }
        };
        self.servers.iter().map(listed).collect()
    }

    pub(super) fn links(&self) -> &[Arc<Handle>] {
        &self.links
    }
}

impl Server {
    /// The tools that it told itself.
    fn told(&self) -> Option<Arc<[ToolDefinition]>> {
        match &self.slot {
            Slot::Linked(handle) => handle.link.state().tools.clone(),
            Slot::Still(_) => None,
        }
    }

    fn shown(&self, key: &ServerKey) -> ServerState {
        match &self.slot {
            Slot::Linked(handle) => handle.link.shown(key, &self.known),
            Slot::Still(still) => ServerState {
                key: key.clone(),
                status: still.status,
                reason: still.reason.clone(),
                since: still.since,
                tools: self.known.clone(),
                live: false,
                warnings: Vec::new(),
                protocol_version: None,
                server_info: None,
                capabilities: None,
                offers: self.configured.offers.clone(),
                instructions: None,
                stderr: Vec::new(),
                logs: Vec::new(),
                pid: None,
                attempts: 0,
                hopeful: still.is_hopeful(),
                challenge: None,
            },
        }
    }
}

/// What a server is to be connected to, or why it is not to be connected.
fn wanted(
    shared: &Shared,
    configured: &Configured,
    held: bool,
    known: Arc<[ToolDefinition]>,
) -> Result<Plan, Box<Still>> {
    if !configured.enabled {
        return Err(Still::because(Status::Disconnected, "it is disabled", Some(ManagerError::Disabled)));
    }
    if !configured.trusted {
        let reason = "it may start only after somebody has trusted it";
        return Err(Still::because(Status::NeedsTrust, reason, Some(ManagerError::NeedsTrust)));
    }
    if held {
        return Err(Still::because(Status::Disconnected, "somebody disconnected it", None));
    }
    let settings = &shared.settings;
    let lookup = |name: &str| settings.variables.get(&configured.org, name);
    // One behind a fence sees its files elsewhere.
    let folder = match &configured.fence {
        Some(fence) => fence.toolset_inside(),
        None => configured.folder.as_deref(),
    };
    let mut resolved = resolve(&configured.launch, folder, lookup).map_err(|error| {
        let reason = error.to_string();
        let error = match error {
            ResolveError::EnvNotSet(missing) => Some(ManagerError::EnvNotSet(missing.name)),
            ResolveError::Refused { .. } => None,
        };
        Still::because(Status::Error, &reason, error)
    })?;
    if let Endpoint::Stdio { fence, .. } = &mut resolved.endpoint {
        fence.clone_from(&configured.fence);
    }
    // Whoever takes a host off the list wants what is connected there to end, and not only to be dialled no more.
    if let (Endpoint::Remote { url, .. }, Some(egress)) = (&resolved.endpoint, &settings.egress) {
        let judged = egress(&configured.org).check_list(url);
        judged.map_err(|refused| Still::because(Status::Error, &refused.to_string(), None))?;
    }
    let is_process = matches!(configured.launch, Launch::Stdio { .. });
    let tokens = match (&resolved.endpoint, &settings.tokens) {
        (Endpoint::Remote { url, .. }, Some(source)) => source.tokens(&configured.org, &configured.key, url),
        _ => None,
    };
    // What all nodes have one process of has no other name in common than its key.
    let is_shared = is_process && settings.leases.as_ref().is_some_and(|leases| leases.shares());
    let identity = Identity {
        endpoint: resolved.endpoint,
        folder: configured.folder.clone(),
        owner: (tokens.is_some() || is_shared).then(|| configured.key.clone()),
    };
    let lazy = settings.lazy && configured.start != Start::Eagerly && is_process;
    let learns = configured.start == Start::LazilyOnceLearnt;
    let (revision, offers) = (configured.revision.clone(), configured.offers.clone());
    Ok(Plan { identity, redactor: resolved.redactor, tokens, lazy, known, revision, offers, learns })
}
