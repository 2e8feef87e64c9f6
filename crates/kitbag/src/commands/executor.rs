//! `kitbag executor …`: the same as the program `kitbag-executor`, on this data folder.

use std::process::ExitCode;

use kitbag_executor::program;
use kitbag_executor::program::cli::ExecutorCommand;

use crate::cli::Place;
use crate::data::DataFolder;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) async fn run(place: &Place, command: ExecutorCommand, output: &Output) -> Result<ExitCode, Failure> {
    let folder = DataFolder::open(place)?;
    match program::run(folder.path(), command, output.is_json()).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::with_exit(error.code(), error.to_string(), error.exit_code())),
    }
}
