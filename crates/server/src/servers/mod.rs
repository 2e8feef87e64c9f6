//! MCP servers kept connected: what the database wants is told to the manager, and what the manager hears is remembered.
//!
//! The rows are the truth ([`Servers::follow`] reads them); the manager has what is alive. A list of tools goes through the pins
//! before anybody sees it. This room knows neither routes nor calls.

pub(crate) mod begun;
mod clients;
mod elsewhere;
mod fences;
mod forget;
mod keeper;
mod news;
mod variables;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kitbag_guard::child::Sandbox;
use kitbag_guard::dial::EgressPolicy;
use kitbag_guard::keeper::SharedKeeper;
use kitbag_mcp::auth::{AuthError, Authorizer, ClientSettings, Egress, KeeperError, Kind, Server};
use kitbag_mcp::connection::Options;
use kitbag_mcp::manager::{
    Configured, Manager, ManagerError, ServerState, Settings as ManagerSettings, Start, Status, Variables,
};
use kitbag_mcp::tool::ToolDefinition;
use kitbag_model::{Installed, InstalledServer, Launch, OrgId, Pin, Secret, ServerKey, Timestamp};
use kitbag_store::{Store, StoreError};
use kitbag_vault::{Vault, VaultError};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{self, OnceCell};
use tokio::task::JoinSet;
use url::Url;

use crate::app::Settings;
use crate::events::Events;
use crate::nodes::{Nodes, ServerLeases};
use crate::rules::Rules;
use crate::storage::Storage;
use crate::toolsets::Shelf;
use begun::Tickets;
pub(crate) use clients::{Client, ClientKey};
use clients::{Clients, SignedIn};
pub(crate) use elsewhere::Shown;
pub(crate) use fences::is_fenced;
pub(crate) use keeper::StoreKeeper;
use variables::Environment;

/// How servers are looked after.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Whether processes whose tools are known wait for their first use.
    pub lazy: bool,
    /// When a process that nobody uses is stopped; none is never.
    pub idle: Option<Duration>,
    /// How long connecting may take.
    pub connect: Duration,
    /// The key that seals tokens, if it is not the one in the data folder.
    pub master_key: Option<Secret>,
    /// Folders with programs that those in the sandbox may see besides the system's.
    pub sandbox_programs: Vec<PathBuf>,
    /// Whether those in the sandbox that are not `local`'s are in this machine's network.
    pub sandbox_network: bool,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            lazy: true,
            idle: None,
            connect: Duration::from_secs(30),
            master_key: None,
            sandbox_programs: Vec::new(),
            sandbox_network: false,
        }
    }
}

/// So long somebody who reconnects a server waits for what comes of it.
const RECONNECT: Duration = Duration::from_secs(10);

