//! `POST /v1/executors/pair`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kitbag_model::run::{ExecutorToken, NewExecutor, PairingToken};
use kitbag_model::{Action, ExecutorId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::access::issuers::base_url;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// A machine that wants to be an executor.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PairExecutor {
    pairing_token: String,
    /// What people are to call it; one line.
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// Its version.
    #[schema(min_length = 1, max_length = 60)]
    agent_version: String,
    /// What it can do it says when it connects; here nothing is made of it.
    #[allow(dead_code, reason = "older executors send it")]
    #[schema(value_type = Option<Object>)]
    capabilities: Option<Value>,
}

/// A machine that is an executor now. Its token is shown this once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PairedExecutor)]
pub(crate) struct PairedView {
    executor_id: String,
    executor_token: String,
    organization_id: String,
    /// Where it connects.
    gateway_ws_url: String,
}

/// Become an executor, with a pairing token
#[utoipa::path(
    post, path = "/v1/executors/pair", tag = "executors",
    request_body = PairExecutor,
    responses((status = 201, body = PairedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn pair_executor(
    State(app): State<App>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<PairExecutor>,
) -> Result<(StatusCode, Json<PairedView>), ApiError> {
    let name = body.name.parse().map_err(|reason| ApiError::invalid("name", reason))?;
    let version = body.agent_version.parse().map_err(|reason| ApiError::invalid("agentVersion", reason))?;
    let invalid = || {
        let message = "the pairing token is not known, or was used already; make a new one";
        ApiError::new(Code::PairingTokenInvalid, message)
    };
    let token: PairingToken = body.pairing_token.trim().parse().map_err(|_| invalid())?;
    let mut tx = app.store().write(&token.org).await?;
    let pairing = tx.pairing(token.id).await?.filter(|pairing| pairing.hash == token.secret.hash());
    let pairing = pairing.filter(|pairing| !pairing.is_used).ok_or_else(invalid)?;
    if pairing.expires_at <= Timestamp::now() {
        let message = "the pairing token has expired: it works for a quarter of an hour; make a new one";
        return Err(ApiError::new(Code::PairingTokenExpired, message));
    }
    // Of two who try at once, one is let in.
    if !tx.use_pairing(token.id).await? {
        return Err(invalid());
    }
    let secret = ExecutorToken::generate(token.org.clone(), ExecutorId::generate());
    let (pool, labels) = (pairing.pool, pairing.labels);
    let new = NewExecutor { id: secret.id, name, version, pool, labels, hash: secret.secret.hash() };
    let executor = tx.create_executor(&new).await?;
    let details = json!({ "name": executor.name, "pool": executor.pool, "labels": executor.labels });
    let who = format!("pairing token {}", token.id);
    tx.audit(&who, Action::ExecutorPaired, &executor.id.to_string(), &details).await?;
    tx.commit_chat().await?;
    app.runs().tell_executor(&token.org, &executor, false);
    let view = PairedView {
        executor_id: executor.id.to_string(),
        executor_token: secret.to_secret().expose().to_owned(),
        organization_id: token.org.to_string(),
        gateway_ws_url: socket_url(&app, &headers),
    };
    Ok((StatusCode::CREATED, Json(view)))
}

/// Where an executor connects: under the name by which it found us, unless the operator says otherwise.
fn socket_url(app: &App, headers: &HeaderMap) -> String {
    let base = base_url(app, headers);
    let rest = base.strip_prefix("http").unwrap_or(&base);
    format!("ws{rest}/v1/executors/connect")
}
