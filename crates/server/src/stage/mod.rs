//! The stage: pages that nobody vouches for, shown on an origin that nothing of ours is on.
//!
//! What a call shows is granted to a random name below `localhost`, or below a domain that was configured for it
//! ([`grants`]). A request for such a name ([`mod@door`]) gets a page of the toolset with the call's data ([`page`]), what a
//! process of the chat serves ([`frame`]), or the app of an MCP server's tool ([`mod@app`]). There are no cookies of ours and no API there.

mod app;
mod connector;
mod domain;
mod door;
mod frame;
mod grants;
mod page;
mod plain;
mod plan;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use kitbag_cas::CasError;
use kitbag_model::{ChatId, ContentHash, OrgId, PlanError, RenderPlan, WorkPath};
use serde_json::{Value, json};
use url::{Host, Url};

pub use connector::Connector;
pub use domain::{FrameOrigin, StageDomain, StageError};
pub(crate) use door::{answer, label};
pub(crate) use page::SHUT_IN;
pub use plan::Ports;
pub(crate) use plan::{Draft, Made, TOOLSET, WORKSPACE};

use self::domain::Names;
use self::grants::{Grant, Grants, Page, Show};
use crate::app::Settings;
use crate::fair::{Share, Shares};
use crate::nodes::Nodes;
use crate::workspaces::{WorkspaceError, Workspaces};

/// So many connections go through frames at a time, and so many through one of them.
const MOST_FRAMES: usize = 512;
const MOST_OF_ONE: usize = 64;

/// Why a plan cannot be shown here.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotShown {
    /// An address of another server that is not on the list.
    #[error("a frame may not show {0}: it is neither a port of the chat nor an origin that --frame-allow names")]
    NotAllowed(String),
    /// A port of a machine that nobody gets to from here.
    #[error("port {0} is on the machine that the agent works on, and cannot be reached from here")]
    OutOfReach(u16),
    /// There is no plan.
    #[error(transparent)]
    NoPlan(#[from] PlanError),
    /// A page that is no file of its toolset.
    #[error("the toolset has no page {0}")]
    NoSuchPage(WorkPath),
    /// A page whose content was not kept.
    #[error("the page was not kept with the call")]
    NoPage,
    /// No address at all.
    #[error("the plan has nothing that a frame could show")]
    NoTarget,
}

impl NotShown {
    /// As a call says it.
    pub(crate) fn as_warning(&self) -> String {
        format!("the result is not shown: {self}")
    }
}

/// The stage of a server. Clones share it.
#[derive(Clone)]
pub struct Stage(Arc<Inner>);

struct Inner {
    names: Names,
    frame_allow: Vec<FrameOrigin>,
    workspaces: Workspaces,
    connector: Connector,
    grants: Mutex<Grants>,
    frames: Shares,
    is_open: AtomicBool,
    nodes: Nodes,
}

/// What a frame shows.
enum Target {
    /// A port of the chat, and the path there.
    Port(u16, String),
    /// Another server, as it is.
    Elsewhere,
}

impl Stage {
    pub(crate) fn new(settings: &Settings, workspaces: Workspaces, connector: Connector, nodes: Nodes) -> Self {
        Self(Arc::new(Inner {
            names: Names::new(settings),
            frame_allow: settings.frame_allow.clone(),
            workspaces,
            connector,
            grants: Mutex::default(),
            frames: Shares::new("connections through frames", MOST_FRAMES, MOST_OF_ONE),
            is_open: AtomicBool::new(false),
            nodes,
        }))
    }

    /// Where a label is found. Where there are several nodes, it says which one knows it.
    fn origin_of(&self, label: &str) -> String {
        match self.0.nodes.short_mark() {
            Some(mark) => self.0.names.origin(&format!("{label}-{mark}")),
            None => self.0.names.origin(label),
        }
    }

    /// Says that the server is listening: from now on there are addresses. A command that answers itself has none.
    pub(crate) fn open(&self) {
        self.0.is_open.store(true, Ordering::Relaxed);
    }

