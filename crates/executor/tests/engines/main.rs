//! Attempts, without a server: the real agents from npm with real MCP servers and a stand-in for each model's API.
#![allow(clippy::unwrap_used, missing_docs)]

mod dialled;
mod each;
mod kit;
mod misbehaving;
mod own_tools;
mod refused;
mod stand_in;
