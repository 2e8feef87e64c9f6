//! A turn at work: steps, until the model has nothing more to call, somebody ends it, or it comes to a limit. However it ends, the end is
//! written down and told.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use kitbag_llm::{Message as Said, Provider, Stop};
use kitbag_model::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::ask::AskTurn;
use super::blocks::{Blocks, TurnError, TurnState};
use super::history::History;
use super::keep::Unkept;
use super::toolbox::Toolbox;
use super::{Turn, Why, explain};
use crate::api::error::ApiError;
use crate::app::App;
use crate::bounded::Place;
use crate::nodes::HeldChat;
use crate::resolution::Bounds;

/// Everything of a turn that runs.
pub(super) struct Work {
    pub(super) app: App,
    pub(super) turn: Arc<Turn>,
    pub(super) ask: AskTurn,
    pub(super) provider: Provider,
    pub(super) bounds: Bounds,
    pub(super) toolbox: Toolbox,
    pub(super) said: Vec<Said>,
    pub(super) blocks: Blocks,
    pub(super) unkept: Unkept,
    /// The right to write into the chat, where there are several nodes.
    pub(super) held: Option<Arc<HeldChat>>,
    /// Its place among those that run. It is given back when it is over, however that comes.
    place: Option<Place>,
    cancelled: watch::Receiver<Option<Why>>,
    stopping: watch::Receiver<bool>,
    until: Instant,
}

/// Why a turn ends before the model has said everything.
pub(super) enum Ended {
    /// It has.
    Whole(Stop),
    /// Somebody or something ends it from outside.
    By(Why),
    Stopping,
    Limit(&'static str),
    Failed(ApiError),
    /// We made a mistake.
    Panicked,
}

impl<E: Into<ApiError>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Work {
    #[allow(clippy::too_many_arguments, reason = "the pieces of one turn, put together once")]
    pub(super) fn new(
        app: App,
        turn: Arc<Turn>,
        ask: AskTurn,
        provider: Provider,
        bounds: Bounds,
        toolbox: Toolbox,
        history: History,
        blocks: Blocks,
        held: Option<Arc<HeldChat>>,
        place: Place,
    ) -> Self {
        let (cancelled, stopping) = (turn.cancel.subscribe(), app.events().over());
        let until = Instant::now() + ask.limits.time;
        let (said, unkept) = (history.messages, Unkept::new());
        let place = Some(place);
        Self {
            app,
            turn,
            ask,
            provider,
            bounds,
            toolbox,
            said,
            blocks,
            unkept,
            held,
            place,
            cancelled,
            stopping,
            until,
        }
    }

    /// Runs to its end.
    pub(super) async fn run(mut self) {
        // Also if something in here panics: a turn that never ends would keep its chat and the server's stop waiting.
        let _over = Over(Arc::clone(&self.turn));
        let ended = AssertUnwindSafe(self.steps()).catch_unwind().await;
        self.finish(ended.unwrap_or(Ended::Panicked)).await;
    }

    async fn steps(&mut self) -> Ended {
        loop {
            if self.blocks.head.steps >= self.ask.limits.steps {
                return Ended::Limit("steps");
            }
            self.blocks.head.steps += 1;
            let heard = match self.step().await {
                Ok(heard) => heard,
                Err(ended) => return ended,
            };
            if heard.calls.is_empty() {
                return Ended::Whole(heard.stop);
            }
            let results = match self.call_all(&heard.calls).await {
                Ok(results) => results,
                Err(ended) => return ended,
            };
            self.said.push(Said::Assistant(heard.parts));
            self.said.push(Said::Results(results));
            if self.ask.limits.tokens.is_some_and(|most| self.blocks.head.usage.all() >= most) {
                return Ended::Limit("tokens");
            }
        }
    }

    /// Waits for something, unless the turn ends before.
    pub(super) async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Ended> {
        let (until, cancelled, stopping) = (self.until, &mut self.cancelled, &mut self.stopping);
        tokio::select! {
            biased;
            // Whoever could end it is there as long as the turn is.
            why = cancelled.wait_for(Option::is_some) => Err(Ended::By(why.ok().and_then(|why| *why).unwrap_or(Why::Cancelled))),
            _ = stopping.wait_for(|yes| *yes) => Err(Ended::Stopping),
            () = tokio::time::sleep_until(until) => Err(Ended::Limit("time")),
            done = work => Ok(done),
        }
    }

