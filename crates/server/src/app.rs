//! What every handler shares.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kitbag_bucket::Bucket;
use kitbag_cas::workspace::Limits;
use kitbag_guard::dial::EgressPolicy;
use kitbag_identity::IssuerSettings;
use kitbag_model::{Action, Identity, OrgId, OrgRole, Timestamp, Token, TokenId, UserId};
use kitbag_python::Workers;
use kitbag_store::{Store, StoreError};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::Value;
use url::Url;

use crate::access::client::Network;
use crate::access::issuers::Issuers;
use crate::access::noted::Lately;
use crate::access::origin::HostRule;
use crate::access::people::{self, Tries};
use crate::access::stay::Rights;
use crate::calls::{CallSettings, Calls, Rooms};
use crate::containers::{ContainerSettings, Containers};
use crate::edge::Counted;
use crate::events::Events;
use crate::fair::Fair;
use crate::gallery::Gallery;
use crate::gateway::Gateway;
use crate::listen::most_connections;
use crate::nodes::{Beating, Line, NodeSettings, Nodes};
use crate::ops::scrapers::Scrapers;
use crate::page::PageFiles;
use crate::recent::Recent;
use crate::resolution::ResolutionSettings;
use crate::rules::{OrganizationsRules, Rules};
use crate::runs::{self, AgentRuns, RunSettings};
use crate::servers::{ServerSettings, Servers};
use crate::stage::{Connector, FrameOrigin, Stage, StageDomain};
use crate::storage::Storage;
use crate::toolsets::Toolsets;
use crate::transfer::Inbox;
use crate::turns::{ModelSettings, Turns};
use crate::workspaces::Workspaces;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address it listens on.
    pub address: SocketAddr,
    /// Names, beside the loopback ones, under which browsers and clients may reach it.
    pub allowed_hosts: Vec<String>,
    /// The address under which people reach it, where another program stands in front. Links that it gives out begin with it.
    pub public_url: Option<Url>,
    /// The domain whose names untrusted pages are served under, beside those below `localhost`.
    pub stage_domain: Option<StageDomain>,
    /// Other origins that a frame may show.
    pub frame_allow: Vec<FrameOrigin>,
    /// Whether everybody who reaches it is the embedded user.
    pub no_auth: bool,
    /// The most bytes that a request's body may have.
    pub max_body_bytes: usize,
    /// The most bytes that a file, or a body with files, may have on its way into a workspace.
    pub max_upload_bytes: u64,
    /// How much a workspace may hold.
    pub workspace_limits: Limits,
    /// Where the server may dial when somebody names an address.
    pub egress: EgressPolicy,
    /// How tools are called.
    pub calls: CallSettings,
    /// How tools run in containers.
    pub containers: ContainerSettings,
    /// How MCP servers are looked after.
    pub servers: ServerSettings,
    /// How this server and others on the same database get along.
    pub nodes: NodeSettings,
    /// How runs of agents are looked after.
    pub runs: RunSettings,
    /// Where models are.
    pub models: ModelSettings,
    /// Which tools clients get.
    pub resolution: ResolutionSettings,
    /// What organisations other than `local` may have.
    pub organizations: OrganizationsRules,
    /// How many requests a second one client may make at the MCP endpoint; 0 is no limit.
    pub mcp_rate: u32,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// Where people sign in beside here, and who gives clients access tokens.
    pub issuers: Vec<IssuerSettings>,
    /// Programs in front of it, whose word for who is asking is taken.
    pub trusted_proxies: Vec<Network>,
    /// Where the files of the page are.
    pub page: PageFiles,
    /// Where bytes are kept that rows only name.
    pub blobs: BlobSettings,
    /// The data folder.
    pub data: PathBuf,
    /// The configuration file, where another than that of the data folder was named.
    pub config: Option<PathBuf>,
}

/// Where bytes are kept that rows only name.
#[derive(Clone, Debug)]
pub struct BlobSettings {
    /// The bucket that has them; none: the data folder does.
    pub bucket: Option<Bucket>,
    /// The most bytes that copies of what the bucket has may take.
    pub cache_bytes: u64,
    /// The most bytes that workspaces may take which are laid out though nobody uses them, if the bucket has what is in them.
    pub workspace_bytes: u64,
}

impl Default for BlobSettings {
    fn default() -> Self {
        Self { bucket: None, cache_bytes: 10 << 30, workspace_bytes: 20 << 30 }
    }
}

impl Settings {
    /// Whether browsers reach it by HTTPS alone, so that its cookies need travel no other way.
    pub(crate) fn is_public_https(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.scheme() == "https")
    }

    /// The address that links begin with, without a slash behind.
    pub(crate) fn base_url(&self) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{}", self.address),
        }
    }
}

