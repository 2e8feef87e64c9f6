//! The one place where Kitbag talks to a model.
//!
//! [`Models`] asks a [`Provider`] over one of two wires, Anthropic's Messages or OpenAI's Chat Completions (which many other servers speak
//! too), and what comes back is the same on both: [`Heard`], bit by bit, or one [`Answer`]. It knows neither chats nor tools nor
//! organisations, keeps nothing, and dials through the guard alone.
//!
//! Both wires are our own. `genai` takes a client from outside, but only a bare `reqwest` one, which the guard does not give away: it would
//! speak to any origin, and not over the guard's lines. Reading the events ourselves also keeps three promises here, where tests can see them:
//! proofs of thinking go back unchanged, an answer without its end is an error, and an event is bounded.

mod answer;
mod ask;
mod clients;
mod error;
mod heard;
mod hearing;
mod image;
mod limits;
mod list;
mod models;
mod provider;
mod question;
mod retry;
mod wire;

pub use answer::{Answer, AnswerLimits};
pub use ask::{Ask, Effort, Message, Part, Thinking, ToolResult, ToolSpec};
pub use error::{LlmError, Waited};
pub use heard::{Heard, Stop, Usage};
pub use image::{BadImage, check_image};
pub use limits::{Limits, Retry};
pub use models::Models;
pub use provider::{Provider, Wire};
