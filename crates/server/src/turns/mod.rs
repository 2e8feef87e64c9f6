//! A model's turn in a chat: it answers the last message, calls tools on the way, and what it says and does is kept block by block.
//!
//! A turn belongs to nobody's connection: it goes on when whoever asked goes away, and everybody who may see the chat can follow it. Its
//! message is the truth; what is in memory here are the turns that run, and the events of those that ran lately. Tools are called by
//! [`crate::calls`], like everybody's.

mod ask;
mod blocks;
mod calling;
mod history;
mod keep;
mod log;
mod model;
mod result;
mod size;
mod step;
mod toolbox;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kitbag_llm::{Limits, Models};
use kitbag_model::{ChatId, Content, Message, MessageId, OrgId, TurnId};
use tokio::sync::watch;

use blocks::{Head, TurnError, TurnState};

pub(crate) use ask::{AskTurn, Begin, TurnLimits};
pub(crate) use history::check_person;
pub(crate) use log::{Entry, Log};
pub(crate) use model::explain;
pub use model::{BadModelName, ModelName, ModelSettings};

use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::bounded::Bounded;

/// The events of so many turns that are over are kept, for those who come back.
const KEPT: usize = 256;

/// And no more bytes of them than this.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// How long a chat that is deleted waits for its turn. What does not end by then finds its message gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a turn is ended from outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Why {
    /// Somebody wants it.
    Cancelled,
    /// Whoever asked for it may no longer be here.
    Revoked,
    /// Its chat was deleted.
    Gone,
    /// Another node took the chat over.
    Lost,
}

impl Why {
    /// What is told of it. Whoever wanted it knows.
    fn error(self) -> Option<TurnError> {
        let (code, message) = match self {
            Self::Cancelled => return None,
            Self::Revoked => (
                Code::Forbidden,
                "the rights of whoever asked for this turn ended while it ran: a token, a session or a membership is over",
            ),
            Self::Gone => (Code::NotFound, "the chat of this turn was deleted while it ran"),
            Self::Lost => (Code::Unavailable, "another server took the chat of this turn over while it ran"),
        };
        Some(TurnError { code: code.as_str().to_owned(), message: message.to_owned() })
    }
}

/// A turn that runs, or ran lately.
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    pub(crate) org: OrgId,
    pub(crate) chat: ChatId,
    /// The message that it writes.
    pub(crate) message: MessageId,
    pub(crate) log: Log,
    cancel: watch::Sender<Option<Why>>,
    state: watch::Sender<TurnState>,
}

impl Turn {
    fn new(id: TurnId, org: OrgId, chat: ChatId, message: MessageId) -> Self {
        let (cancel, state) = (watch::Sender::new(None), watch::Sender::new(TurnState::Running));
        Self { id, org, chat, message, log: Log::new(), cancel, state }
    }

    /// How it stands.
    fn state(&self) -> TurnState {
        *self.state.borrow()
    }

    fn is_over(&self) -> bool {
        self.state() != TurnState::Running
    }

    /// Ends it. Whether it ran.
    pub(crate) fn cancel(&self, why: Why) -> bool {
        // The first reason is the one that is told.
        self.cancel.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(why);
            is_first
        });
        !self.is_over()
    }

    /// It is over: nobody need wait any more.
    fn end(&self, state: TurnState) {
        self.log.end();
        self.state.send_replace(state);
    }

    /// Waits until it is over, and written down.
    pub(crate) async fn over(&self) {
        let _ = self.state.subscribe().wait_for(|state| *state != TurnState::Running).await;
    }

    #[cfg(test)]
    fn of_test() -> Self {
        Self::new(TurnId::generate(), OrgId::local(), ChatId::generate(), MessageId::generate())
    }
}

/// The latest turn of each chat, and the order in which they began.
#[derive(Default)]
struct Known {
    latest: HashMap<(OrgId, ChatId), Arc<Turn>>,
    order: Vec<(OrgId, ChatId)>,
    /// The chats in which one is about to begin, and which, once that is known.
    claimed: HashMap<(OrgId, ChatId), Option<TurnId>>,
}