/// The state behind the router. Clones share it.
#[derive(Clone)]
pub struct App(Arc<Inner>);

/// The same for those who must not keep it from ending.
#[derive(Clone)]
pub(crate) struct WeakApp(Weak<Inner>);

impl WeakApp {
    pub(crate) fn upgrade(&self) -> Option<App> {
        self.0.upgrade().map(App)
    }
}

struct Inner {
    store: Store,
    tokens: Recent<(OrgId, TokenId), Token>,
    counted: Counted,
    fair: Fair,
    tries: Tries,
    refusals: Lately,
    scrapers: Scrapers,
    lent: Lately,
    people_seen: AtomicBool,
    rules: Rules,
    issuers: Issuers,
    identities: Recent<String, UserId>,
    roles: Recent<(OrgId, UserId), OrgRole>,
    rights: Rights,
    settings: Settings,
    hosts: HostRule,
    nodes: Nodes,
    beating: Mutex<Option<Beating>>,
    workspaces: Workspaces,
    servers: Servers,
    containers: Containers,
    toolsets: Toolsets,
    workers: Workers,
    events: Events,
    calls: Calls,
    runs: AgentRuns,
    turns: Turns,
    inbox: Inbox,
    gallery: Gallery,
    stage: Stage,
    gateway: Gateway,
    metrics: Option<PrometheusHandle>,
    stopping: AtomicBool,
    draining: AtomicBool,
    started: Timestamp,
}

impl App {
    /// A server on `store`. Without `metrics` it answers everything but `/metrics`.
    pub fn new(store: Store, settings: Settings, metrics: Option<PrometheusHandle>) -> Self {
        let workers = Workers::new(settings.calls.workers(settings.data.clone()));
        let ports = workers.clone();
        let connector = Connector::new(move |org, chat, port| {
            let ports = ports.clone();
            async move { ports.connect(&org, chat, port).await }
        });
        Self::with(store, settings, metrics, workers, connector)
    }

    /// The same, with another way to the ports that processes of chats listen on.
    #[cfg(test)]
    pub(crate) fn with_connector(store: Store, settings: Settings, connector: Connector) -> Self {
        let workers = Workers::new(settings.calls.workers(settings.data.clone()));
        Self::with(store, settings, None, workers, connector)
    }

