//! What a model is asked: the conversation so far, in words that neither wire knows. Messages can be stored and asked again years later, so
//! the names in their JSON stay.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One question to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The model, as its provider calls it.
    pub model: String,
    /// What the model is told before everything else.
    pub system: Option<String>,
    /// What was said so far; the last one waits for an answer.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
    /// The most tokens of the answer, with all thinking in it.
    pub max_output_tokens: u32,
    /// How much it should think; none: as the model does by itself.
    pub thinking: Option<Thinking>,
}

/// How much a model should think before it answers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// At most so many tokens. Anthropic wants 1024 at least, and fewer than the whole answer has: it is cut to fit, and left out where
    /// nothing fits. OpenAI knows no budgets and gets the effort that is nearest.
    Budget(u32),
    /// As hard as this, in as many tokens as the model finds right. Anthropic's models before 4.6 know budgets alone.
    Effort(Effort),
}

/// How hard to think.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// A lot.
    High,
}

impl Effort {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A tool that the model may call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Its name, in the letters that providers take: `[a-zA-Z0-9_-]`, 64 at the most.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// One message of the conversation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// What a person says: texts and images.
    User(Vec<Part>),
    /// What the model said: the parts that were heard, all of them and in their order.
    Assistant(Vec<Part>),
    /// What became of the calls of the message before, each of them.
    Results(Vec<ToolResult>),
}

/// A piece of a message. A part that does not belong into a message (an image of the assistant's) is not sent.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text(String),
    /// What the model thought.
    Thinking {
        /// In words, if it showed them.
        text: String,
        /// What the provider wants to have back with it, unchanged. It means nothing to anybody else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Value>,
    },
    /// A picture.
    Image {
        /// What it is, like `image/png`.
        mime: String,
        /// Its bytes.
        base64: String,
    },
    /// The model wants a tool called.
    ToolCall {
        /// What its result is to name.
        id: String,
        /// The tool.
        name: String,
        /// An object.
        arguments: Value,
    },
    /// The model wants a tool called with arguments that cannot be read. Nothing is to be called: a result with `is_error` and the problem in
    /// it has the model try again.
    BadToolCall {
        /// What its result is to name.
        id: String,
        /// The tool.
        name: String,
        /// What the model wrote.
        raw: String,
        /// What is wrong with it, in words for the model.
        problem: String,
    },
}

/// What became of a call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ToolResult {
    /// The call's.
    pub id: String,
    /// Texts and images.
    pub content: Vec<Part>,
    /// Whether it failed.
    #[serde(default)]
    pub is_error: bool,
}