    /// Whether a plan can be shown. Ask when the call is made: a plan that cannot is none, with this as the warning.
    pub fn check(&self, plan: &RenderPlan, ports: Ports) -> Result<(), NotShown> {
        match plan.renderer.name() {
            "html" => page_of(plan).map(drop),
            "frame" => match (self.target(plan)?, ports) {
                (Target::Port(port, _), Ports::OutOfReach) => Err(NotShown::OutOfReach(port)),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A plan for an answer of the API. Plans with a page or a frame get `url`, the address to show; a frame also `source`,
    /// the address that it stands for. What cannot be shown gets `problem` instead.
    pub fn present(&self, org: &OrgId, chat: ChatId, call: &str, plan: &RenderPlan) -> Value {
        let mut config = plan.config.clone();
        let shown = match plan.renderer.name() {
            "html" => self.open_html(org, chat, call, plan).map(Some),
            "frame" => self.open_frame(org, chat, call, plan).map(|(url, source)| {
                config.insert("source".to_owned(), source.into());
                Some(url)
            }),
            _ => Ok(None),
        };
        match shown {
            Ok(None) => {}
            Ok(Some(url)) if self.0.is_open.load(Ordering::Relaxed) => {
                config.insert("url".to_owned(), url.into());
            }
            Ok(Some(_)) => {
                config.remove("url");
            }
            Err(error) => {
                config.remove("url");
                config.insert("problem".to_owned(), error.to_string().into());
            }
        }
        json!({ "renderer": plan.renderer, "config": config })
    }

    /// The address of the app of a call's tool; none where nothing listens. `declared` is what its server says that it has to reach.
    pub(crate) fn open_app(
        &self,
        org: &OrgId,
        chat: ChatId,
        call: &str,
        page: &str,
        declared: Option<&Value>,
    ) -> Option<String> {
        let show = Show::App { page: page.to_owned(), policy: app::policy(declared) };
        // A call may also have a plan, with an address of its own.
        let label = self.grants().open(Instant::now(), org, chat, &format!("app {call}"), show);
        self.0.is_open.load(Ordering::Relaxed).then(|| format!("{}/", self.origin_of(&label)))
    }

    /// Forgets everything that a chat shows.
    pub fn close_chat(&self, org: &OrgId, chat: ChatId) {
        self.grants().close(org, chat);
    }

    /// Forgets everything that an organisation shows, and cuts off what goes through its frames: somebody who saw it may no longer. Whoever
    /// still may asks anew.
    pub fn close_organization(&self, org: &OrgId) {
        self.grants().close_organization(org);
    }

    /// What this server's own page may show in frames, as a content security policy spells it.
    pub(crate) fn frame_sources(&self) -> &str {
        &self.0.names.frame_sources
    }

    /// The address of a page with data.
    fn open_html(&self, org: &OrgId, chat: ChatId, call: &str, plan: &RenderPlan) -> Result<String, NotShown> {
        let show = Show::Page { page: page_of(plan)?, data: plan.config.get("data").cloned().unwrap_or_default() };
        let label = self.grants().open(Instant::now(), org, chat, call, show);
        Ok(format!("{}/", self.origin_of(&label)))
    }

    /// The address of a frame, and the one it stands for.
    fn open_frame(
        &self,
        org: &OrgId,
        chat: ChatId,
        call: &str,
        plan: &RenderPlan,
    ) -> Result<(String, String), NotShown> {
        match self.target(plan)? {
            Target::Elsewhere => {
                let url = plan.text("url").unwrap_or_default();
                Ok((url.to_owned(), url.to_owned()))
            }
            Target::Port(port, path) => {
                let label = self.grants().open(Instant::now(), org, chat, call, Show::Frame { port });
                Ok((format!("{}{path}", self.origin_of(&label)), format!("http://localhost:{port}{path}")))
            }
        }
    }

    fn target(&self, plan: &RenderPlan) -> Result<Target, NotShown> {
        let Some(text) = plan.text("url") else {
            let port = plan.config.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
            return port.map(|port| Target::Port(port, "/".to_owned())).ok_or(NotShown::NoTarget);
        };
        let url = Url::parse(text).map_err(|_| NotShown::NoTarget)?;
        // What a tool calls its own machine is the chat's network, not this one.
        let here = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
            Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
            None => false,
        };
        if here && url.scheme() == "http" {
            let port = url.port_or_known_default().ok_or(NotShown::NoTarget)?;
            return Ok(Target::Port(port, url[url::Position::BeforePath..].to_owned()));
        }
        if self.0.frame_allow.iter().any(|origin| origin.has(&url)) {
            return Ok(Target::Elsewhere);
        }
        Err(NotShown::NotAllowed(url.origin().ascii_serialization()))
    }

    fn names(&self) -> &Names {
        &self.0.names
    }

    fn ancestors(&self) -> &str {
        &self.0.names.ancestors
    }

    fn connector(&self) -> &Connector {
        &self.0.connector
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.0.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections through frames.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> &Shares {
        &self.0.frames
    }

    /// A place for a connection through a frame, if there is one for its organisation.
    fn place_for_a_frame(&self, grant: &Grant) -> Option<Share> {
        self.0.frames.take(&grant.org, &format!("{} {}", grant.chat, grant.call)).ok()
    }

    fn plain(&self, status: StatusCode, text: &str) -> Response<Body> {
        plain::answer(status, self.ancestors(), text)
    }

    /// The bytes of a page, or what to answer instead.
    async fn blob(&self, grant: &Grant, hash: ContentHash) -> Result<Vec<u8>, Response<Body>> {
        match self.0.workspaces.read_blob(&grant.org, grant.chat, hash, page::MOST_READ).await {
            Ok(bytes) => Ok(bytes),
            Err(WorkspaceError::Cas(CasError::Missing { .. })) => {
                Err(self.plain(StatusCode::NOT_FOUND, "The page of this call is not there any more."))
            }
            Err(error) => {
                tracing::error!(%error, chat = %grant.chat, "a page cannot be read");
                Err(self.plain(StatusCode::INTERNAL_SERVER_ERROR, "The page of this call cannot be read."))
            }
        }
    }
}

fn page_of(plan: &RenderPlan) -> Result<Page, NotShown> {
    match (plan.artifact_hash(), plan.config.get("content")) {
        (Some(hash), _) => Ok(Page::Artifact(hash)),
        (None, Some(Value::String(text))) if plan.artifact().is_none() => Ok(Page::Content(text.clone())),
        // A value that is no text is shown as the JSON that it is.
        (None, Some(value)) if plan.artifact().is_none() => Ok(Page::Content(escaped(&value.to_string()))),
        _ => Err(NotShown::NoPage),
    }
}

fn escaped(text: &str) -> String {
    format!("<pre>{}</pre>", text.replace('&', "&amp;").replace('<', "&lt;"))
}

#[cfg(test)]
pub(crate) mod tests;
