//! Kitbag: packages tools, runs them, shows their results and serves them to any agent.
//!
//! This crate is the command line and the wiring. What Kitbag does is in the other crates.

mod cli;
mod client;
mod commands;
mod config;
mod data;
mod embedded;
mod events;
mod failure;
mod file_body;
mod here;
mod logging;
mod output;
mod signals;
mod visible;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use failure::Failure;
use output::Output;

/// A call through the gateway is some hundred allocations, which are a fifth of its time with the one of the C library.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.json);
    match run(cli, &output) {
        Ok(code) => code,
        Err(failure) => output.failure(&failure),
    }
}

fn run(cli: Cli, output: &Output) -> Result<ExitCode, Failure> {
    // Before the runtime: this process must have one thread.
    if let Command::GuardKeeper { sample, plain } = &cli.command {
        return Ok(kitbag_guard::keeper::main(sample, *plain).map(|()| ExitCode::SUCCESS)?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let place = cli.place;
    runtime.block_on(async {
        match cli.command {
            Command::Serve(flags) => commands::serve::run(&place, *flags).await,
            Command::Chat(command) => commands::chat::run(&place, command, output).await,
            Command::Workspace { chat, command } => commands::workspace::run(&place, chat, command, output).await,
            Command::Toolset(command) => commands::toolset::run(&place, command, output).await,
            Command::Gallery(command) => commands::gallery::run(&place, command, output).await,
            Command::Tool(command) => commands::tool::run(&place, command, output).await,
            Command::Mcp(command) => commands::mcp::run(&place, command, output).await,
            Command::Audit(command) => commands::audit::run(&place, command, output).await,
            Command::Admin(command) => commands::admin::run(&place, command, output).await,
            Command::Doctor { cluster } => commands::doctor::run(&place, cluster, output).await,
            Command::Openapi => commands::openapi::run(),
            Command::Completions { shell } => commands::completions::run(shell),
            Command::Executor(command) => commands::executor::run(&place, command, output).await,
            Command::ExecutorTools { file } => {
                Ok(kitbag_executor::tools::serve(&file).await.map(|()| ExitCode::SUCCESS)?)
            }
            Command::Run(flags) => commands::run::run(&place, *flags, output).await,
            Command::Runs(command) => commands::run::runs(&place, command, output).await,
            Command::GuardKeeper { .. } => Ok(ExitCode::SUCCESS),
        }
    })
}
