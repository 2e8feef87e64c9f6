//! Python tools: what a toolset's code offers, and one call of it in a worker.
//!
//! A toolset has one warm parent that has imported its modules; every call is a fresh child of that parent in a sandbox of
//! `guard`'s making. This crate knows nothing of SQL, HTTP or who is asking.

mod call;
mod environment;
mod frames;
mod host;
mod interpreter;
mod logs;
mod packages;
mod packets;
mod parent;
mod proc;
mod program;
mod requirements;
mod rooms;
mod running;
mod workers;

pub use call::{Event, Failure, FailureKind, Finished, Job, LoggedLine, Stop, Stream};
pub use program::{Described, Description, Entry, Program};
pub use workers::{Process, Settings, WorkerError, Workers};
