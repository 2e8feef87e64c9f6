//! `POST` and `DELETE /v1/orgs/{org}/mcp-servers/{serverKey}/sign-in`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_mcp::auth::{AuthError, Server};
use kitbag_model::{Action, OrgId, Secret, ServerKey};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{ServerPath, find, live};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;
use crate::servers::begun::{Begun, person};

/// A sign-in that has begun.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignIn {
    /// Where a person goes with a browser, once: it leads on to who signs people in, and the answer comes back to this server by itself.
    authorize_url: String,
    /// Who signs people in there.
    issuer: String,
    /// What is asked for.
    scopes: Vec<String>,
}

/// Begin to sign in to an MCP server
#[utoipa::path(
    post, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/sign-in", tag = "mcp-servers",
    params(ServerPath),
    responses((status = 200, body = SignIn), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn sign_in_mcp_server(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
) -> Result<Json<SignIn>, ApiError> {
    let found = find(&app, &caller, &path).await?;
    found.may_run()?;
    let begun = begin(&app, &caller.org, &caller.who, &found.key).await?;
    let (issuer, scopes) = (begun.started.issuer.clone(), begun.started.scopes.clone());
    Ok(Json(SignIn { authorize_url: link(&app, begun), issuer, scopes }))
}

/// Sign out of an MCP server: its tokens are revoked and forgotten
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/sign-in", tag = "mcp-servers",
    params(ServerPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn sign_out_mcp_server(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
) -> Result<StatusCode, ApiError> {
    let found = find(&app, &caller, &path).await?;
    let server = address(&app, &caller.org, &found.key).await?;
    app.servers().authorizer().revoke(&server).await.map_err(told)?;
    app.note(&caller.org, &caller.who, Action::McpServerSignedOut, &found.key.to_string(), &json!({})).await?;
    live::reconnect_if_on(&app, &caller.org, &found).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begins a sign-in that only one browser can end. The page's own cookie does not come along with an answer from elsewhere, so that
/// browser gets a value of its own for it.
pub(crate) async fn begin(app: &App, org: &OrgId, who: &str, key: &ServerKey) -> Result<Begun, ApiError> {
    let server = address(app, org, key).await?;
    let challenge = app.servers().state(org, key).and_then(|state| state.challenge);
    let redirect = format!("http://{}/oauth/callback/{org}", app.settings().address);
    let (authorizer, client) = (app.servers().authorizer(), app.servers().client(org, key));
    let value = Secret::generate();
    let started = authorizer.begin(&server, &person(&value), challenge.as_deref(), &redirect, &client).await;
    let started = started.map_err(told)?;
    let details = json!({ "issuer": started.issuer, "scopes": started.scopes });
    app.note(org, who, Action::McpServerSignInStarted, &key.to_string(), &details).await?;
    Ok(Begun { org: org.clone(), key: key.clone(), started, value })
}

/// Where a browser goes to be the one that ends a sign-in. The name of the host is the one that the answer comes back to: to browsers
/// other names of this machine are other places.
pub(crate) fn link(app: &App, begun: Begun) -> String {
    let (address, org, key) = (app.settings().address, begun.org.clone(), begun.key.clone());
    format!("http://{address}/oauth/start/{org}/{key}?ticket={}", app.servers().tickets().keep(begun).expose())
}

pub(super) async fn address(app: &App, org: &OrgId, key: &ServerKey) -> Result<Server, ApiError> {
    let url = app.servers().url(org, key).await?.ok_or_else(|| {
        ApiError::new(Code::Conflict, format!("{key} is started, not dialled: there is nothing to sign in to"))
    })?;
    Ok(Server { org: org.clone(), key: key.clone(), url })
}

pub(crate) fn told(error: AuthError) -> ApiError {
    ApiError::new(Code::Conflict, format!("signing in does not work: {error}"))
}
