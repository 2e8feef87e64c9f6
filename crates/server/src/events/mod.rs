//! What happens, told to whoever listens just now. Nothing is kept: who was not there asks the API.
//!
//! The bus holds a bounded number of events. A listener that is too slow misses some, is told so, and never slows anybody down.

mod sight;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use kitbag_model::{ChatId, OrgId, ServerKey, UserId};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio::sync::{mpsc, watch};

use crate::nodes::{Line, Nodes};

pub(crate) use sight::Sight;

/// So many events wait for the slowest listener.
const WAITING: usize = 1024;

/// So many paths are named; of more only the number is told.
const MOST_PATHS: usize = 500;

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) org: OrgId,
    /// The chat it happened in; none if it concerns all of them.
    pub(crate) chat: Option<ChatId>,
    /// The person whom alone it concerns, beside those who manage; none if it concerns everybody.
    pub(crate) private_to: Option<UserId>,
    pub(crate) name: Cow<'static, str>,
    pub(crate) data: Value,
}

/// Something that is other than before, for clients of our own MCP endpoint.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The tools of an organisation.
    Tools(OrgId),
    /// The files of a chat.
    Files(OrgId, ChatId),
    /// The tools that a chat may use.
    Selectors(OrgId, ChatId),
    /// An MCP server said something that belongs to no request, to all or to one client of ours.
    Told { org: OrgId, key: ServerKey, method: String, params: Value, whom: Option<String> },
}

/// The bus. Clones share it.
#[derive(Clone)]
pub(crate) struct Events {
    news: Sender<Arc<News>>,
    sender: Sender<Arc<Event>>,
    over: Arc<watch::Sender<bool>>,
    /// The way to other nodes, where there can be some.
    wire: Arc<OnceLock<Wire>>,
}

/// The way to other nodes.
struct Wire {
    lines: mpsc::Sender<(OrgId, Line)>,
    nodes: Nodes,
    /// Whether something was not told.
    gap: Arc<AtomicBool>,
}

