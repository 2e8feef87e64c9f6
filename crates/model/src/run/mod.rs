//! Agent runs: one prompt, given to a coding agent on an executor, with a toolset.
//!
//! What somebody asks for ([`RunConfig`]), whether a toolset applies to it ([`apply`]), what state it is in ([`RunState`]), what it needs of an
//! executor ([`Needs`]), what is told while it goes on ([`RunEvent`]), how its tools are shown ([`RunRenderings`]), and what a server and an
//! executor say to each other ([`wire`]). Nothing here runs anything.

pub mod apply;
mod config;
mod event;
pub mod executor;
mod needs;
mod record;
mod renderings;
mod selector;
mod state;
mod trace;
pub mod wire;

pub use apply::{Application, NotApplied, Profile, ToolsetFrom};
pub use config::{ConfigError, EngineId, ExecutionMode, Limits, Output, Prompt, RunConfig, RunName, ToolsExecution};
pub use event::{RunEvent, RunEventKind};
pub use executor::{
    Executor, ExecutorName, ExecutorToken, ExecutorVersion, NewExecutor, NewPairing, Pairing, PairingToken,
};
pub use needs::Needs;
pub use record::{NewRun, Run};
pub use renderings::{RunRenderings, tool_id};
pub use selector::{Candidate, Label, MOST_LABELS, Pool, Selector};
pub use state::{RunError, RunOutcome, RunState};
pub use trace::Trace;
