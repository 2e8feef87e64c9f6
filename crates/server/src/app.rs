//! What every handler shares.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kitbag_cas::workspace::Limits;
use kitbag_guard::dial::EgressPolicy;
use kitbag_store::Store;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::access::origin::HostRule;
use crate::stage::{Connector, FrameOrigin, Stage, StageDomain};
use crate::toolsets::Toolsets;
use crate::transfer::Inbox;
use crate::workspaces::Workspaces;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address it listens on.
    pub address: SocketAddr,
    /// Names, beside the loopback ones, under which browsers and clients may reach it.
    pub allowed_hosts: Vec<String>,
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
    /// How long a request may take.
    pub request_timeout: Duration,
    /// The data folder.
    pub data: PathBuf,
}

/// The state behind the router. Clones share it.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    store: Store,
    settings: Settings,
    hosts: HostRule,
    workspaces: Workspaces,
    toolsets: Toolsets,
    inbox: Inbox,
    stage: Stage,
    metrics: Option<PrometheusHandle>,
    draining: AtomicBool,
}

impl App {
    /// A server on `store`. Without `metrics` it answers everything but `/metrics`.
    pub fn new(store: Store, settings: Settings, metrics: Option<PrometheusHandle>) -> Self {
        Self::with_connector(store, settings, metrics, Connector::to_nothing())
    }

    /// The same, with a way to the ports that processes of chats listen on.
    pub fn with_connector(
        store: Store,
        settings: Settings,
        metrics: Option<PrometheusHandle>,
        connector: Connector,
    ) -> Self {
        let hosts = HostRule::new(settings.address.ip(), &settings.allowed_hosts);
        let workspaces = Workspaces::new(settings.data.clone(), store.clone(), settings.workspace_limits);
        let toolsets = Toolsets::new(settings.data.clone(), store.clone());
        let inbox = Inbox::new(&settings.data);
        let stage = Stage::new(&settings, workspaces.clone(), connector);
        Self(Arc::new(Inner {
            store,
            settings,
            hosts,
            workspaces,
            toolsets,
            inbox,
            stage,
            metrics,
            draining: AtomicBool::new(false),
        }))
    }

    /// The database.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// How it is set up.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Where untrusted pages are shown.
    pub fn stage(&self) -> &Stage {
        &self.0.stage
    }

    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.0.workspaces
    }

    pub(crate) fn toolsets(&self) -> &Toolsets {
        &self.0.toolsets
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.0.inbox
    }

    /// Removes what a killed server left half-way. Only for whoever has the data folder alone.
    pub async fn tidy_up(&self) {
        if let Err(error) = self.0.inbox.clear() {
            tracing::warn!(%error, "files that never arrived whole could not be removed");
        }
        if let Err(error) = self.0.toolsets.tidy_up().await {
            tracing::warn!(%error, "what was left of an import could not be cleared up");
        }
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

    /// From now on `/readyz` says no, so that a balancer sends nobody new.
    pub(crate) fn start_draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }
}
