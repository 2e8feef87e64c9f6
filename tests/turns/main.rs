//! Turns of models from outside: the real program on both databases, and a stand-in that speaks the providers' own streams.
#![allow(clippy::unwrap_used, missing_docs)]

mod branches;
#[path = "../http/browsers.rs"]
mod browsers;
mod builder;
mod conversation;
mod endings;
mod faults;
mod hostile;
mod kit;
mod many;
mod many_tools;
mod models;
mod replay;
mod rights;
mod services;
mod tenants;
mod terminal;

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");
