//! The executor as a program: its commands, for `kitbag executor` and for `kitbag-executor` alike.

pub mod cli;
mod error;
mod logging;
mod pair;
mod start;
mod status;

use std::path::Path;

use cli::ExecutorCommand;
pub use error::ProgramError;

use crate::place::Place;
use crate::voice::Voice;

/// Does what a command says, on a data folder.
pub async fn run(data: &Path, command: ExecutorCommand, json: bool) -> Result<(), ProgramError> {
    let place = Place::open(data).map_err(|error| {
        ProgramError::WrongUse(format!("the data folder {} cannot be used: {error}", data.display()))
    })?;
    let voice = Voice::new(json);
    match command {
        ExecutorCommand::Pair(flags) => pair::run(&place, flags, voice).await,
        ExecutorCommand::Start(flags) => start::run(&place, *flags, voice).await,
        ExecutorCommand::Status => status::run(&place, voice).await,
    }
}