/// Why a server's tools are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LearnError {
    #[error(transparent)]
    Manager(#[from] ManagerError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a client was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// The most bytes of one message of a server.
const LONGEST_MESSAGE: usize = 32 << 20;

/// The most tools of one server.
const MOST_TOOLS: usize = 2_000;

/// Names of this machine. A person's own servers may be on it.
const THIS_MACHINE: [&str; 3] = ["127.0.0.0/8", "::1/128", "localhost"];

/// All servers of all organisations. Clones share them.
#[derive(Clone)]
pub(crate) struct Servers(Arc<Inner>);

struct Inner {
    data: PathBuf,
    storage: Storage,
    store: Store,
    nodes: Nodes,
    /// The servers of whoever runs this program, which may be on this machine.
    local: Manager,
    /// Those of everybody else.
    others: Manager,
    authorizer: Arc<Authorizer>,
    clients: Arc<Clients>,
    keeper: Arc<StoreKeeper>,
    rules: Rules,
    variables: Arc<Environment>,
    /// Another number whenever a server is other than before.
    version: Arc<AtomicU64>,
    /// Tokens of servers that are gone, on their way back to who gave them.
    farewells: Mutex<JoinSet<()>>,
    tickets: Tickets,
    /// Who makes the sandboxes.
    sandboxes: SharedKeeper,
    shared_network: bool,
    /// Held by whoever renames or removes the folders that servers keep.
    homes: sync::Mutex<()>,
    /// Held by whoever reads what is wanted and tells it to a manager.
    reading: sync::Mutex<()>,
    /// Servers are kept connected here, or are about to be.
    begun: AtomicBool,
    started: OnceCell<()>,
}

impl Servers {
    /// What seals what must not be read or changed on its way.
    pub(crate) async fn vault(&self) -> Result<Arc<Vault>, KeeperError> {
        self.0.keeper.vault().await
    }

    /// A server, once it is there: one that sleeps is woken. As it is when this time has passed.
    pub(crate) async fn arrived(&self, org: &OrgId, key: &ServerKey, within: Duration) -> Option<ServerState> {
        let manager = self.manager(org);
        let state = manager.state(org, key)?;
        if state.status == Status::Connected || !state.hopeful {
            return Some(state);
        }
        let _ = tokio::time::timeout(within, manager.refresh(org, key)).await;
        manager.state(org, key)
    }

    /// Whether a server speaks a revision without sessions now.
    pub(crate) fn is_stateless(&self, org: &OrgId, key: &ServerKey) -> bool {
        let version = self.manager(org).state(org, key).and_then(|state| state.protocol_version);
        version.is_some_and(|version| kitbag_mcp::serve::STATELESS.contains(&version.as_str()))
    }

    /// How many servers there are in a state, of all organisations.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Status, usize)> {
        let (local, others) = (self.0.local.counts(), self.0.others.counts());
        let of = |counts: &HashMap<Status, usize>, status| counts.get(&status).copied().unwrap_or_default();
        Status::ALL.into_iter().map(move |status| (status, of(&local, status) + of(&others, status)))
    }

    /// While this is the same number, servers and their tools are what they were.
    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Nothing is connected yet.
    pub(crate) fn new(
        settings: &Settings,
        (store, nodes): (&Store, &Nodes),
        rules: &Rules,
        events: &Events,
        sandboxes: SharedKeeper,
        storage: Storage,
    ) -> Self {
        let keeper = StoreKeeper::new(store.clone(), settings.data.clone(), settings.servers.master_key.clone());
        let keeper = Arc::new(keeper);
        let clients = Arc::new(Clients::new(Arc::clone(&keeper)));
        let egress: Egress = {
            let rules = rules.clone();
            Arc::new(move |org| policy(rules.egress(org), org))
        };
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&egress), Arc::clone(&keeper) as _));
        let variables = Arc::new(Environment { operator: settings.organizations.clone() });
        let (heard, changes) = unbounded_channel();
        let manager = || {
            let options = Options {
                connect: settings.servers.connect,
                answer: Duration::from_secs(60),
                egress: settings.egress.clone(),
                longest_message: LONGEST_MESSAGE,
                most_tools: MOST_TOOLS,
                pass_environment: settings.calls.pass_environment.clone(),
                sandbox: Some(Sandbox {
                    keeper: sandboxes.clone(),
                    programs: settings.servers.sandbox_programs.clone(),
                    memory: settings.calls.tool_memory_bytes,
                }),
            };
            let mut chosen = ManagerSettings::new(options, Arc::clone(&variables) as _);
            chosen.egress = Some(Arc::clone(&egress));
            chosen.lazy = settings.servers.lazy;
            chosen.idle = settings.servers.idle;
            if nodes.are_several() {
                chosen.leases = Some(Arc::new(ServerLeases::new(nodes.clone(), Arc::clone(&keeper))));
                // It may be at a node that is dead, which must be found out first.
                chosen.wait += nodes.patience();
            }
            let (authorizer, clients) = (Arc::clone(&authorizer), Arc::clone(&clients));
            chosen.tokens = Some(Arc::new(SignedIn { authorizer, clients }));
            Manager::new(chosen, heard.clone())
        };
        let (local, others) = (manager(), manager());
        let servers = Self(Arc::new(Inner {
            data: settings.data.clone(),
            storage,
            store: store.clone(),
            nodes: nodes.clone(),
            local,
            others,
            authorizer,
            clients,
            keeper,
            rules: rules.clone(),
            variables: Arc::clone(&variables),
            version: Arc::default(),
            farewells: Mutex::default(),
            tickets: Tickets::default(),
            sandboxes: sandboxes.clone(),
            shared_network: settings.servers.sandbox_network,
            homes: sync::Mutex::new(()),
            reading: sync::Mutex::new(()),
            begun: AtomicBool::new(false),
            started: OnceCell::new(),
        }));
        news::listen(changes, store.clone(), events.clone(), Arc::clone(&servers.0.version));
        servers
    }

    /// Connects the servers of all organisations, in the background.
    pub(crate) async fn start(&self) {
        // From here on whoever changes something tells it: what is read below may be from before.
        self.0.begun.store(true, Ordering::Release);
        let started = async {
            for org in self.0.store.system().await?.organization_ids().await? {
                self.read(&org).await?;
                self.forget_later(org);
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = self.0.started.get_or_try_init(|| started).await {
            tracing::error!(%error, "which MCP servers there are could not be read");
        }
    }

    /// What an organisation has was changed: connects, ends and leaves alone what that means. Before [`Servers::start`] nothing
    /// is connected. Sign-ins of servers that are gone are forgotten.
    pub(crate) async fn follow(&self, org: &OrgId) {
        let done = async {
            self.0.rules.of(org).await?;
            if self.0.begun.load(Ordering::Acquire) {
                self.read(org).await?;
            }
            self.forget_the_gone(org).await
        };
        if let Err(error) = done.await {
            tracing::error!(%error, %org, "which MCP servers there are could not be read");
        }
    }

    async fn read(&self, org: &OrgId) -> Result<(), StoreError> {
        // One at a time: of two who read, the one who read first would otherwise tell last what is no longer so.
        let _alone = self.0.reading.lock().await;
        // Whoever dials for it cannot wait to learn whom it may dial.
        self.0.rules.of(org).await?;
        let mut tx = self.0.store.read_beside(org).await?;
        let (installed, pins) = (tx.all_installed().await?, tx.all_pins().await?);
        drop(tx);
        self.read_clients(org).await?;
        if self.0.storage.is_shared() {
            self.lay_out(org, &installed).await;
        }
        let all = || installed.iter().flat_map(|one| one.servers.iter().map(move |server| (one, server)));
        let open = all().any(|(_, server)| is_fenced(org, server)) && self.fences_are_open().await;
        let wanted = all().map(|(one, server)| self.configured(org, one, server, &pins, open)).collect();
        self.manager(org).configure(org, wanted);
        Ok(())
    }

    async fn read_clients(&self, org: &OrgId) -> Result<(), StoreError> {
        let names = self.0.store.read_beside(org).await?.secret_names(&[Kind::Settings.as_str()]).await?;
        if let Err(error) = self.0.clients.read(org, names).await {
            tracing::error!(%error, %org, "how Kitbag is known to authorization servers could not be read");
        }
        Ok(())
    }

    /// Has the files here of toolsets whose servers may be started. One that cannot be had is told by its server's start.
    async fn lay_out(&self, org: &OrgId, installed: &[Installed]) {
        let shelf = Shelf::of(&self.0.storage, org);
        let with_servers = installed.iter().filter(|one| !one.servers.is_empty());
        let generations: Vec<String> = with_servers.filter_map(|one| one.toolset.generation.clone()).collect();
        let laid_out = tokio::task::spawn_blocking(move || {
            for generation in generations {
                if let Err(error) = shelf.lay_out(&generation) {
                    tracing::warn!(%error, "the files of a toolset with MCP servers could not be had");
                }
            }
        });
        laid_out.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }

    fn configured(
        &self,
        org: &OrgId,
        one: &Installed,
        server: &InstalledServer,
        pins: &[Pin],
        open: bool,
    ) -> Configured {
        let (key, shelf) = (one.server_key(&server.server), Shelf::of(&self.0.storage, org));
        let known = pins.iter().filter(|pin| pin.listed && pin.server == key).map(definition).collect();
        let folder = one.toolset.generation.as_ref().map(|files| shelf.folder_of(&one.toolset.id, files));
        Configured {
            org: org.clone(),
            launch: server.server.launch.clone(),
            fence: self.fence(org, &key, server, folder.clone(), open),
            folder,
            enabled: one.toolset.enabled && server.is_enabled(),
            trusted: server.is_trusted(),
            start: if server.is_relaunched() { Start::LazilyOnceLearnt } else { Start::Lazily },
            known,
            mark: mark(org, one, server),
            revision: server.last_revision(Timestamp::now()).map(ToOwned::to_owned),
            offers: server.last_offers().map(<[String]>::to_vec),
            key,
        }
    }

    /// Whoever looks after an organisation's servers.
    pub(crate) fn manager(&self, org: &OrgId) -> &Manager {
        if *org == OrgId::local() { &self.0.local } else { &self.0.others }
    }

    /// Whether servers are kept connected here.
    pub(crate) fn is_started(&self) -> bool {
        self.0.started.initialized()
    }

    /// Asks a server for its tools, starting it if need be, and remembers them.
    pub(crate) async fn learn(&self, org: &OrgId, key: &ServerKey) -> Result<(), LearnError> {
        self.start_one(org, key).await?;
        let tools = self.manager(org).refresh(org, key).await?;
        news::remember(&self.0.store, org, key, &tools).await?;
        Ok(())
    }

    /// Looks after an organisation's servers so that this one can be used, which the database says is on and trusted.
    pub(crate) async fn start_one(&self, org: &OrgId, key: &ServerKey) -> Result<(), StoreError> {
        let usable = |(status, hopeful)| hopeful || !matches!(status, Status::Disconnected | Status::NeedsTrust);
        // A program that serves nobody connects nothing by itself; one that does may not have heard yet what another node was told.
        let is_known = self.is_started() && self.manager(org).standing(org, key).is_some_and(usable);
        if is_known { Ok(()) } else { Box::pin(self.read(org)).await }
    }

    /// Connects a server anew, whatever it waits for, and waits a while for what comes of it.
    pub(crate) async fn reconnect(&self, org: &OrgId, key: &ServerKey) -> Result<(), LearnError> {
        self.start_one(org, key).await?;
        // Here, what leads there is connected anew only if it had given up.
        let is_done = self.reconnect_elsewhere(org, key).await?;
        if !is_done || self.state(org, key).is_some_and(|state| state.status == Status::Error) {
            self.reconnect_here(org, key).await?;
        }
        Ok(())
    }

    /// Where a server is dialled, with every variable resolved; none if it is started.
    pub(crate) async fn url(&self, org: &OrgId, key: &ServerKey) -> Result<Option<Url>, StoreError> {
        self.0.rules.of(org).await?;
        let installed = self.0.store.read_beside(org).await?.installed(&key.toolset).await?;
        let server = installed.as_ref().and_then(|one| one.server(key.server.as_str()));
        let Some(Launch::Remote { url, .. }) = server.map(|server| &server.server.launch) else { return Ok(None) };
        let resolved = url.resolve(|name| self.0.variables.get(org, name));
        Ok(resolved.ok().and_then(|text| Url::parse(&text).ok()))
    }

    /// How a server is, if somebody looks after it.
    pub(crate) fn state(&self, org: &OrgId, key: &ServerKey) -> Option<ServerState> {
        self.manager(org).state(org, key)
    }

    /// Why a server that is on and may start cannot be used now.
    pub(crate) fn trouble(&self, org: &OrgId, key: &ServerKey) -> Option<String> {
        let (status, _) = self.manager(org).standing(org, key)?;
        match status {
            Status::Connected | Status::Connecting | Status::Disconnected => None,
            status => {
                let reason = self.state(org, key).map(|state| state.reason).unwrap_or_default();
                Some(format!("{key} is not connected (status: {status}): {reason}"))
            }
        }
    }

    /// Whether a call may get an answer from a server that is not connected: it is tried for it.
    pub(crate) fn is_hopeful(&self, org: &OrgId, key: &ServerKey) -> bool {
        self.manager(org).standing(org, key).is_some_and(|(_, hopeful)| hopeful)
    }

    /// Who signs in.
    pub(crate) fn authorizer(&self) -> &Arc<Authorizer> {
        &self.0.authorizer
    }

    /// Sign-ins that wait for a browser.
    pub(crate) fn tickets(&self) -> &Tickets {
        &self.0.tickets
    }

    /// How Kitbag introduces itself where somebody signs in to a server.
    pub(crate) fn client(&self, org: &OrgId, key: &ServerKey) -> Arc<ClientSettings> {
        self.0.clients.of(org, key)
    }

    /// From now on Kitbag is this client for a server; none is one that registers itself. Whoever was signed in is signed out.
    pub(crate) async fn set_client(&self, server: &Server, client: Option<Client>) -> Result<(), ClientError> {
        self.0.clients.keep(&server.org, &server.key, client).await?;
        self.read_clients(&server.org).await?;
        self.authorizer().revoke(server).await?;
        Ok(())
    }

    /// A server has another name: it keeps what it has, and Kitbag is known for it as before.
    pub(crate) async fn rename(&self, org: &OrgId, from: &ServerKey, to: &ServerKey) {
        self.rename_home(org, from, to).await;
        if let Err(error) = self.0.clients.rename(org, from, to).await {
            tracing::error!(%error, server = %to, "how Kitbag is known for it did not go along with its new name");
        }
        // Nodes know a process by its server's name: the next one begins when this one has ended.
        self.end_everywhere(org, from).await;
    }

    /// Ends all servers.
    pub(crate) async fn shut_down(&self) {
        tokio::join!(self.0.local.shut_down(), self.0.others.shut_down(), self.farewells_said());
    }
}

/// Opens the vault once, which makes its key at the first start.
pub fn check_master_key(data: &Path, given: Option<&Secret>) -> Result<(), VaultError> {
    Vault::open(data, given).map(drop)
}

/// Why a server does not become one of several.
#[derive(Debug, thiserror::Error)]
pub enum WrongKey {
    /// What one node seals, the others could not open, and none would take another for a node.
    #[error(
        "this server's master key ({ours}) is not the one that the servers of this database have ({theirs}). Give each of them the same \
         KITBAG_MASTER_KEY, or the same file master.key in its data folder; to change the key, put the new one in front of the old one \
         at all of them and run `kitbag admin reseal`"
    )]
    Other {
        /// The names of the keys here.
        ours: String,
        /// That of the installation's.
        theirs: String,
    },
    /// The key cannot be read.
    #[error("the master key cannot be used: {0}")]
    Vault(String),
    /// The database cannot be asked.
    #[error(transparent)]
    Store(#[from] kitbag_store::StoreError),
}

