//! `GET /v1/orgs/{org}/chats/{chat}/workspace/manifests`

use axum::Json;
use axum::extract::State;

use super::{ManifestView, explain};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// One part holds no more files than this, whatever its limit: each state lists all of its files.
const MOST_FILES: usize = 20_000;

/// List the states of a workspace, newest first
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/workspace/manifests", tag = "workspace",
    params(ChatPath, ListQuery),
    responses((status = 200, body = List<ManifestView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_workspace_manifests(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<ManifestView>>, ApiError> {
    let chat = path.id()?;
    let list = format!("manifests {chat}");
    let (before, limit) = (query.after(&list)?, query.limit()?);
    let lease = app.workspaces().look(&caller.org, chat).await;
    lease.active().await.map_err(explain(chat))?;
    let mut page = app.store().read(&caller.org).await?.manifests(chat, before, limit).await?;
    let mut views = Vec::new();
    let mut files = 0;
    for manifest in &page.items {
        let entries = lease.entries(manifest.root).await.map_err(explain(chat))?;
        files += entries.len();
        if files > MOST_FILES && !views.is_empty() {
            page.has_more = true;
            break;
        }
        views.push(ManifestView::new(manifest.clone(), entries));
    }
    page.items.truncate(views.len());
    let last = page.items.last().map(|manifest| manifest.id.to_string()).filter(|_| page.has_more);
    Ok(Json(List::part(&list, views, last)))
}