/// The right to begin a turn in a chat, until it is dropped. It is had before anything is written, so that of two who ask at
/// once one leaves nothing behind.
struct Claim<'a> {
    turns: &'a Turns,
    key: (OrgId, ChatId),
}

impl Claim<'_> {
    /// Which turn begins. From when its message can be read until it runs it is known here.
    fn name(&self, id: TurnId) {
        self.turns.known().claimed.insert(self.key.clone(), Some(id));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.turns.known().claimed.remove(&self.key);
    }
}

/// All turns of a server.
pub(crate) struct Turns {
    known: Mutex<Known>,
    models: Models,
    /// Each that runs has a task, a history and a log in memory, and there may be any number of chats.
    places: Bounded,
}

impl Turns {
    /// So many may run.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            known: Mutex::default(),
            models: Models::new(Default::default(), Limits::default()),
            places: Bounded::new(most, "turns of models", "run"),
        }
    }

    /// The places of those that run. Whoever else has a model think takes one, too.
    pub(crate) fn places(&self) -> &Bounded {
        &self.places
    }

    /// What asks models.
    pub(crate) fn models(&self) -> &Models {
        &self.models
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn of a chat, if its events are still known.
    pub(crate) fn find(&self, org: &OrgId, chat: ChatId, id: TurnId) -> Option<Arc<Turn>> {
        self.known().latest.get(&(org.clone(), chat)).filter(|turn| turn.id == id).cloned()
    }

    /// The turn that runs in a chat.
    pub(crate) fn running(&self, org: &OrgId, chat: ChatId) -> Option<Arc<Turn>> {
        self.known().latest.get(&(org.clone(), chat)).filter(|turn| !turn.is_over()).cloned()
    }

    /// The right to begin a turn. A chat has one at a time: two would write into one workspace.
    fn claim(&self, org: &OrgId, chat: ChatId) -> Result<Claim<'_>, ApiError> {
        let key = (org.clone(), chat);
        let mut known = self.known();
        if let Some(running) = known.latest.get(&key).filter(|turn| !turn.is_over()) {
            return Err(busy(running));
        }
        if known.claimed.contains_key(&key) {
            return Err(ApiError::new(Code::Conflict, "a turn of a model is just beginning in this chat"));
        }
        known.claimed.insert(key.clone(), None);
        Ok(Claim { turns: self, key })
    }

    /// How a turn stands whose message says that it runs.
    fn state_of(&self, org: &OrgId, chat: ChatId, id: TurnId) -> TurnState {
        let (known, key) = (self.known(), (org.clone(), chat));
        match known.latest.get(&key).filter(|turn| turn.id == id) {
            Some(turn) => turn.state(),
            None if known.claimed.get(&key) == Some(&Some(id)) => TurnState::Running,
            // It was cut off with the server that ran it.
            None => TurnState::Interrupted,
        }
    }

    /// Ends the turn of a chat that is about to go, with the calls that it waits for.
    pub(crate) async fn end_chat(&self, org: &OrgId, chat: ChatId) {
        let Some(turn) = self.running(org, chat) else { return };
        turn.cancel(Why::Gone);
        if tokio::time::timeout(PATIENCE, turn.over()).await.is_err() {
            tracing::error!(turn = %turn.id, "a turn does not end");
        }
    }

    /// A new turn, of who has the right to begin one.
    fn add(&self, _claim: Claim<'_>, turn: Turn) -> Arc<Turn> {
        let key = (turn.org.clone(), turn.chat);
        let mut known = self.known();
        let turn = Arc::new(turn);
        known.order.retain(|other| *other != key);
        known.order.push(key.clone());
        known.latest.insert(key, Arc::clone(&turn));
        let bytes = |turn: &Arc<Turn>| if turn.is_over() { turn.log.bytes() } else { 0 };
        let mut kept: usize = known.latest.values().map(bytes).sum();
        while known.order.len() > KEPT || kept > KEPT_BYTES {
            let Some(at) = known.order.iter().position(|key| known.latest.get(key).is_none_or(|turn| turn.is_over()))
            else {
                break;
            };
            let key = known.order.remove(at);
            kept -= known.latest.remove(&key).as_ref().map_or(0, bytes).min(kept);
        }
        turn
    }
}

