//! `POST /v1/orgs/{org}/chats/{chat}/workspace/fsck`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::explain;
use crate::access::caller::MayManage;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// What was found.
#[derive(Serialize, ToSchema)]
#[schema(as = Checked)]
pub(crate) struct CheckedView {
    /// Whether every state is whole.
    ok: bool,
    /// How many different states there are.
    states: usize,
    /// How many tree nodes they need.
    nodes: usize,
    /// How many blobs they need.
    blobs: usize,
    /// What is missing or damaged.
    problems: Vec<String>,
    /// Blobs that were damaged or missing, and stored again from the folder.
    mended: Vec<String>,
}

/// Look whether everything that the states of the chat need is there and whole, and mend what can be mended
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/workspace/fsck", tag = "workspace",
    params(ChatPath),
    responses((status = 200, body = CheckedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn fsck_workspace(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ChatPath>,
) -> Result<Json<CheckedView>, ApiError> {
    let chat = path.id()?;
    let lease = app.workspaces().edit(&caller.org, chat).await?;
    lease.active().await.map_err(explain(chat))?;
    let found = lease.check().await.map_err(explain(chat))?;
    Ok(Json(CheckedView {
        ok: found.problems.is_empty(),
        states: found.states,
        nodes: found.nodes,
        blobs: found.blobs,
        problems: found.problems,
        mended: found.mended,
    }))
}
