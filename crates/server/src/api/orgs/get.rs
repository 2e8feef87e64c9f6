//! `GET /v1/orgs/{org}`

use axum::Json;
use axum::extract::State;

use super::view::OrganizationView;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::app::App;

/// Read an organisation
#[utoipa::path(
    get, path = "/v1/orgs/{org}", tag = "organizations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = OrganizationView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_organization(
    State(app): State<App>,
    caller: MayUse,
) -> Result<Json<OrganizationView>, ApiError> {
    let found = app.store().read_beside(&caller.org).await?.organization().await?;
    let found = found.ok_or_else(|| ApiError::not_found("organisation", caller.org.as_str()))?;
    Ok(Json(found.into()))
}