    fn with(
        store: Store,
        settings: Settings,
        metrics: Option<PrometheusHandle>,
        workers: Workers,
        connector: Connector,
    ) -> Self {
        let hosts = HostRule::new(settings.address.ip(), &settings.allowed_hosts);
        let events = Events::new();
        let rules = Rules::new(&store, settings.organizations.clone(), settings.egress.clone());
        let nodes = Nodes::new(&settings.data, &store, settings.nodes.clone());
        let storage = Storage::new(&settings);
        let limits = settings.workspace_limits;
        let workspaces = Workspaces::new(storage.clone(), limits, &store, &rules, &events, &nodes);
        let keeper = workers.shared_keeper();
        let servers = Servers::new(&settings, (&store, &nodes), &rules, &events, keeper.clone(), storage.clone());
        let containers = Containers::new(&settings, &storage, &store, &events, &servers, &nodes, keeper);
        workspaces.seen_by(&containers);
        let toolsets = Toolsets::new(
            storage.clone(),
            store.clone(),
            workers.clone(),
            events.clone(),
            servers.clone(),
            containers.clone(),
        );
        let stage = Stage::new(&settings, workspaces.clone(), connector, nodes.clone());
        let rooms = Rooms {
            workspaces: workspaces.clone(),
            toolsets: toolsets.clone(),
            workers: workers.clone(),
            containers: containers.clone(),
            servers: servers.clone(),
            events: events.clone(),
            stage: stage.clone(),
            rules: rules.clone(),
            nodes: nodes.clone(),
        };
        let calls = Calls::new(&settings, &store, rooms);
        let rooms = runs::Rooms {
            rules: rules.clone(),
            toolsets: toolsets.clone(),
            workspaces: workspaces.clone(),
            events: events.clone(),
            nodes: nodes.clone(),
            servers: servers.clone(),
            stage: stage.clone(),
        };
        let runs = AgentRuns::new(settings.runs, &store, rooms);
        let inbox = Inbox::new(&settings.data);
        let turns = Turns::new(settings.models.most_turns);
        let gallery = Gallery::new(&storage, store.clone());
        Self(Arc::new(Inner {
            store,
            tokens: Recent::default(),
            counted: Counted::default(),
            fair: Fair::new(most_connections(), settings.request_timeout),
            tries: Tries::default(),
            refusals: Lately::default(),
            scrapers: Scrapers::default(),
            lent: Lately::default(),
            people_seen: AtomicBool::new(false),
            rules,
            issuers: Issuers::new(&settings.issuers, &settings.egress),
            identities: Recent::default(),
            roles: Recent::default(),
            rights: Rights::default(),
            settings,
            hosts,
            beating: Mutex::default(),
            workspaces,
            servers,
            containers,
            toolsets,
            workers,
            events,
            calls,
            runs,
            turns,
            inbox,
            gallery,
            stage,
            gateway: Gateway::new(&nodes),
            metrics,
            nodes,
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            started: Timestamp::now(),
        }))
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// What is counted of requests.
    pub(crate) fn counted(&self) -> &Counted {
        &self.0.counted
    }

    /// What organisations share.
    pub(crate) fn fair(&self) -> &Fair {
        &self.0.fair
    }

    /// A token that was given out.
    pub(crate) async fn token(&self, org: &OrgId, id: TokenId) -> Result<Option<Token>, StoreError> {
        let read = async || self.store().read_beside(org).await?.token(id).await;
        self.0.tokens.get(self.store().edition(), (org.clone(), id), read).await
    }

    /// Adds a line to the audit about something that is no row, and so has no transaction of its own.
    pub(crate) async fn note(
        &self,
        org: &OrgId,
        who: &str,
        action: Action,
        subject: &str,
        details: &Value,
    ) -> Result<(), StoreError> {
        let mut tx = self.store().write(org).await?;
        tx.audit(who, action, subject, details).await?;
        // Nothing is remembered of the audit, so whatever is stays true.
        tx.commit_chat().await
    }

    /// Who is known by a name.
    pub(crate) async fn known_by(&self, identity: &Identity) -> Result<Option<UserId>, StoreError> {
        let read = || self.store().whose(identity);
        self.0.identities.get(self.store().edition(), identity.as_str().to_owned(), read).await
    }

    /// What somebody is in an organisation now, if anything.
    pub(crate) async fn role(&self, org: &OrgId, user: UserId) -> Result<Option<OrgRole>, StoreError> {
        let read = async || Ok(people::member(self, org, user).await?.map(|member| member.role));
        self.0.roles.get(self.store().edition(), (org.clone(), user), read).await
    }

    /// Where people sign in beside here, and who gives clients access tokens.
    pub(crate) fn issuers(&self) -> &Issuers {
        &self.0.issuers
    }

    /// Tells those who stay that somebody's rights may have ended.
    pub(crate) fn rights(&self) -> &Rights {
        &self.0.rights
    }

    /// Has everybody who stays looked at again, at the other nodes too.
    pub(crate) fn rights_changed(&self) {
        self.events().tell_others(&OrgId::local(), || Line::Rights);
        self.rights().changed();
    }

    /// This node and the others.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.0.nodes
    }

    /// The same server, for those who must not keep it from ending.
    pub(crate) fn downgrade(&self) -> WeakApp {
        WeakApp(Arc::downgrade(&self.0))
    }

    /// Has what keeps this node alive go on until the server ends.
    pub(crate) fn keep_beating(&self, beating: Beating) {
        *self.0.beating.lock().unwrap_or_else(PoisonError::into_inner) = Some(beating);
    }

    /// How often somebody may still be wrong about a password.
    pub(crate) fn tries(&self) -> &Tries {
        &self.0.tries
    }

    /// Who was refused something a moment ago.
    pub(crate) fn refusals(&self) -> &Lately {
        &self.0.refusals
    }

    /// Who was let in to the metrics lately.
    pub(crate) fn scrapers(&self) -> &Scrapers {
        &self.0.scrapers
    }

    /// Which clients with an issuer's tokens were here a moment ago.
    pub(crate) fn lent(&self) -> &Lately {
        &self.0.lent
    }

    /// Whether somebody was found who signs in here.
    pub(crate) fn people_seen(&self) -> bool {
        self.0.people_seen.load(Ordering::Relaxed)
    }

    pub(crate) fn see_people(&self) {
        self.0.people_seen.store(true, Ordering::Relaxed);
    }

    /// What holds for organisations.
    pub(crate) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// An organisation says something else about itself. Whoever keeps to it must know at once.
    pub(crate) async fn settings_changed(&self, org: &OrgId, changed: &[String]) {
        if let Err(error) = self.0.rules.changed(org).await {
            tracing::error!(%error, %org, "settings that were changed could not be read again");
        }
        self.events().tell_others(org, || Line::Rules);
        let is_about = |section: &str| changed.iter().any(|key| key.starts_with(section));
        if is_about("network.") || is_about("resolution.") {
            self.tools_changed(org, "", "settings").await;
        }
    }

