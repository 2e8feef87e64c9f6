//! What a turn has said is written down before it is told: what somebody was shown as a whole block is there after a crash. Writing costs as
//! much as the message is long, so what comes faster than that is written down together, and everything is told in the order it came.

use std::time::Duration;

use kitbag_store::StoreError;
use serde_json::Value;
use tokio::time::Instant;

use super::Why;
use super::log::Log;
use super::work::{Ended, Work};

/// Of a message with more blocks than this not each is written down by itself.
const FEW: usize = 32;

/// Then there is a pause after each writing that is this many times as long as it took: a message of thousands of blocks must not be written
/// thousands of times.
const PAUSE: u32 = 4;

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Something to be told.
enum Told {
    Block(usize, Value),
    Piece(&'static str, usize, String),
    Event(&'static str, Value),
}

impl Told {
    fn to(self, log: &Log) {
        match self {
            Self::Block(place, block) => log.block(place, &block),
            Self::Piece(name, place, text) => log.piece(name, place, &text),
            Self::Event(name, data) => log.tell(name, &data),
        }
    }
}

/// What is not written down yet, and what happened since, which is told after it.
pub(super) struct Unkept {
    told: Vec<Told>,
    not_before: Instant,
}

impl Unkept {
    pub(super) fn new() -> Self {
        Self { told: Vec::new(), not_before: Instant::now() }
    }

    /// When it is to be written down; none: there is nothing.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.told.is_empty()).then_some(self.not_before)
    }
}

impl Work {
    /// A block is whole, or has become another.
    pub(super) fn has_block(&mut self, place: usize, block: Value) {
        self.unkept.told.push(Told::Block(place, shown(block)));
    }

    /// A piece of the next block came.
    pub(super) fn has_piece(&mut self, name: &'static str, text: String) {
        let place = self.blocks.next();
        match self.unkept.told.last_mut() {
            None => self.turn.log.piece(name, place, &text),
            Some(Told::Piece(of, at, before)) if (*of, *at) == (name, place) => before.push_str(&text),
            Some(_) => self.unkept.told.push(Told::Piece(name, place, text)),
        }
    }

    /// Something else happened.
    pub(super) fn has_event(&mut self, name: &'static str, data: Value) {
        match self.unkept.told.is_empty() {
            true => self.turn.log.tell(name, &data),
            false => self.unkept.told.push(Told::Event(name, data)),
        }
    }

    /// Writes down what there is, if it is time to.
    pub(super) async fn keep_in_time(&mut self) -> Result<(), Ended> {
        match self.unkept.due() {
            Some(due) if due <= Instant::now() => self.keep().await,
            _ => Ok(()),
        }
    }

    /// Writes down what there is of the turn by now, and tells it. A turn whose message is gone has nothing more to say to anybody.
    pub(super) async fn keep(&mut self) -> Result<(), Ended> {
        let began = Instant::now();
        let mut tx = self.app.store().write(&self.turn.org).await?;
        if let Some(held) = &self.held {
            match tx.hold_chat(self.turn.chat, held.fence()).await {
                Err(StoreError::LeaseLost) => return Err(Ended::By(Why::Lost)),
                held => held?,
            }
        }
        let is_there = tx.rewrite_message(self.turn.chat, self.turn.message, &self.blocks.content()).await?;
        if !is_there {
            return Err(Ended::By(Why::Gone));
        }
        tx.commit_chat().await?;
        if self.blocks.next() > FEW {
            let pause = began.elapsed().saturating_mul(PAUSE).min(LONGEST_PAUSE);
            self.unkept.not_before = Instant::now() + pause;
        }
        self.unkept.told.drain(..).for_each(|told| told.to(&self.turn.log));
        Ok(())
    }
}

/// A block as those who follow see it: a proof is the provider's business.
fn shown(mut block: Value) -> Value {
    if let Some(block) = block.as_object_mut() {
        block.remove("proof");
    }
    block
}
