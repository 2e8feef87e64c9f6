//! `GET /v1/toolset-gallery/{slug}`

use axum::Json;
use axum::extract::State;

use super::slug_of;
use super::view::EntryView;
use crate::access::caller::MayBrowse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Show a published toolset: its tools, servers, skills and files
///
/// Of the variables and headers of its servers there are the names.
#[utoipa::path(
    get, path = "/v1/toolset-gallery/{slug}", tag = "gallery",
    params(("slug" = String, Path, description = "What it is published as.")),
    responses((status = 200, body = EntryView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_gallery_toolset(
    State(app): State<App>,
    _: MayBrowse,
    PathOf(slug): PathOf<String>,
) -> Result<Json<EntryView>, ApiError> {
    Ok(Json(app.gallery().entry(&slug_of(&slug)?).await?.into()))
}