    /// The turns of models.
    pub(crate) fn turns(&self) -> &Turns {
        &self.0.turns
    }

    /// How it is set up.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Since when it serves.
    pub(crate) fn started(&self) -> Timestamp {
        self.0.started
    }

    /// Where untrusted pages are shown.
    pub fn stage(&self) -> &Stage {
        &self.0.stage
    }

    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.0.workspaces
    }

    pub(crate) fn containers(&self) -> &Containers {
        &self.0.containers
    }

    pub(crate) fn toolsets(&self) -> &Toolsets {
        &self.0.toolsets
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.0.workers
    }

    pub(crate) fn events(&self) -> &Events {
        &self.0.events
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }

    pub(crate) fn runs(&self) -> &AgentRuns {
        &self.0.runs
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        &self.0.gateway
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.0.inbox
    }

    pub(crate) fn gallery(&self) -> &Gallery {
        &self.0.gallery
    }

    /// Removes what a killed server left half-way. Only for whoever has the data folder alone.
    pub async fn tidy_up(&self) {
        if let Err(error) = self.0.inbox.clear() {
            tracing::warn!(%error, "files that never arrived whole could not be removed");
        }
        if let Err(error) = self.0.toolsets.tidy_up().await {
            tracing::warn!(%error, "what was left of an import could not be cleared up");
        }
        if let Err(error) = self.0.gallery.tidy_up().await {
            tracing::warn!(%error, "bundles that nothing published needs could not be removed");
        }
        self.0.containers.tidy_up().await;
        if let Err(error) = self.0.nodes.take_up(self).await {
            tracing::warn!(%error, "what ran in this folder before could not be ended");
        }
        if let Err(error) = self.0.calls.take_up().await {
            tracing::warn!(%error, "the calls of the server that ran before could not be looked after");
        }
    }

    /// Ends all calls, which are recorded as cut off, and everything that they left running.
    pub async fn shut_down(&self) {
        // Turns end with what they wait for, also where nobody drained the server before.
        self.0.events.end();
        for turn in self.running_turns() {
            turn.over().await;
        }
        self.0.calls.shut_down().await;
        // Nothing is at work in a chat any more, and others need not wait until the servers have ended, too.
        self.0.nodes.drain(self.workers(), self.containers()).await;
        self.0.servers.shut_down().await;
        // Last: until here nobody else may have what runs here.
        self.0.beating.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Whoever leaves is looked after by nobody: calls whose end is not recorded would run for ever.
        if self.0.calls.end_the_rest().await {
            self.0.nodes.leave().await;
        }
    }

    /// Has other nodes, if there are any, start the MCP servers whose processes are here. A call that is under way has `patience`.
    pub(crate) async fn hand_over(&self, patience: Duration) {
        if self.0.nodes.has_successor() {
            self.0.servers.let_go(patience).await;
        }
    }

    /// Connects the MCP servers of all organisations, in the background.
    pub async fn start_servers(&self) {
        self.0.servers.start().await;
    }

    pub(crate) fn servers(&self) -> &Servers {
        &self.0.servers
    }

    /// A toolset, or something of it, is other than before: whoever keeps its servers connected must know, and whoever listens.
    pub(crate) async fn tools_changed(&self, org: &OrgId, toolset: &str, reason: &str) {
        self.0.servers.follow(org).await;
        self.0.containers.follow(org, toolset);
        self.0.events.tools_changed(org, toolset, reason);
    }

    /// Writes down what is worth knowing at the next start. Call it when nothing runs any more.
    pub fn save(&self) {
        self.0.workspaces.save();
    }

    pub(crate) fn hosts(&self) -> &HostRule {
        &self.0.hosts
    }

    pub(crate) fn metrics(&self) -> Option<&PrometheusHandle> {
        self.0.metrics.as_ref()
    }

    /// From now on `/readyz` says no, so that a balancer sends nobody new, no call begins, and nobody listens any more.
    pub(crate) fn start_draining(&self) {
        // Where another node goes on, a request that was taken a moment ago must not be refused: calls end with the connections then.
        if !self.0.nodes.has_peers() {
            self.0.calls.close();
        }
        self.0.events.end();
        self.0.gateway.close();
        self.0.draining.store(true, Ordering::Relaxed);
    }

    /// From now on `/readyz` says no, and all else goes on.
    pub(crate) fn will_stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether nobody new should come.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }
}
