//! Starting, stopping, being killed: the server as a process.
#![allow(clippy::unwrap_used, missing_docs)]

mod crash;
mod lifecycle;
mod refusals;

use kitbag_testkit::{Server, TestDatabase};

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");

fn serve(database: &TestDatabase) -> Server {
    Server::start(BINARY, database, &[])
}
