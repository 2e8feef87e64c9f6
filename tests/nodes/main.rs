//! Several servers on one PostgreSQL: the real program, two or three of it, each with a data folder of its own.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs,
    reason = "tests start other programs beside ours, and say what they broke"
)]

mod anew;
mod apart;
mod balanced;
mod balancer;
mod calls;
mod cut;
mod database;
mod deaf;
mod dying;
mod fair;
mod filled;
mod heard;
mod keys;
mod kit;
mod many;
mod misled;
mod passed;
mod places;
mod sealed;
mod servers;
mod sessions;
mod staged;
mod stopping;
mod storm;
mod turns;
#[path = "../turns/kit.rs"]
#[allow(dead_code, reason = "turns at a single server need more of it")]
mod turns_kit;
mod unread;

use kit::BINARY;
