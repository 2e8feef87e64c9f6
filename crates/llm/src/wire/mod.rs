//! The two wires. Each makes a request of an [`Ask`] and reads the events that come back; nothing else knows their words.

mod anthropic;
mod arguments;
mod complaint;
mod fit;
mod openai;

use std::collections::VecDeque;

use kitbag_guard::dial::Event;
use serde::Deserialize;
use serde_json::Value;

use crate::ask::Ask;
use crate::error::Broken;
use crate::heard::Heard;
use crate::provider::{Provider, Wire};

pub(crate) use complaint::complaint;

/// Which function is asked, and with which body.
pub(crate) fn request(provider: &Provider, ask: &Ask) -> (&'static str, Value) {
    let messages = fit::fit(&ask.messages);
    match provider.wire {
        Wire::Anthropic => ("messages", anthropic::request(ask, &messages)),
        Wire::OpenAi => ("chat/completions", openai::request(provider, ask, &messages)),
    }
}

/// What reads the events of one answer.
pub(crate) enum Reader {
    Anthropic(anthropic::Reader),
    OpenAi(openai::Reader),
}

impl Reader {
    pub(crate) fn new(wire: Wire) -> Self {
        match wire {
            Wire::Anthropic => Self::Anthropic(anthropic::Reader::default()),
            Wire::OpenAi => Self::OpenAi(openai::Reader::default()),
        }
    }

    /// Takes an event and adds what is heard by it; whether the answer is whole now.
    pub(crate) fn take(&mut self, event: &Event, heard: &mut VecDeque<Heard>) -> Result<bool, Broken> {
        match self {
            Self::Anthropic(reader) => reader.take(event, heard),
            Self::OpenAi(reader) => reader.take(event, heard),
        }
    }

    /// No event follows; whether the answer is whole all the same.
    pub(crate) fn end(&mut self, heard: &mut VecDeque<Heard>) -> bool {
        match self {
            // Its streams end with an event that says so.
            Self::Anthropic(_) => false,
            Self::OpenAi(reader) => reader.end(heard),
        }
    }
}

/// Reads the JSON of an event. What is wrong with it is told without a word of it.
fn read<T: serde::de::DeserializeOwned>(event: &Event) -> Result<T, Broken> {
    serde_json::from_str(&event.data).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Broken::Malformed(format!("an event is no JSON of the right shape (line {line}, column {column})"))
    })
}

/// Reads null like nothing at all: many servers write what they do not have.
fn or_default<'de, D: serde::Deserializer<'de>, T: Default + serde::Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
