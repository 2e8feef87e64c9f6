//! `POST /v1/orgs/{org}/toolsets/{id}/unpublish`

use axum::Json;
use axum::extract::State;
use kitbag_model::Visibility;
use serde::Deserialize;
use utoipa::ToSchema;

use super::get::detail;
use super::{ToolsetDetail, ToolsetPath};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// Who sees it from then on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unpublish {
    /// `private` or `org`; `org`, if absent.
    visibility: Option<String>,
}

/// Take a published toolset back
///
/// The gallery does not have it any more, and nobody can adopt it. Copies that were adopted stay as they are, and its name stays
/// reserved for your organisation. A toolset that is not published stays as it is.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/{id}/unpublish", tag = "gallery",
    params(ToolsetPath),
    request_body = Unpublish,
    responses((status = 200, body = ToolsetDetail), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn unpublish_toolset(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ToolsetPath>,
    JsonBody(body): JsonBody<Unpublish>,
) -> Result<Json<ToolsetDetail>, ApiError> {
    let id = path.id()?;
    let visibility = match body.visibility.as_deref() {
        None | Some("org") => Visibility::Org,
        Some("private") => Visibility::Private,
        Some(_) => return Err(ApiError::invalid("visibility", "must be private or org")),
    };
    app.toolsets().unpublish(&caller.org, &id, visibility, &caller.author(), app.gallery()).await?;
    app.tools_changed(&caller.org, id.as_str(), "unpublish").await;
    detail(&app, &caller.org, &id, true).await?.map(Json).ok_or_else(|| path.not_found())
}
