//! One step of a turn: the model is asked once, and what it says is passed on as it comes and kept block by block.

use kitbag_llm::{Ask, Heard, Part, Stop};
use kitbag_trace::{Kind, Span};
use serde_json::json;
use tokio::time::timeout_at;
use tokio_stream::StreamExt;

use super::size::Size;
use super::work::{Ended, Work};

/// What a model said in one step.
pub(super) struct Answered {
    pub(super) parts: Vec<Part>,
    /// The calls it wants, and where they stand in the message.
    pub(super) calls: Vec<(usize, Part)>,
    pub(super) stop: Stop,
}

impl Work {
    pub(super) async fn step(&mut self) -> Result<Answered, Ended> {
        // Also so that nobody is asked for a chat that is gone.
        self.keep().await?;
        let ask = Ask {
            model: self.ask.model.model.clone(),
            system: self.ask.system.clone(),
            messages: self.said.clone(),
            tools: self.toolbox.specs(),
            max_output_tokens: self.ask.limits.output_tokens,
            thinking: self.ask.thinking,
        };
        let models = self.app.turns().models().under(self.app.model_policy());
        let mut span = Span::new("model", Kind::Client);
        span.set("gen_ai.operation.name", "chat");
        span.set("gen_ai.provider.name", self.ask.model.maker.as_str());
        span.set("gen_ai.request.model", &ask.model);
        let mut stream = models.stream(&self.provider, &ask);
        let mut answered = Answered { parts: Vec::new(), calls: Vec::new(), stop: Stop::End };
        let mut size = Size::of_answer(self.ask.limits.output_tokens);
        loop {
            self.keep_in_time().await?;
            let next = match self.unkept.due() {
                None => self.unless_ended(stream.next()).await?,
                Some(due) => match self.unless_ended(timeout_at(due, stream.next())).await? {
                    Ok(next) => next,
                    Err(_) => continue,
                },
            };
            let Some(heard) = next else { break };
            let heard = heard?;
            size.add(&heard)?;
            self.hear(heard, &mut answered);
        }
        // One that was broken off has no status.
        span.succeed();
        drop(span);
        self.keep().await?;
        Ok(answered)
    }

    fn hear(&mut self, heard: Heard, answered: &mut Answered) {
        let step = self.blocks.head.steps;
        match heard {
            Heard::Text(text) => self.has_piece("text", text),
            Heard::Thinking(text) => self.has_piece("thinking", text),
            Heard::ToolCallBegan { id, name, .. } => {
                self.has_event("tool_call_began", json!({ "id": id, "name": name }));
            }
            Heard::Part(part) => {
                let (place, block) = self.blocks.add(&part, step);
                self.has_block(place, block);
                if matches!(part, Part::ToolCall { .. } | Part::BadToolCall { .. }) {
                    answered.calls.push((place, part.clone()));
                }
                answered.parts.push(part);
            }
            Heard::Usage(usage) => {
                let total = self.blocks.head.usage.plus(usage);
                self.blocks.head.usage = total;
                self.has_event("usage", json!({ "step": step, "usage": usage, "total": total }));
            }
            Heard::Done(stop) => answered.stop = stop,
        }
    }
}
