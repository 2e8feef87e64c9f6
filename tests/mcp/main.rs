//! MCP servers as tool providers, from outside: the real program, real servers, a real HTTP client.
#![allow(clippy::unwrap_used, missing_docs)]

mod apps;
mod calls;
mod conformance;
mod definitions;
mod endpoint;
mod fenced;
mod ids;
mod kit;
mod many;
mod pipes;
mod processes;
mod reach;
mod real;
mod records;
mod revisions;
mod secrets;
mod sign_in;
mod skills;
mod speaker;
mod through;

use kitbag_testkit::{Server, TestDatabase};

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");

/// Serves a test's database.
fn serve(database: &TestDatabase) -> Server {
    Server::start(BINARY, database, &[])
}
