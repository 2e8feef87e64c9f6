//! A stand-in for providers of models: a real server on a port of its own that speaks Anthropic's and OpenAI's streams as they are spoken,
//! well or badly, from a script.
//!
//! A test says what is answered next ([`StandIn::messages`], [`StandIn::completions`], [`StandIn::models`]) and sees afterwards what was
//! asked. Answers are made whole with [`Anthropic`] and [`OpenAi`], or bit by bit with [`Reply`]; a [`Gate`] holds one in the middle.

mod anthropic;
mod gate;
mod openai;
mod reply;
mod serve;
mod stand_in;

use std::time::Duration;

pub use anthropic::Anthropic;
pub use gate::Gate;
pub use openai::OpenAi;
pub use reply::Reply;
pub use stand_in::{Asked, StandIn};

/// Long enough for a loaded machine; a test that waits this long has failed.
const DEADLINE: Duration = Duration::from_secs(60);
