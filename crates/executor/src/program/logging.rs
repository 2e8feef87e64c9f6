//! Logs: on stderr, for people on a terminal, as JSON otherwise.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use super::ProgramError;

/// Starts logging. Lines that cannot be written are lost: a log that nobody reads any more must not stop the work.
pub(super) fn start(filter: &str, format: Option<&str>) -> Result<(), ProgramError> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        ProgramError::WrongUse(format!("log: {filter:?} is not a filter: {error}. Try info or debug"))
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    let text = format.map_or_else(|| io::stderr().is_terminal(), |format| format == "text");
    // Whoever embeds this may log already; then that holds.
    let _ = if text {
        builder.with_ansi(io::stderr().is_terminal()).try_init()
    } else {
        builder.json().flatten_event(true).with_span_list(false).try_init()
    };
    Ok(())
}
