//! `POST /v1/orgs/{org}/toolsets/{id}/publish`

use axum::Json;
use axum::extract::State;
use kitbag_model::PublicSlug;
use serde::Deserialize;
use utoipa::ToSchema;

use super::get::detail;
use super::{ToolsetDetail, ToolsetPath};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// As what to publish.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Publish {
    /// The name in the gallery, unique among all organisations: `^[a-z0-9][a-z0-9-]{2,80}$`. It stays your organisation's for good.
    #[schema(min_length = 3, max_length = 81)]
    public_slug: String,
}

/// Publish a toolset: everybody who is signed in may look at it and adopt it
///
/// What is published is a copy without secrets. It never changes: to publish a newer one, unpublish it first. A toolset that is
/// published under this name already stays as it is.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/{id}/publish", tag = "gallery",
    params(ToolsetPath),
    request_body = Publish,
    responses((status = 200, body = ToolsetDetail), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn publish_toolset(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ToolsetPath>,
    JsonBody(body): JsonBody<Publish>,
) -> Result<Json<ToolsetDetail>, ApiError> {
    let id = path.id()?;
    let slug: PublicSlug = body.public_slug.parse().map_err(|reason| ApiError::invalid("publicSlug", reason))?;
    // Its bundle is held in memory for a moment, like one that is imported.
    let _place = app.fair().imports.enter(&caller.org).await?;
    let rooms = (app.inbox(), app.gallery());
    app.toolsets().publish(&caller.org, &id, slug, caller.author(), rooms).await?;
    app.tools_changed(&caller.org, id.as_str(), "publish").await;
    detail(&app, &caller.org, &id, true).await?.map(Json).ok_or_else(|| path.not_found())
}
