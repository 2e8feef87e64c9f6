//! `kitbag-executor`: the executor alone, for machines that run agents and nothing else of Kitbag.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kitbag_executor::place::Place;
use kitbag_executor::program::cli::ExecutorCommand;
use kitbag_executor::program::{ProgramError, run};
use kitbag_executor::tools;
use serde_json::json;
use tokio::runtime::Runtime;

/// Runs coding agents on this machine, for a Kitbag server elsewhere.
#[derive(Parser)]
#[command(name = "kitbag-executor", version, infer_long_args = false)]
struct Cli {
    /// The data folder [default: $XDG_DATA_HOME/kitbag, else ~/.local/share/kitbag]
    #[arg(long, global = true, env = "KITBAG_DATA", value_name = "DIR")]
    data: Option<PathBuf>,

    /// Print JSON on stdout, and nothing else there
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Executor(ExecutorCommand),
    /// The process that makes sandboxes, which the tools of a run start
    #[command(hide = true)]
    GuardKeeper {
        /// A folder like those that will be mounted
        sample: PathBuf,
        /// Make no namespaces
        #[arg(long)]
        plain: bool,
    },
    /// Kitbag's own tools for one run, which its agent starts
    #[command(hide = true, name = tools::COMMAND)]
    ExecutorTools {
        /// What they are to be
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    match done(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if json {
                let told = json!({ "code": error.code(), "message": error.to_string(), "details": null });
                let _ = writeln!(std::io::stdout(), "{told}");
            }
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn done(cli: Cli) -> Result<(), ProgramError> {
    match cli.command {
        // Before the runtime: this process must have one thread.
        Command::GuardKeeper { sample, plain } => {
            kitbag_guard::keeper::main(&sample, plain).map_err(|source| ProgramError::Io { path: sample, source })
        }
        Command::ExecutorTools { file } => Ok(runtime()?.block_on(tools::serve(&file))?),
        Command::Executor(command) => {
            let none = "there is no home folder to keep data in: give one with --data or KITBAG_DATA";
            let data = cli.data.or_else(Place::usual_data).ok_or_else(|| ProgramError::WrongUse(none.to_owned()))?;
            // What this process makes is nobody else's to read: tokens, and the files of runs.
            rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
            runtime()?.block_on(run(&data, command, cli.json))
        }
    }
}

fn runtime() -> Result<Runtime, ProgramError> {
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| ProgramError::WrongUse(format!("there are no threads to work with: {error}")))
}
