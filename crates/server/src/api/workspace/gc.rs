//! `POST /v1/orgs/{org}/chats/{chat}/workspace/gc`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use kitbag_model::Action;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::explain;
use crate::access::caller::MayManage;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// An hour: what is younger may be on its way into a state.
const DEFAULT_GRACE: u32 = 3600;

/// A year.
const LONGEST_GRACE: u32 = 31_536_000;

/// How to collect.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Collect {
    /// What is younger stays; 3600 if absent.
    #[schema(maximum = 31_536_000)]
    grace_seconds: Option<u32>,
}

/// What was forgotten.
#[derive(Serialize, ToSchema)]
#[schema(as = Collected)]
pub(crate) struct CollectedView {
    /// Tree nodes.
    nodes: usize,
    /// Blobs.
    blobs: u64,
    /// The bytes that these had.
    bytes: u64,
}

/// Forget what no state of the chat needs any more
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/workspace/gc", tag = "workspace",
    params(ChatPath),
    request_body = Collect,
    responses((status = 200, body = CollectedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn gc_workspace(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ChatPath>,
    JsonBody(body): JsonBody<Collect>,
) -> Result<Json<CollectedView>, ApiError> {
    let chat = path.id()?;
    let grace = body.grace_seconds.unwrap_or(DEFAULT_GRACE);
    if grace > LONGEST_GRACE {
        return Err(ApiError::invalid("graceSeconds", format!("must be from 0 to {LONGEST_GRACE}")));
    }
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    lease.active().await.map_err(explain(chat))?;
    let done = lease.collect(Duration::from_secs(grace.into())).await.map_err(explain(chat))?;
    let details = json!({ "graceSeconds": grace, "nodes": done.nodes, "blobs": done.blobs, "bytes": done.bytes });
    app.note(&caller.org, &caller.who, Action::WorkspaceCollected, &chat.to_string(), &details).await?;
    Ok(Json(CollectedView { nodes: done.nodes, blobs: done.blobs, bytes: done.bytes }))
}
