//! `POST /v1/orgs/{org}/toolset-gallery/{slug}/adopt`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::{Description, DisplayName, ToolsetId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::slug_of;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::api::toolsets::{ToolsetDetail, get};
use crate::app::App;
use crate::toolsets::Adoption;

/// Where to adopt what.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct AdoptPath {
    /// The organisation that gets the copy; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// What it is published as.
    slug: String,
}

/// What is to be other about the copy.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Adopt {
    /// Its id; the original's, with a number if that is taken, if absent.
    id: Option<String>,
    /// Its name; the original's, if absent or blank.
    #[schema(max_length = 120)]
    name: Option<String>,
    /// What it is for; what the original says, if absent.
    #[schema(max_length = 16384)]
    description: Option<String>,
}

/// Adopt a published toolset: a copy of it becomes your organisation's own
///
/// The copy has everything: files, servers, skills, overrides. What happens to the original changes nothing about it. Nobody has
/// trusted it yet, so its servers do not start, and it takes no question before a call away.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolset-gallery/{slug}/adopt", tag = "gallery",
    params(AdoptPath),
    request_body = Adopt,
    responses((status = 201, body = ToolsetDetail), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn adopt_toolset(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<AdoptPath>,
    JsonBody(body): JsonBody<Adopt>,
) -> Result<(StatusCode, Json<ToolsetDetail>), ApiError> {
    let slug = slug_of(&path.slug)?;
    let id = body.id.map(|id| id.parse::<ToolsetId>()).transpose();
    let name = body.name.filter(|name| !name.trim().is_empty()).map(|name| name.parse::<DisplayName>()).transpose();
    let description = body.description.map(|text| match text.trim().is_empty() {
        true => Ok(None),
        false => text.parse::<Description>().map(Some),
    });
    let wanted = Adoption {
        id: id.map_err(|reason| ApiError::invalid("id", reason))?,
        name: name.map_err(|reason| ApiError::invalid("name", reason))?,
        description: description.transpose().map_err(|reason| ApiError::invalid("description", reason))?,
    };
    let _place = app.fair().imports.enter(&caller.org).await?;
    let id = app.toolsets().adopt(&caller.org, &slug, &wanted, &caller.author(), app.gallery()).await?;
    app.tools_changed(&caller.org, id.as_str(), "adopt").await;
    let detail = get::detail(&app, &caller.org, &id, true).await?;
    // Somebody who removed it meanwhile.
    let detail = detail.ok_or_else(|| ApiError::not_found("toolset", id.as_str()))?;
    Ok((StatusCode::CREATED, Json(detail)))
}
