//! The two dangerous verbs: start a process, dial out.
//!
//! Everything that leaves this program goes through here, so that what a child inherits and whom we talk to is decided
//! in one place. `clippy.toml` bans both verbs everywhere else.

pub mod child;
pub mod dial;
pub mod keeper;
pub mod process;
pub mod rest;
pub mod sandbox;
pub mod shown;
