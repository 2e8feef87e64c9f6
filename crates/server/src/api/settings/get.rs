//! `GET /v1/orgs/{org}/settings`

use axum::extract::State;
use axum::response::Response;
use kitbag_model::OrgId;

use super::view::{LimitsView, SettingsView, answer};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::app::App;

/// What an organisation says about itself, and what the operator lets it have
///
/// The answer's `ETag` names this version, for `If-Match` of a change.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/settings", tag = "organizations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = SettingsView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_settings(State(app): State<App>, caller: MayUse) -> Result<Response, ApiError> {
    let found = app.store().read_beside(&caller.org).await?.settings().await?;
    let (settings, updated_at) = found.ok_or_else(|| ApiError::not_found("organisation", caller.org.as_str()))?;
    let limits = LimitsView::new(app.rules().limits(&caller.org), caller.org == OrgId::local());
    Ok(answer(settings, updated_at, limits))
}
