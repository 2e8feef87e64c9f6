//! A stand-in, somebody who asks it, and what is heard.

use std::time::Duration;

use futures_util::StreamExt;
use kitbag_guard::dial::EgressPolicy;
use kitbag_llm::{Ask, Heard, Limits, LlmError, Message, Models, Part, Provider, Retry, Wire};
use kitbag_model::Secret;
use kitbag_testkit::model::StandIn;

pub const KEY: &str = "sk-hunter2-hunter2";

/// A stand-in, and models that may reach it.
pub struct Kit {
    pub stand_in: StandIn,
    pub models: Models,
}

/// Generous with time, and quick to ask again.
pub fn limits() -> Limits {
    let retry = Retry { attempts: 3, first_pause: Duration::from_millis(1), longest_pause: Duration::from_secs(5) };
    Limits { retry, ..Limits::default() }
}

impl Kit {
    pub fn new() -> Self {
        Self::within(limits())
    }

    pub fn within(limits: Limits) -> Self {
        let stand_in = StandIn::start();
        let policy = EgressPolicy { allow: vec![stand_in.host().parse().unwrap()], ..EgressPolicy::default() };
        Self { stand_in, models: Models::new(policy, limits) }
    }

    pub fn provider(&self, wire: Wire) -> Provider {
        Provider { wire, base_url: self.stand_in.url().parse().unwrap(), key: Some(Secret::new(KEY)) }
    }

    pub async fn hear(&self, wire: Wire, ask: &Ask) -> Vec<Result<Heard, LlmError>> {
        self.models.stream(&self.provider(wire), ask).collect().await
    }

    /// What is heard of an answer that is whole.
    pub async fn hear_all(&self, wire: Wire, ask: &Ask) -> Vec<Heard> {
        self.hear(wire, ask).await.into_iter().map(Result::unwrap).collect()
    }

    /// What was heard of an answer, and the error at its end.
    pub async fn fail(&self, wire: Wire) -> (Vec<Heard>, LlmError) {
        let mut heard = self.hear(wire, &hello()).await;
        let error = heard.pop().unwrap().unwrap_err();
        (heard.into_iter().map(Result::unwrap).collect(), error)
    }
}

pub fn ask(messages: Vec<Message>) -> Ask {
    Ask { model: "m".to_owned(), system: None, messages, tools: Vec::new(), max_output_tokens: 100, thinking: None }
}

pub fn hello() -> Ask {
    ask(vec![Message::User(vec![text("Hello")])])
}

pub fn text(words: &str) -> Part {
    Part::Text(words.to_owned())
}

pub fn call(id: &str, name: &str, arguments: serde_json::Value) -> Part {
    Part::ToolCall { id: id.to_owned(), name: name.to_owned(), arguments }
}

/// The parts among what was heard.
pub fn parts(heard: &[Heard]) -> Vec<Part> {
    heard.iter().filter_map(|heard| if let Heard::Part(part) = heard { Some(part.clone()) } else { None }).collect()
}

/// All words that came bit by bit.
pub fn words(heard: &[Heard]) -> String {
    heard.iter().filter_map(|heard| if let Heard::Text(more) = heard { Some(more.as_str()) } else { None }).collect()
}
