//! `PATCH /v1/orgs/{org}`

use axum::Json;
use axum::extract::State;
use kitbag_model::{Action, OrganizationName};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::view::OrganizationView;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// What is to be other than before.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateOrganization {
    /// What people call it.
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// Rename an organisation; its id stays
#[utoipa::path(
    patch, path = "/v1/orgs/{org}", tag = "organizations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = UpdateOrganization,
    responses((status = 200, body = OrganizationView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn update_organization(
    State(app): State<App>,
    caller: MayManage,
    JsonBody(body): JsonBody<UpdateOrganization>,
) -> Result<Json<OrganizationView>, ApiError> {
    let name: OrganizationName = body.name.parse().map_err(|reason| ApiError::invalid("name", reason))?;
    let mut tx = app.store().write(&caller.org).await?;
    let renamed = tx.rename_organization(&name).await?;
    let renamed = renamed.ok_or_else(|| ApiError::not_found("organisation", caller.org.as_str()))?;
    tx.audit(&caller.who, Action::OrganizationRenamed, caller.org.as_str(), &json!({ "name": renamed.name })).await?;
    tx.commit().await?;
    Ok(Json(renamed.into()))
}
