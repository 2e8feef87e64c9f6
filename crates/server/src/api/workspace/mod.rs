//! The workspace of a chat: its files, its states, and what differs between them.

pub(crate) mod checkout;
pub(crate) mod delete_file;
pub(crate) mod diff;
pub(crate) mod download;
pub(crate) mod files;
pub(crate) mod fsck;
pub(crate) mod gc;
pub(crate) mod get_file;
pub(crate) mod manifest;
pub(crate) mod manifests;
pub(crate) mod put_file;
pub(crate) mod rename;
pub(crate) mod restore;
pub(crate) mod snapshot;
pub(crate) mod upload;
mod view;

use axum::http::{HeaderMap, header};
use kitbag_cas::{Entry, tree};
use kitbag_model::{ChatId, Manifest, ManifestId, OrgId, WorkPath};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::{ApiError, Code};
use crate::access::origin::only;
use crate::app::App;
use crate::workspaces::{Lease, WorkspaceError};

pub(crate) use view::{EntryView, ManifestView};

/// The path of a file in a workspace.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct FilePath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The chat.
    chat: String,
    /// The file, relative to the workspace.
    path: String,
}

impl FilePath {
    fn chat(&self) -> Result<ChatId, ApiError> {
        self.chat.parse().map_err(|_| ApiError::not_found("chat", &self.chat))
    }

    fn path(&self) -> Result<WorkPath, ApiError> {
        self.path.parse().map_err(|reason| ApiError::invalid("path", reason))
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found("file", &self.path)
    }
}

/// Says which chat was not found.
pub(crate) fn explain(chat: ChatId) -> impl Fn(WorkspaceError) -> ApiError {
    move |error| match error {
        WorkspaceError::NoChat => ApiError::not_found("chat", &chat.to_string()),
        other => other.into(),
    }
}

/// The state that a caller names, or the current one. A chat that never used its workspace gets no folder by being asked.
async fn wanted_state(
    app: &App,
    org: &OrgId,
    lease: &Lease,
    chat: ChatId,
    named: Option<&str>,
) -> Result<Option<Manifest>, ApiError> {
    let found = match named {
        Some(id) => lease.manifest(manifest_id(id)?).await.map(Some),
        None if app.workspaces().exists(org, chat) => lease.current().await,
        None => lease.active().await,
    };
    found.map_err(explain(chat))
}

/// What a path has in the current state, if a caller's conditions on it hold.
async fn current_entry(
    lease: &Lease,
    chat: ChatId,
    path: &WorkPath,
    headers: &HeaderMap,
) -> Result<Option<Entry>, ApiError> {
    let current = lease.current().await.map_err(explain(chat))?;
    let root = current.map_or_else(|| tree::empty().root, |manifest| manifest.root);
    let entry = lease.find(root, path.clone()).await.map_err(explain(chat))?;
    check_preconditions(headers, entry.as_ref())?;
    Ok(entry)
}

fn manifest_id(text: &str) -> Result<ManifestId, ApiError> {
    text.parse().map_err(|_| ApiError::not_found("manifest", text))
}

/// Checks `If-Match` and `If-None-Match` against what is there: somebody else may have changed it since it was read.
fn check_preconditions(headers: &HeaderMap, current: Option<&Entry>) -> Result<(), ApiError> {
    let tag = current.map(|entry| format!("\"{}\"", entry.hash));
    let failed = |message: &str| Err(ApiError::new(Code::PreconditionFailed, message));
    if headers.contains_key(header::IF_MATCH) {
        let wanted = only(headers, &header::IF_MATCH).unwrap_or_default();
        let matches = tag.as_ref().is_some_and(|tag| wanted == "*" || wanted.split(',').any(|one| one.trim() == tag));
        if !matches {
            return failed("the file has changed since it was read: its ETag is not the one in If-Match");
        }
    }
    if only(headers, &header::IF_NONE_MATCH) == Some("*") && tag.is_some() {
        return failed("the file is there already");
    }
    Ok(())
}