impl crate::app::App {
    /// Looks whether this server has the installation's master key, if others are to reach it. The first of all says which one that is.
    pub async fn check_shared_key(&self) -> Result<(), WrongKey> {
        let (Some(nodes), Some(_)) = (self.store().nodes(), &self.settings().nodes.advertise) else { return Ok(()) };
        let vault = self.servers().vault().await.map_err(|error| WrongKey::Vault(error.to_string()))?;
        let theirs = nodes.master_key(&vault.key_id().to_string()).await?;
        let ours: Vec<String> = vault.key_ids().map(|id| id.to_string()).collect();
        match ours.contains(&theirs) {
            true => Ok(()),
            false => Err(WrongKey::Other { ours: ours.join(", "), theirs }),
        }
    }
}

/// What a server is started from, as all nodes know it.
fn mark(org: &OrgId, one: &Installed, server: &InstalledServer) -> String {
    let launch = server.server.launch.fingerprint();
    let files = one.toolset.generation.as_deref().unwrap_or_default();
    let fence = if is_fenced(org, server) { "fenced" } else { "free" };
    format!("{launch} {files} {fence}")
}

fn policy(mut policy: EgressPolicy, org: &OrgId) -> EgressPolicy {
    if *org == OrgId::local() {
        policy.allow.extend(THIS_MACHINE.iter().filter_map(|entry| entry.parse().ok()));
    }
    policy
}

fn definition(pin: &Pin) -> ToolDefinition {
    ToolDefinition::new(pin.tool.to_string(), &pin.seen.definition)
}
