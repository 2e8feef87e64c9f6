//! Runs of agents: what was asked for, who has which, what happened, and how each ended.
//!
//! A run is one row, and one row of the queue until it is over. Both change in one transaction, and each change is
//! compare-and-set on the state, the attempt and who has it: of two who want the same, one is told no.

mod claim;
mod events;
mod kinds;
mod lease;
mod queue;
mod read;
mod write;

pub use claim::{Claim, Claimed, RUNS_AT_ONCE};
pub use kinds::{KINDS_AT_ONCE, Kinds};
pub use lease::Held;
pub use queue::Waiting;
pub use read::KeptEvent;
pub use write::{End, NotHeld};
