//! The machine that runs agents: takes an attempt at a run, makes its folder, stages skills, resolves variables, starts an engine and
//! tells what happens.
//!
//! It knows neither the database nor the server, only what they say to it ([`kitbag_model::run::wire`]).

mod answer;
pub mod attempt;
pub mod credentials;
pub mod daemon;
mod drive;
pub mod engine;
pub mod failure;
pub mod link;
pub mod place;
pub mod prepare;
pub mod program;
mod spool;
pub mod tools;
pub mod voice;

pub use failure::Failure;
pub use spool::{Outbox, Spool};