    /// Whether it is to end, for work that must not be left half done.
    pub(super) fn goes_on(&self) -> Result<(), Ended> {
        match *self.cancelled.borrow() {
            Some(why) => return Err(Ended::By(why)),
            None if *self.stopping.borrow() => return Err(Ended::Stopping),
            None => {}
        }
        if Instant::now() >= self.until { Err(Ended::Limit("time")) } else { Ok(()) }
    }

    async fn finish(&mut self, ended: Ended) {
        let error = |code: &str, message: String| Some(TurnError { code: code.to_owned(), message });
        let (state, stop, error) = match ended {
            Ended::Whole(stop) => (TurnState::Done, Some(stop), None),
            Ended::By(why @ Why::Lost) => (TurnState::Interrupted, None, why.error()),
            Ended::By(why) => (TurnState::Cancelled, None, why.error()),
            Ended::Stopping => {
                (TurnState::Interrupted, None, error("INTERRUPTED", "the server stopped while it ran".to_owned()))
            }
            Ended::Limit(what) => {
                (TurnState::Limited, None, error("LIMIT", format!("the turn came to its limit of {what}")))
            }
            Ended::Failed(failed) => {
                (TurnState::Failed, None, error(failed.code().as_str(), failed.message().to_owned()))
            }
            Ended::Panicked => (TurnState::Interrupted, None, Some(mistake())),
        };
        let head = &mut self.blocks.head;
        (head.state, head.stop, head.error, head.finished_at) = (state, stop, error, Some(Timestamp::now()));
        match self.keep().await {
            Ok(()) => {}
            Err(Ended::Failed(error)) => {
                let error = error.message();
                tracing::error!(turn = %self.turn.id, error, "the end of a turn could not be written down");
            }
            Err(_) => tracing::debug!(turn = %self.turn.id, "the message of a turn that ended is gone"),
        }
        // Whoever hears of the end may ask for the next one.
        drop(self.place.take());
        let head = &self.blocks.head;
        if let Some(error) = &head.error {
            self.turn.log.tell("error", &json!(error));
        }
        self.turn.log.tell(
            "done",
            &json!({ "state": head.state, "stop": head.stop, "usage": head.usage, "steps": head.steps, "messageId": self.turn.message }),
        );
        self.turn.end(head.state);
        metrics::counter!("kitbag_turns_total", "maker" => head.maker.as_str()).increment(1);
        self.app.events().chat_changed(&self.turn.org, self.turn.chat, "message");
    }
}

/// What is told of a turn in which we made a mistake.
fn mistake() -> TurnError {
    let message = "the server made a mistake, which is in its log; what was whole by then is kept".to_owned();
    TurnError { code: "INTERNAL".to_owned(), message }
}

/// Ends a turn when it is dropped, should nobody have done so: then not even its end could be told.
struct Over(Arc<Turn>);

impl Drop for Over {
    fn drop(&mut self) {
        if !self.0.is_over() {
            self.0.log.tell("error", &json!(mistake()));
            self.0.log.tell("done", &json!({ "state": TurnState::Interrupted, "messageId": self.0.message }));
            self.0.end(TurnState::Interrupted);
        }
    }
}

impl From<kitbag_llm::LlmError> for Ended {
    fn from(error: kitbag_llm::LlmError) -> Self {
        Self::Failed(explain(&error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn a_turn_that_breaks_is_told_to_its_end() {
        let turn = Arc::new(Turn::of_test());
        let broken = tokio::spawn({
            let over = Over(Arc::clone(&turn));
            async move {
                let _over = over;
                panic!("a mistake that a test makes");
            }
        });
        assert!(broken.await.unwrap_err().is_panic());
        turn.over().await;
        let (told, is_over) = turn.log.behind(0);
        let told: Vec<(&str, Value)> =
            told.iter().map(|entry| (entry.name, serde_json::from_str(&entry.data).unwrap())).collect();
        assert!(is_over);
        assert_eq!((told[0].0, &told[0].1["code"]), ("error", &json!("INTERNAL")));
        assert_eq!((told[1].0, &told[1].1["state"]), ("done", &json!("interrupted")));
        assert_eq!(turn.state(), TurnState::Interrupted);
    }
}
