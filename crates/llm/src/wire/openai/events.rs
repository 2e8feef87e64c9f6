//! An answer in OpenAI's chunks: bits of thinking, words and calls, a reason to stop, then perhaps what it cost, then `[DONE]`.

use std::collections::VecDeque;

use kitbag_guard::dial::Event;
use serde::Deserialize;
use serde_json::{Value, json};

use super::calls::{Calls, Piece};
use crate::ask::Part;
use crate::error::Broken;
use crate::heard::{Heard, Stop, Usage};
use crate::wire::{complaint, or_default, read};

/// The state between two chunks.
#[derive(Default)]
pub(crate) struct Reader {
    words: Option<Words>,
    calls: Calls,
    usage: Option<Usage>,
    stop: Option<Stop>,
    refused: bool,
}

/// Words under way. Only one kind is at a time, and a change ends the part.
enum Words {
    Text(String),
    /// With the name that the server has for it.
    Thinking(String, &'static str),
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "or_default")]
    choices: Vec<Choice>,
    usage: Option<Counted>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    content: Option<String>,
    /// DeepSeek's, llama.cpp's and vLLM's word for thinking, and that of Ollama and brokers.
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Piece>>,
}

#[derive(Deserialize)]
struct Counted {
    #[serde(default, deserialize_with = "or_default")]
    prompt_tokens: u64,
    #[serde(default, deserialize_with = "or_default")]
    completion_tokens: u64,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

impl Counted {
    fn usage(self) -> Usage {
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or_default();
        Usage {
            input_tokens: self.prompt_tokens.saturating_sub(cached),
            output_tokens: self.completion_tokens,
            cache_read_tokens: cached,
            cache_write_tokens: 0,
        }
    }
}

impl Reader {
    /// Takes an event; whether the answer is whole now.
    pub(in crate::wire) fn take(&mut self, event: &Event, heard: &mut VecDeque<Heard>) -> Result<bool, Broken> {
        if event.data.trim() == "[DONE]" {
            self.finish(heard);
            return Ok(true);
        }
        let chunk: Chunk = read(event)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(Broken::Complaint(complaint(&json!({"error": error}))));
        }
        // Some send it with every chunk: the last one counts.
        self.usage = chunk.usage.map(Counted::usage).or(self.usage);
        // One answer was asked for.
        let Some(choice) = chunk.choices.into_iter().next() else { return Ok(false) };
        let delta = choice.delta.unwrap_or_default();
        // Brokers give the same words under both names.
        let thinking = delta.reasoning_content.filter(|more| !more.is_empty()).map(|more| (more, "reasoning_content"));
        let thinking = thinking.or(delta.reasoning.filter(|more| !more.is_empty()).map(|more| (more, "reasoning")));
        if let Some((more, field)) = thinking {
            self.think(more, field, heard);
        }
        let refusal = delta.refusal.filter(|more| !more.is_empty());
        self.refused |= refusal.is_some();
        for more in [delta.content, refusal].into_iter().flatten().filter(|more| !more.is_empty()) {
            self.say(more, heard);
        }
        for piece in delta.tool_calls.unwrap_or_default() {
            self.end_words(heard);
            self.calls.take(piece, heard);
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.stop = Some(self.stop(&reason));
            self.end_parts(heard);
        }
        Ok(false)
    }

    /// No event follows; whether the answer is whole all the same. Not everybody says `[DONE]`.
    pub(in crate::wire) fn end(&mut self, heard: &mut VecDeque<Heard>) -> bool {
        let is_whole = self.stop.is_some();
        if is_whole {
            self.finish(heard);
        }
        is_whole
    }

    fn finish(&mut self, heard: &mut VecDeque<Heard>) {
        let unsaid = self.stop("stop");
        self.end_parts(heard);
        heard.extend(self.usage.take().map(Heard::Usage));
        heard.push_back(Heard::Done(self.stop.take().unwrap_or(unsaid)));
    }

    fn think(&mut self, more: String, field: &'static str, heard: &mut VecDeque<Heard>) {
        match &mut self.words {
            Some(Words::Thinking(words, _)) => words.push_str(&more),
            _ => {
                self.end_words(heard);
                self.words = Some(Words::Thinking(more.clone(), field));
            }
        }
        heard.push_back(Heard::Thinking(more));
    }

    fn say(&mut self, more: String, heard: &mut VecDeque<Heard>) {
        match &mut self.words {
            Some(Words::Text(words)) => words.push_str(&more),
            _ => {
                self.end_words(heard);
                self.words = Some(Words::Text(more.clone()));
            }
        }
        heard.push_back(Heard::Text(more));
    }

    fn end_words(&mut self, heard: &mut VecDeque<Heard>) {
        heard.extend(self.words.take().map(|words| {
            Heard::Part(match words {
                Words::Text(words) => Part::Text(words),
                Words::Thinking(text, field) => Part::Thinking { text, proof: Some(json!({"field": field})) },
            })
        }));
    }

    fn end_parts(&mut self, heard: &mut VecDeque<Heard>) {
        self.end_words(heard);
        heard.extend(self.calls.end().map(Heard::Part));
    }

    fn stop(&self, reason: &str) -> Stop {
        match reason {
            // Some say so after calls, too.
            "stop" if !self.calls.is_empty() => Stop::ToolCalls,
            "stop" if self.refused => Stop::Refused,
            "stop" => Stop::End,
            "tool_calls" | "function_call" => Stop::ToolCalls,
            "length" => Stop::Length,
            "content_filter" => Stop::Refused,
            _ => Stop::Other,
        }
    }
}
