//! `POST /v1/orgs/{org}/executors/pairing-tokens`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kitbag_model::run::executor::PAIRING_SECONDS;
use kitbag_model::run::{NewPairing, PairingToken, Pool};
use kitbag_model::{Action, OrgId, PairingId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::labels;
use crate::access::caller::MayManage;
use crate::access::issuers::base_url;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// A way in for an executor that is to be made.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreatePairingToken {
    /// The labels that the executor will have; a group is `group:<name>`.
    #[schema(max_items = 50)]
    labels: Option<Vec<String>>,
    /// `byon`, if absent. `managed` is for the operator: it serves every organisation.
    pool: Option<String>,
}

/// A way in for an executor. It is shown this once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PairingToken)]
pub(crate) struct PairingTokenView {
    /// What `kitbag executor pair` takes. It works once.
    pairing_token: String,
    /// When it ends: in a quarter of an hour.
    expires_at: String,
    /// The address that the executor has to know beside it.
    server: String,
}

/// Make a way in for an executor
#[utoipa::path(
    post, path = "/v1/orgs/{org}/executors/pairing-tokens", tag = "executors",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = CreatePairingToken,
    responses((status = 201, body = PairingTokenView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn create_pairing_token(
    State(app): State<App>,
    caller: MayManage,
    headers: HeaderMap,
    JsonBody(body): JsonBody<CreatePairingToken>,
) -> Result<(StatusCode, Json<PairingTokenView>), ApiError> {
    let labels = labels(body.labels.unwrap_or_default())?;
    let pool = match body.pool {
        Some(pool) => pool.parse().map_err(|reason| ApiError::invalid("pool", reason))?,
        None => Pool::Byon,
    };
    if pool == Pool::Managed && caller.org != OrgId::local() {
        let message = "executors of the pool managed are the operator's: they are paired in the organisation local";
        return Err(ApiError::new(Code::Forbidden, message));
    }
    let token = PairingToken::generate(caller.org.clone(), PairingId::generate());
    let new = NewPairing {
        id: token.id,
        hash: token.secret.hash(),
        pool,
        labels,
        created_by: caller.who.clone(),
        expires_at: Timestamp::now().plus_seconds(PAIRING_SECONDS),
    };
    let mut tx = app.store().write(&caller.org).await?;
    tx.create_pairing(&new).await?;
    let details = json!({ "pool": new.pool, "labels": new.labels });
    tx.audit(&caller.who, Action::ExecutorPairingCreated, &new.id.to_string(), &details).await?;
    tx.commit_chat().await?;
    let view = PairingTokenView {
        pairing_token: token.to_secret().expose().to_owned(),
        expires_at: new.expires_at.to_string(),
        server: base_url(&app, &headers),
    };
    Ok((StatusCode::CREATED, Json(view)))
}