/// What nobody may publish: it says that something was missed.
pub(crate) const MISSED: &str = "lagged";

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            news: broadcast::channel(WAITING).0,
            sender: broadcast::channel(WAITING).0,
            over: Arc::new(watch::channel(false).0),
            wire: Arc::default(),
        }
    }

    /// Has other nodes hear what happens here. The flag says that something could not be told. None if they hear it already.
    pub(crate) fn wire(&self, lines: mpsc::Sender<(OrgId, Line)>, nodes: Nodes) -> Option<Arc<AtomicBool>> {
        let gap = Arc::new(AtomicBool::new(false));
        self.wire.set(Wire { lines, nodes, gap: Arc::clone(&gap) }).ok().map(|()| gap)
    }

    fn peers(&self) -> Option<&Wire> {
        self.wire.get().filter(|wire| wire.nodes.has_peers())
    }

    /// Whether there are other nodes that hear it.
    pub(crate) fn has_peers(&self) -> bool {
        self.peers().is_some()
    }

    /// Tells other nodes, if there are any.
    pub(crate) fn tell_others(&self, org: &OrgId, line: impl FnOnce() -> Line) {
        if let Some(wire) = self.peers()
            && wire.lines.try_send((org.clone(), line())).is_err()
        {
            wire.gap.store(true, Ordering::SeqCst);
        }
    }

    /// Whether anybody listens: what nobody hears need not be put together.
    pub(crate) fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0 || self.peers().is_some()
    }

    /// How many listen.
    pub(crate) fn listeners(&self) -> usize {
        self.sender.receiver_count() + self.news.receiver_count()
    }

    pub(crate) fn listen(&self) -> Receiver<Arc<Event>> {
        self.sender.subscribe()
    }

    /// Only what clients of our own MCP endpoint want to know.
    pub(crate) fn news(&self) -> Receiver<Arc<News>> {
        self.news.subscribe()
    }

    pub(crate) fn told(&self, news: News) {
        // It fails if nobody listens, which is fine.
        let _ = self.news.send(Arc::new(news));
    }

    /// Becomes true when there will be no more.
    pub(crate) fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    /// The members of an organisation, or the invitations into it, are others than before.
    pub(crate) fn members_changed(&self, org: &OrgId, user: Option<UserId>, reason: &str) {
        let user = user.map(|user| user.to_string());
        self.publish(org, None, "members_changed", json!({ "userId": user, "reason": reason }));
    }

    /// Lets all listeners go.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
    }

    pub(crate) fn publish(&self, org: &OrgId, chat: Option<ChatId>, name: &'static str, data: Value) {
        self.publish_to(org, chat, None, name, data);
    }

    /// The same for one person, and those who manage.
    pub(crate) fn publish_to(
        &self,
        org: &OrgId,
        chat: Option<ChatId>,
        private_to: Option<UserId>,
        name: &'static str,
        data: Value,
    ) {
        self.tell_others(org, || Line::Event { chat, private_to, name: name.to_owned(), data: data.clone() });
        self.send(Event { org: org.clone(), chat, private_to, name: Cow::Borrowed(name), data });
    }

    /// The same for what concerns this node alone.
    pub(crate) fn publish_here(&self, org: &OrgId, chat: Option<ChatId>, name: &'static str, data: Value) {
        self.send(Event { org: org.clone(), chat, private_to: None, name: Cow::Borrowed(name), data });
    }

    /// Passes on what happened at another node.
    pub(crate) fn pass_on(
        &self,
        org: &OrgId,
        chat: Option<ChatId>,
        private_to: Option<UserId>,
        name: String,
        data: Value,
    ) {
        self.send(Event { org: org.clone(), chat, private_to, name: Cow::Owned(name), data });
    }

    /// Says to everybody that something was missed, nobody knows what.
    pub(crate) fn missed(&self) {
        let data = json!({ "missed": null });
        let name = Cow::Borrowed(MISSED);
        self.send(Event { org: OrgId::local(), chat: None, private_to: None, name, data });
    }

    fn send(&self, event: Event) {
        // It fails if nobody listens, which is fine.
        let _ = self.sender.send(Arc::new(event));
    }

    /// Tools came, went or are other than before.
    pub(crate) fn tools_changed(&self, org: &OrgId, toolset: &str, reason: &str) {
        self.tell_others(org, || Line::Tools { toolset: toolset.to_owned(), reason: reason.to_owned() });
        self.tools_changed_elsewhere(org, toolset, reason);
    }

    /// The same where another node says so.
    pub(crate) fn tools_changed_elsewhere(&self, org: &OrgId, toolset: &str, reason: &str) {
        self.told(News::Tools(org.clone()));
        self.publish_here(org, None, "tools_changed", json!({ "toolsetId": toolset, "reason": reason }));
    }

    /// A chat came, went, or is other than before; `reason` is what happened to it.
    pub(crate) fn chat_changed(&self, org: &OrgId, chat: ChatId, reason: &str) {
        self.publish(org, Some(chat), "chat_changed", json!({ "chatId": chat.to_string(), "reason": reason }));
    }

    /// The files of a workspace are others than before.
    pub(crate) fn workspace_changed(&self, org: &OrgId, chat: ChatId, change: &WorkspaceChange) {
        let capped = |paths: &[String]| paths.iter().take(MOST_PATHS).cloned().collect::<Vec<_>>();
        let data = json!({
            "chatId": chat.to_string(),
            "manifestId": change.manifest,
            "changedPaths": capped(&change.changed),
            "deletedPaths": capped(&change.deleted),
            "changedCount": change.changed.len(),
            "deletedCount": change.deleted.len(),
            "source": change.source,
            "sourceRef": change.source_ref,
        });
        self.tell_others(org, || Line::Files { chat });
        self.told(News::Files(org.clone(), chat));
        self.publish(org, Some(chat), "workspace_changed", data);
    }

    /// A chat may use other tools than before.
    pub(crate) fn selectors_changed(&self, org: &OrgId, chat: ChatId) {
        self.tell_others(org, || Line::Selectors { chat });
        self.told(News::Selectors(org.clone(), chat));
    }
}

/// What changed in a workspace.
pub(crate) struct WorkspaceChange {
    /// The state from now on; none if it is empty and has none.
    pub(crate) manifest: Option<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) deleted: Vec<String>,
    pub(crate) source: String,
    pub(crate) source_ref: Option<String>,
}
