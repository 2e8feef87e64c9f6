//! `GET /v1/identities` and `DELETE /v1/identities/{identity}`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_store::UnlinkError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::people::Person;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::api::list::List;
use crate::app::App;

/// A way to sign in through an issuer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Identity)]
pub(crate) struct IdentityView {
    id: String,
    /// The issuer, as it stands in addresses.
    issuer: String,
    /// What people call it; null if it is configured no more.
    #[schema(required)]
    issuer_name: Option<String>,
    /// The address that the issuer had for you when it was linked.
    #[schema(required)]
    email: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

/// List the issuers that you can sign in at, oldest first
///
/// Another is linked by following `/sign-in/{issuer}?link=1` while you are signed in.
#[utoipa::path(
    get, path = "/v1/identities", tag = "people",
    responses((status = 200, body = List<IdentityView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_identities(
    State(app): State<App>,
    Person(person): Person,
) -> Result<Json<List<IdentityView>>, ApiError> {
    let links = app.store().read_person(person.user).await?.linked_identities().await?;
    let views = links.into_iter().map(|link| IdentityView {
        issuer_name: app.issuers().name(&link.issuer).map(ToOwned::to_owned),
        id: link.id,
        issuer: link.issuer,
        email: link.label,
        created_at: link.created_at.to_string(),
    });
    Ok(Json(List::part("identities", views.collect(), None)))
}

/// End a way to sign in, at once; the last one stays
///
/// Access tokens of that issuer are no longer yours either.
#[utoipa::path(
    delete, path = "/v1/identities/{identity}", tag = "people",
    params(("identity" = String, Path, description = "The identity's id.")),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn delete_identity(
    State(app): State<App>,
    Person(person): Person,
    PathOf(identity): PathOf<String>,
) -> Result<StatusCode, ApiError> {
    let mut tx = app.store().person(person.user).await?;
    tx.unlink_identity(&identity).await.map_err(|error| match error {
        UnlinkError::Missing => ApiError::not_found("identity", &identity),
        UnlinkError::LastWay => {
            let message = "it is your only way in: choose a password or link another issuer first";
            ApiError::new(Code::Conflict, message)
        }
        UnlinkError::Store(error) => error.into(),
    })?;
    tx.commit().await?;
    app.rights_changed();
    Ok(StatusCode::NO_CONTENT)
}
