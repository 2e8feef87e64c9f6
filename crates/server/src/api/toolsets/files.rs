//! `GET /v1/orgs/{org}/toolsets/{id}/files`

use axum::Json;
use axum::extract::State;
use kitbag_model::WorkPath;

use super::ToolsetPath;
use super::view::FileView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::api::list::{List, ListQuery};
use crate::app::App;

/// List the files of a toolset, by path
#[utoipa::path(
    get, path = "/v1/orgs/{org}/toolsets/{id}/files", tag = "toolsets",
    params(ToolsetPath, ListQuery),
    responses((status = 200, body = List<FileView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_toolset_files(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ToolsetPath>,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<List<FileView>>, ApiError> {
    let id = path.id()?;
    let list = format!("files of {id}");
    let (after, limit) = (query.after::<WorkPath>(&list)?, query.limit()?);
    let mut tx = app.store().read(&caller.org).await?;
    tx.toolset(&id).await?.filter(|one| caller.audience().sees(one)).ok_or_else(|| path.not_found())?;
    let page = tx.toolset_files(&id, after.as_ref(), limit).await?;
    Ok(Json(List::of(&list, page, |file| file.path.clone())))
}
