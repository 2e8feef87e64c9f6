//! The machine that runs agents: takes an attempt at a run, makes its folder, stages skills, resolves variables, starts an engine and
//! tells what happens.
//!
//! It knows neither the database nor the server, only what they say to it ([`kitbag_model::run::wire`]).

mod answer;
pub mod attempt;
mod drive;
pub mod engine;
pub mod failure;
pub mod prepare;
mod spool;
pub mod tools;

pub use failure::Failure;
pub use spool::{Outbox, Spool};
