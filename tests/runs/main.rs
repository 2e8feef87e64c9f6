//! Runs of agents from outside: the real program on both databases, and executors that speak its wire.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../http/browsers.rs"]
mod browsers;
mod contained;
mod dispatch;
mod ending;
mod files;
mod followed;
mod kit;
mod machine;
mod machines;
mod many;
mod nodes;
mod pairing;
mod restarting;
mod shown;
mod tenants;
mod toolsets;
mod whole;

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");
