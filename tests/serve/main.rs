//! Starting, stopping, being killed: the server as a process.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests start shells around the program"
)]

mod crash;
mod crash_import;
mod crash_workspace;
#[cfg(debug_assertions)]
mod fault_points;
mod faults;
mod growth;
mod lifecycle;
mod refusals;

use kitbag_testkit::{Server, TestDatabase};

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");

fn serve(database: &TestDatabase) -> Server {
    Server::start(BINARY, database, &[])
}
