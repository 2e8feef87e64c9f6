//! What waits of one organisation, in the order in which it happened, and how the last try to write it went. It writes nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kitbag_model::{OrgId, ToolCall, ToolCallId};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::MANY;
use crate::error::StoreError;

/// Something to write.
pub(super) struct Line {
    /// As it is now.
    pub(super) call: Arc<ToolCall>,
    /// The server that runs it, if nothing of the call is written yet; else its end is what is to be written.
    pub(super) asked_at: Option<Arc<str>>,
    room: OwnedSemaphorePermit,
}

impl Line {
    pub(super) fn asked(call: Arc<ToolCall>, node: Arc<str>, room: OwnedSemaphorePermit) -> Self {
        Self { call, asked_at: Some(node), room }
    }

    pub(super) fn over(call: Arc<ToolCall>, room: OwnedSemaphorePermit) -> Self {
        Self { call, asked_at: None, room }
    }
}

pub(super) struct Queue {
    pub(super) org: OrgId,
    waiting: Mutex<Waiting>,
    /// Held by whoever writes.
    turn: tokio::sync::Mutex<()>,
    hurry: Notify,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<Line>,
    /// Where the calls are that nothing is written of yet.
    places: HashMap<ToolCallId, usize>,
    /// How many lines are being written.
    in_hand: usize,
    /// Whether somebody sees to it that they are written.
    tended: bool,
    /// How often it was tried to write some.
    tries: u64,
    /// Why the last try failed, if it did.
    why: Option<Why>,
}

enum Why {
    Full,
    Other(String),
}

impl Queue {
    pub(super) fn new(org: OrgId) -> Self {
        Self { org, waiting: Mutex::default(), turn: tokio::sync::Mutex::default(), hurry: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. Whether somebody sees to it already.
    pub(super) fn add(&self, line: Line) -> bool {
        let mut waiting = self.waiting();
        if line.asked_at.is_some() {
            let place = waiting.lines.len();
            waiting.places.insert(line.call.id, place);
        }
        waiting.lines.push(line);
        if waiting.lines.len() >= MANY {
            self.hurry.notify_one();
        }
        std::mem::replace(&mut waiting.tended, true)
    }

    /// Puts the end of a call to its beginning, if that still waits; else it is a line of its own.
    pub(super) fn join(&self, line: Line) -> Option<Line> {
        let mut waiting = self.waiting();
        let Some(place) = waiting.places.get(&line.call.id).copied() else { return Some(line) };
        let begun = &mut waiting.lines[place];
        begun.call = line.call;
        begun.room.merge(line.room);
        None
    }

    /// How many lines are not written yet.
    pub(super) fn unwritten(&self) -> usize {
        let waiting = self.waiting();
        waiting.lines.len() + waiting.in_hand
    }

    /// Lets whoever sees to it write at once.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    pub(super) async fn hurried(&self) {
        self.hurry.notified().await;
    }

    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Takes all lines, to write them. [`Queue::tried`] must follow.
    pub(super) fn take(&self) -> Vec<Line> {
        let mut waiting = self.waiting();
        waiting.places.clear();
        waiting.in_hand = waiting.lines.len();
        std::mem::take(&mut waiting.lines)
    }

    /// It was tried to write what was taken. What is left of it goes back to where it was.
    pub(super) fn tried(&self, left: Vec<Line>, error: Option<&StoreError>) {
        let mut waiting = self.waiting();
        waiting.in_hand = 0;
        waiting.tries += 1;
        waiting.why = error.map(|error| match error {
            StoreError::Full => Why::Full,
            error => Why::Other(error.to_string()),
        });
        if !left.is_empty() {
            let later = std::mem::replace(&mut waiting.lines, left);
            waiting.lines.extend(later);
            let asked = waiting.lines.iter().enumerate().filter(|(_, line)| line.asked_at.is_some());
            waiting.places = asked.map(|(place, line)| (line.call.id, place)).collect();
        }
    }

    pub(super) fn tries(&self) -> u64 {
        self.waiting().tries
    }

    /// Why a try failed that began after somebody came who saw so many tries. The first that ended since may have begun before.
    pub(super) fn failed_since(&self, came: u64) -> Option<StoreError> {
        let waiting = self.waiting();
        let why = waiting.why.as_ref().filter(|_| waiting.tries >= came + 2)?;
        Some(match why {
            Why::Full => StoreError::Full,
            Why::Other(text) => StoreError::Unavailable(sqlx::Error::Protocol(text.clone())),
        })
    }

    /// Whether the last try failed.
    pub(super) fn is_stuck(&self) -> bool {
        self.waiting().why.is_some()
    }

    /// Whether nothing is left to see to. Then nobody does any more.
    pub(super) fn rest(&self) -> bool {
        let mut waiting = self.waiting();
        waiting.tended = !waiting.lines.is_empty();
        !waiting.tended
    }
}
