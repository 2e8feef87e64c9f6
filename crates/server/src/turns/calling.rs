//! The calls of one step. All of them are asked for at once, so that whoever has to say yes sees them all; they run one after the other, as
//! the calls of a chat do. What a model got wrong goes back to it as the result.

use std::pin::pin;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use kitbag_llm::{Part, ToolResult};
use kitbag_model::{CallStatus, ToolCall, ToolCallId};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio_stream::StreamExt;

use super::blocks::Fate;
use super::result::told;
use super::work::{Ended, Work};
use super::{Turn, Why};
use crate::api::calls::ToolCallView;
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::calls::{Ask, Asked};

/// A call that was asked for.
struct Waiting {
    /// What the model calls it.
    id: String,
    place: usize,
    asked: Asked,
}

/// The calls of one step are no more than this; the others are refused, which the model is told.
const MOST_CALLS: usize = 64;

impl Work {
    pub(super) async fn call_all(&mut self, calls: &[(usize, Part)]) -> Result<Vec<ToolResult>, Ended> {
        let mut results: Vec<Option<ToolResult>> = calls.iter().map(|_| None).collect();
        let mut waiting = Vec::new();
        let asked = self.ask_all(calls, &mut waiting, &mut results).await;
        let ids: Vec<ToolCallId> = waiting.iter().map(|(_, one)| one.asked.call.id).collect();
        let ended = match asked {
            Ok(()) => self.wait_for(waiting, &mut results).await,
            Err(ended) => Err(ended),
        };
        if let Err(ended) = ended {
            self.take_back(ids).await;
            return Err(ended);
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Asks for all of them. Each is asked for to its end, so that none is left that nobody knows of; between them the turn may end.
    async fn ask_all(
        &mut self,
        calls: &[(usize, Part)],
        waiting: &mut Vec<(usize, Waiting)>,
        results: &mut [Option<ToolResult>],
    ) -> Result<(), Ended> {
        for (slot, (place, part)) in calls.iter().enumerate() {
            self.goes_on()?;
            let asked = match slot < MOST_CALLS {
                true => self.ask_one(*place, part).await?,
                false => Err(self.refuse_rest(*place, part)),
            };
            match asked {
                Ok(asked) => waiting.push((slot, asked)),
                Err(result) => results[slot] = Some(result),
            }
            self.keep_in_time().await?;
        }
        // Whoever is asked for a yes must find the call where it belongs.
        self.keep().await
    }

    /// Nobody waits for these any more.
    async fn take_back(&self, ids: Vec<ToolCallId>) {
        for id in ids {
            let (calls, turn) = (self.app.calls(), &self.turn);
            match calls.cancel(&turn.org, turn.chat, id, &self.ask.who).await {
                Ok(_) => {}
                Err(error) if error.code() == Code::NotFound => {}
                Err(error) => {
                    tracing::warn!(call = %id, error = error.message(), "a call of a turn that ended could not be cancelled");
                }
            }
        }
    }

    fn refuse_rest(&mut self, place: usize, part: &Part) -> ToolResult {
        let id = match part {
            Part::ToolCall { id, .. } | Part::BadToolCall { id, .. } => id,
            _ => "",
        };
        self.refuse(place, id, format!("this call was not made: one answer may have {MOST_CALLS} calls at the most"))
    }

    /// Asks for one call. What is no call has its result at once.
    async fn ask_one(&mut self, place: usize, part: &Part) -> Result<Result<Waiting, ToolResult>, Ended> {
        let (id, name, arguments) = match part {
            Part::ToolCall { id, name, arguments } => (id, name, arguments),
            Part::BadToolCall { id, problem, .. } => return Ok(Err(failed(id, problem))),
            _ => return Ok(Err(failed("", "this is no call"))),
        };
        if self.toolbox.is_search(name) {
            return Ok(Err(match self.toolbox.look(arguments) {
                Ok(found) => {
                    let text = json!(found).to_string();
                    self.settle(place, &Fate::Found(found));
                    ToolResult { id: id.clone(), content: vec![Part::Text(text)], is_error: false }
                }
                Err(why) => self.refuse(place, id, why),
            }));
        }
        let Some(tool) = self.toolbox.find(name).cloned() else {
            return Ok(Err(self.refuse(place, id, format!("there is no tool {name:?}"))));
        };
        let args: Map<String, Value> = arguments.as_object().cloned().unwrap_or_default();
        let Some(stand) = self.app.calls().stand(&self.turn.org, self.turn.chat).await? else {
            return Err(Ended::By(Why::Gone));
        };
        let ask = Ask {
            chat: self.turn.chat,
            stand: stand.manifest,
            tool: tool.clone(),
            args,
            message: Some(self.turn.message),
            key: None,
            at_once: true,
            who: self.ask.who.clone(),
            audience: self.ask.audience,
            bounds: self.bounds.clone(),
            company: None,
        };
        match self.app.calls().ask(&self.turn.org, ask).await {
            Ok(asked) => {
                self.settle(place, &Fate::Called(asked.call.id, tool));
                self.has_event("tool_call", shown(&self.app, &self.turn, &asked.call, place, id));
                Ok(Ok(Waiting { id: id.clone(), place, asked }))
            }
            // A server in trouble is the turn's trouble; everything else the model can do something about.
            Err(error) if error.code().status().is_server_error() => Err(Ended::Failed(error)),
            Err(error) => Ok(Err(self.refuse(place, id, format!("{}: {}", error.code().as_str(), error.message())))),
        }
    }

    fn settle(&mut self, place: usize, fate: &Fate) {
        let block = self.blocks.settle(place, fate);
        self.has_block(place, block);
    }

    fn refuse(&mut self, place: usize, id: &str, why: String) -> ToolResult {
        let result = failed(id, &why);
        self.settle(place, &Fate::Refused(why));
        result
    }

    /// Waits until all of them are over, and tells how each gets on as soon as it does: people decide in the order they like.
    async fn wait_for(
        &mut self,
        waiting: Vec<(usize, Waiting)>,
        results: &mut [Option<ToolResult>],
    ) -> Result<(), Ended> {
        let (app, turn) = (self.app.clone(), Arc::clone(&self.turn));
        let mut ends: FuturesUnordered<_> =
            waiting.into_iter().map(|(slot, one)| to_its_end(&app, &turn, slot, one)).collect();
        let mut news = pin!(progress(&app, &turn));
        loop {
            let next = async {
                tokio::select! {
                    next = ends.next() => next,
                    never = &mut news => match never {},
                }
            };
            let Some(ended) = self.unless_ended(next).await? else { return Ok(()) };
            let (slot, result) = ended?;
            results[slot] = Some(result);
        }
    }
}

/// One call, to its end.
async fn to_its_end(
    app: &App,
    turn: &Turn,
    slot: usize,
    Waiting { id, place, asked }: Waiting,
) -> Result<(usize, ToolResult), ApiError> {
    let asked = match asked.call.status {
        CallStatus::Pending => {
            let decided = app.calls().decided(&turn.org, &asked.call).await?;
            if decided.call.status == CallStatus::Running {
                tell(app, turn, &decided.call, place, &id);
            }
            decided
        }
        _ => asked,
    };
    let call = app.calls().wait(&turn.org, asked).await?;
    tell(app, turn, &call, place, &id);
    let (content, is_error) = told(&call);
    Ok((slot, ToolResult { id, content, is_error }))
}

fn tell(app: &App, turn: &Turn, call: &ToolCall, place: usize, id: &str) {
    turn.log.tell("tool_call", &shown(app, turn, call, place, id));
}

/// How a call is now. One that is over has its render plan.
fn shown(app: &App, turn: &Turn, call: &ToolCall, place: usize, id: &str) -> Value {
    let view = ToolCallView::shown(call.clone(), &turn.org, app.stage());
    let call = serde_json::to_value(view).unwrap_or_default();
    json!({ "index": place, "id": id, "call": call })
}

/// Passes on how far calls of the chat are, for as long as somebody waits.
async fn progress(app: &App, turn: &Turn) -> std::convert::Infallible {
    let mut events = app.events().listen();
    loop {
        match events.recv().await {
            Ok(event)
                if event.org == turn.org && event.chat == Some(turn.chat) && event.name == "tool_call_progress" =>
            {
                turn.log.go_on("tool_call_progress", &event.data);
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn failed(id: &str, why: &str) -> ToolResult {
    ToolResult { id: id.to_owned(), content: vec![Part::Text(why.to_owned())], is_error: true }
}
