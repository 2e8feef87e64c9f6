//! `kitbag openapi`

use std::process::ExitCode;

use crate::failure::Failure;
use crate::output;

pub(crate) fn run() -> Result<ExitCode, Failure> {
    let text =
        serde_json::to_string_pretty(&kitbag_server::openapi()).map_err(|error| Failure::failed(error.to_string()))?;
    output::print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
