//! MCP servers that other programs have: shown, and taken by whoever chose them. A value that looks like a secret is never shown, and
//! taken along only where somebody says so.

pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod take;
mod view;

use kitbag_model::OrgId;

use super::error::{ApiError, Code};
use crate::app::App;
use crate::elsewhere::{self, Candidate, Unread, places};

/// What the files of this machine's programs have. They are their owner's alone, who is `local`.
async fn of_this_machine(org: &OrgId) -> Result<(Vec<Candidate>, Vec<Unread>), ApiError> {
    if *org != OrgId::local() {
        let message = "the files of this machine's programs are read for the organisation local only";
        return Err(ApiError::new(Code::Forbidden, message));
    }
    tokio::task::spawn_blocking(|| elsewhere::look(&places::all())).await.map_err(ApiError::internal)
}

/// What a text has.
async fn of_text(text: String) -> Result<Vec<Candidate>, ApiError> {
    let read = tokio::task::spawn_blocking(move || elsewhere::read(&text)).await.map_err(ApiError::internal)?;
    read.map_err(|reason| ApiError::invalid("text", reason))
}

/// Marks what is there already.
async fn mark_known(app: &App, org: &OrgId, found: &mut [Candidate]) -> Result<(), ApiError> {
    let installed = app.store().read(org).await?.all_installed().await?;
    let there = installed.iter().flat_map(|one| &one.servers).map(|one| one.server.fingerprint().to_string());
    elsewhere::mark_known(found, there);
    Ok(())
}