fn busy(turn: &Turn) -> ApiError {
    let message = format!("a turn of a model runs in this chat ({}); wait for its end, or cancel it", turn.id);
    ApiError::new(Code::Conflict, message).with_details(serde_json::json!({ "turnId": turn.id }))
}

/// Whether a message says that a turn writes it now.
pub(crate) fn is_being_written(content: &Content) -> bool {
    Head::of(content).is_some_and(|head| head.state == TurnState::Running)
}

impl App {
    /// Has a message say how it stands with its turn: one that was cut off with its server could not say so itself.
    pub(crate) fn settle_turn(&self, org: &OrgId, message: &mut Message) {
        let Some(head) = Head::of(&message.content).filter(|head| head.state == TurnState::Running) else { return };
        let state = self.turns().state_of(org, message.chat_id, head.turn_id);
        if state != TurnState::Running
            && let Some(blocks) = message.content.as_json().as_array()
        {
            let mut blocks = blocks.clone();
            blocks[0]["state"] = serde_json::json!(state);
            message.content = Content::of_blocks(blocks);
        }
    }

    /// The turns that run. The server stops, which ends them.
    pub(crate) fn running_turns(&self) -> Vec<Arc<Turn>> {
        self.turns().known().latest.values().filter(|turn| !turn.is_over()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_runs_from_before_its_message_can_be_read_until_its_end() {
        let (turns, turn) = (Turns::new(1), Turn::of_test());
        let (org, chat, id) = (turn.org.clone(), turn.chat, turn.id);
        let state = || turns.state_of(&org, chat, id);
        assert_eq!(state(), TurnState::Interrupted, "nobody knows it");
        let claim = turns.claim(&org, chat).unwrap();
        assert_eq!(state(), TurnState::Interrupted, "another one begins");
        claim.name(id);
        assert_eq!(state(), TurnState::Running, "it begins");
        assert!(turns.claim(&org, chat).is_err());
        let turn = turns.add(claim, turn);
        assert_eq!(state(), TurnState::Running);
        assert!(turns.claim(&org, chat).is_err());
        turn.end(TurnState::Done);
        // Its message was read before its end was written.
        assert_eq!(state(), TurnState::Done);
        assert!(turns.claim(&org, chat).is_ok());
    }

    #[test]
    fn the_logs_of_turns_that_are_over_have_a_bound() {
        let turns = Turns::new(1);
        let large = serde_json::json!("x".repeat(KEPT_BYTES / 4));
        let begun: Vec<_> = (0..10)
            .map(|_| {
                let turn = Turn::of_test();
                let turn = turns.add(turns.claim(&turn.org, turn.chat).unwrap(), turn);
                turn.log.tell("block", &large);
                turn.end(TurnState::Done);
                turn
            })
            .collect();
        let found: Vec<bool> = begun.iter().map(|turn| turns.find(&turn.org, turn.chat, turn.id).is_some()).collect();
        assert!(found[9] && !found[0], "{found:?}");
        assert!(found.iter().filter(|found| **found).count() <= 5, "{found:?}");
    }

    #[test]
    fn the_first_reason_to_end_is_told() {
        let turn = Turn::of_test();
        assert!(turn.cancel(Why::Revoked) && turn.cancel(Why::Cancelled));
        assert_eq!(*turn.cancel.borrow(), Some(Why::Revoked));
        turn.end(TurnState::Cancelled);
        assert!(!turn.cancel(Why::Gone));
    }
}
