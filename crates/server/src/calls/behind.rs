//! Calls that are recorded behind: those of MCP servers' tools that nobody has to decide about. Neither asking for one nor its
//! answer waits for the disk; their records follow within a tenth of a second, and before anybody reads them. It knows no SQL
//! and no clock: what waits is the store's.

use std::sync::Arc;

use kitbag_model::{
    CallOutcome, CallStatus, Chat, ChatId, ManifestId, MessageId, OrgId, Timestamp, ToolCall, ToolCallId, args_digest,
};

use super::live::Live;
use super::{Ask, Asked, Calls};
use crate::api::error::ApiError;
use crate::resolution::Bounds;
use crate::rules::Quota;
use crate::toolsets::{Callable, Runs};

/// How a chat stands, as far as a call has to know.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    /// The state that its workspace is at; none if it has none.
    pub(crate) manifest: Option<ManifestId>,
    selectors: Arc<[String]>,
}

impl Stand {
    fn of(chat: Chat) -> Self {
        Self { manifest: chat.active_manifest_id, selectors: chat.tool_selectors.unwrap_or_default().into() }
    }

    /// The chat's selectors; none if it has none.
    pub(crate) fn selectors(&self) -> &Arc<[String]> {
        &self.selectors
    }

    /// The tools that may be called in the chat.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::of_selectors(&self.selectors)
    }
}

/// When the end of a call is recorded.
#[derive(Clone, Debug)]
pub(super) enum Record {
    /// Before it is told.
    Now,
    /// Soon, as its beginning is. The workspace was at this state, and this is what the node was called that was asked.
    Behind(Option<ManifestId>, Arc<str>),
}

impl Calls {
    /// How a chat stands; nothing if there is no such chat.
    pub(crate) async fn stand(&self, org: &OrgId, chat: ChatId) -> Result<Option<Stand>, ApiError> {
        let store = &self.0.store;
        let read = async || Ok::<_, ApiError>(store.read_beside(org).await?.chat(chat).await?.map(Stand::of));
        self.0.stands.get(store.chat_edition(), (org.clone(), chat), read).await
    }

    /// Whether a call may be recorded behind. Not one that its caller means to find again after a crash: under a key, or because
    /// the answer is that it was taken.
    pub(super) fn may_follow(&self, ask: &Ask, callable: &Callable) -> bool {
        let is_quick = ask.key.is_none() && ask.message.is_none() && !ask.at_once;
        let is_free = !callable.tool.effective.requires_confirmation.value;
        let is_lax = !callable.strict_records && !self.0.settings.strict_records;
        is_quick && is_free && is_lax && matches!(callable.runs, Runs::Mcp { .. })
    }

    /// Lets a call run that is recorded behind. Nothing if that cannot be now: then it is recorded first, or is told why not.
    pub(super) async fn ask_behind(
        &self,
        org: &OrgId,
        ask: &Ask,
        callable: &Arc<Callable>,
        most: Option<&Quota>,
    ) -> Result<Option<Asked>, ApiError> {
        let id = ToolCallId::generate();
        let place = self.take_place(org, ask.chat, id, callable, ask.company.clone(), most)?;
        let call = Arc::new(ToolCall {
            id,
            chat_id: ask.chat,
            message_id: MessageId::generate(),
            tool_id: ask.tool.clone(),
            generation: Some(callable.generation.clone()),
            args: ask.args.clone(),
            args_sha256: args_digest(&ask.tool, &ask.args),
            status: CallStatus::Running,
            asked_by: ask.who.clone(),
            expires_at: None,
            decision: None,
            request_sha256: None,
            started_at: Timestamp::now(),
            finished_at: None,
            outcome: CallOutcome::default(),
        });
        let node = self.0.nodes.id();
        if !self.0.store.call_asked(org, Arc::clone(&call), &node).await {
            return Ok(None);
        }
        self.tell(org, &call);
        let live = Some(place.live());
        let work = self.start(place, Arc::clone(&call), Arc::clone(callable), Record::Behind(ask.stand, node));
        Ok(Some(Asked::new(call, live).with_work(work)))
    }

    /// Records behind what came of a call.
    pub(super) async fn record_behind(
        &self,
        live: &Live,
        call: Arc<ToolCall>,
        stand: Option<ManifestId>,
        mut outcome: CallOutcome,
    ) -> Arc<ToolCall> {
        (outcome.pre_manifest_id, outcome.post_manifest_id) = (stand, stand);
        let status = if outcome.error.is_some() { CallStatus::Error } else { CallStatus::Success };
        let finished_at = Some(Timestamp::now());
        let call = Arc::new(ToolCall { status, finished_at, outcome, ..Arc::unwrap_or_clone(call) });
        self.0.store.call_over(&live.key.0, Arc::clone(&call)).await;
        call
    }
}
