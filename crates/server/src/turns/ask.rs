//! Asking for a turn: where in the chat it goes, which model answers, which tools there are. Then it runs by itself.

use std::sync::Arc;
use std::time::Duration;

use kitbag_llm::{Provider, Thinking};
use kitbag_model::resolution::{Lists, Verdict};
use kitbag_model::{Audience, ChatId, MessageId, NewMessage, OrgId, Parent, Role, TurnId};

use super::blocks::{Blocks, Head};
use super::history::{History, says_something};
use super::model::ModelName;
use super::toolbox::Toolbox;
use super::work::Work;
use super::{Claim, Turn, Why};
use crate::access::stay::Stay;
use crate::api::error::{ApiError, Code};
use crate::api::messages::add::put;
use crate::app::App;
use crate::bounded::Place;
use crate::nodes::{HeldChat, NotHeld};
use crate::resolution::Bounds;

/// What a turn may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnLimits {
    pub(crate) steps: u32,
    /// Of one answer.
    pub(crate) output_tokens: u32,
    /// Of everything, read and written.
    pub(crate) tokens: Option<u64>,
    pub(crate) time: Duration,
}

/// Where a turn begins.
pub(crate) enum Begin {
    /// With something new that a person says.
    Say(NewMessage),
    /// With a message of a person that is there: it is answered again, beside the answers that it has.
    Answer(MessageId),
}

/// What is asked for.
pub(crate) struct AskTurn {
    pub(crate) chat: ChatId,
    pub(crate) begin: Begin,
    pub(crate) model: ModelName,
    pub(crate) system: Option<String>,
    pub(crate) thinking: Option<Thinking>,
    pub(crate) limits: TurnLimits,
    pub(crate) who: String,
    pub(crate) audience: Audience,
    /// The lists that whoever asks is bound by.
    pub(crate) lists: Option<Lists>,
}

impl App {
    /// Begins a turn. It ends with the rights of whoever asks.
    pub(crate) async fn begin_turn(&self, org: &OrgId, ask: AskTurn, stay: Stay) -> Result<Arc<Turn>, ApiError> {
        let no_chat = || ApiError::not_found("chat", &ask.chat.to_string());
        let stand = self.calls().stand(org, ask.chat).await?.ok_or_else(no_chat)?;
        let held = match self.nodes().hold(org, ask.chat).await {
            Ok(held) => held,
            Err(NotHeld::NoChat) => return Err(no_chat()),
            Err(NotHeld::Store(error)) => return Err(error.into()),
            Err(error @ NotHeld::Elsewhere(_)) => return Err(ApiError::new(Code::Unavailable, error.to_string())),
        };
        let claim = self.turns().claim(org, ask.chat)?;
        // Before anything is written: whoever finds no place, or has no key, is told so and nothing is different.
        let place = self.turns().places().enter(org)?;
        let provider = self.provider(org, ask.model.maker).await?;
        let bounds = stand.bounds().with_lists(ask.lists.clone());
        let mut toolbox = self.toolbox(org, ask.audience, &bounds).await?;
        let person = self.stand_at(org, &ask).await?;
        let history = History::read(self.store(), org, ask.chat, person, ask.model.maker).await?;
        toolbox.remember(history.found.iter().map(String::as_str));
        let turn = self.start_turn(claim, ask, person, provider, bounds, toolbox, history, held, place).await?;
        tokio::spawn(end_with_rights(Arc::clone(&turn), stay));
        Ok(turn)
    }

    #[allow(clippy::too_many_arguments, reason = "the pieces of one turn, put together once")]
    async fn start_turn(
        &self,
        claim: Claim<'_>,
        ask: AskTurn,
        person: MessageId,
        provider: Provider,
        bounds: Bounds,
        toolbox: Toolbox,
        history: History,
        held: Option<Arc<HeldChat>>,
        place: Place,
    ) -> Result<Arc<Turn>, ApiError> {
        let (id, org) = (TurnId::generate(), claim.key.0.clone());
        let blocks = Blocks::new(Head::new(id, &ask.model, toolbox.told()));
        let new = NewMessage { parent: Parent::Message(person), role: Role::Assistant, content: blocks.content() };
        claim.name(id);
        let message = put(self, &org, ask.chat, new).await?;
        let turn = self.turns().add(claim, Turn::new(id, org, ask.chat, message.id));
        turn.log.tell(
            "turn",
            &serde_json::json!({
                "turnId": id, "chatId": ask.chat, "messageId": message.id, "parentId": person,
                "model": blocks.head.model, "tools": blocks.head.tools,
            }),
        );
        let work =
            Work::new(self.clone(), Arc::clone(&turn), ask, provider, bounds, toolbox, history, blocks, held, place);
        tokio::spawn(kitbag_trace::carried(work.run()));
        Ok(turn)
    }

    /// The tools that a turn has.
    async fn toolbox(&self, org: &OrgId, audience: Audience, bounds: &Bounds) -> Result<Toolbox, ApiError> {
        let selectors = bounds.selectors(self.toolsets(), org, audience).await?;
        let mut tools = self.resolve(org, audience, &Lists::default()).await?.into_tools().0;
        tools.retain(|tool| tool.is_available() && selectors.verdict(&tool.id, &tool.toolset.0) == Verdict::In);
        Ok(Toolbox::new(&tools, self.settings().models.tool_bytes))
    }

    /// Has the chat stand at the message that is to be answered, with that branch's workspace.
    async fn stand_at(&self, org: &OrgId, ask: &AskTurn) -> Result<MessageId, ApiError> {
        match &ask.begin {
            Begin::Say(new) => Ok(put(self, org, ask.chat, new.clone()).await?.id),
            Begin::Answer(id) => {
                let mut tx = self.store().read(org).await?;
                let found = tx.message(ask.chat, *id).await?;
                drop(tx);
                match found.map(|message| (message.role, message.content)) {
                    Some((Role::User, content)) if says_something(&content) => {}
                    Some((Role::User, _)) => {
                        return Err(ApiError::invalid("messageId", "says nothing that could be answered"));
                    }
                    Some(_) => return Err(ApiError::invalid("messageId", "must be a message of the role user")),
                    None => return Err(ApiError::invalid("messageId", "is not a message of this chat")),
                }
                let lease = self.workspaces().edit(org, ask.chat).await?;
                lease.switch(*id).await?;
                drop(lease);
                self.events().chat_changed(org, ask.chat, "branch");
                Ok(*id)
            }
        }
    }
}

/// A turn goes on without its listener, and never without the rights that it began with: what it may do was theirs.
async fn end_with_rights(turn: Arc<Turn>, stay: Stay) {
    tokio::select! {
        () = turn.over() => {}
        () = stay.over() => {
            turn.cancel(Why::Revoked);
        }
    }
}
