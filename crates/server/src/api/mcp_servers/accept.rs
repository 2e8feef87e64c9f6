//! `POST /v1/orgs/{org}/mcp-servers/{serverKey}/pins/accept`

use axum::Json;
use axum::extract::State;
use kitbag_model::{Action, ContentHash, McpToolName};
use kitbag_store::AcceptError;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::pins::{ServerPins, pins_of};
use super::{ServerPath, find, live};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// What was looked at.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AcceptPins {
    /// The server's own name for the tool; absent: all that wait.
    tool: Option<String>,
    /// The tool's `sha256` that was shown, or `waitingSha256` for all. If it is given, it must be what is there now: the server may
    /// have changed it since.
    sha256: Option<String>,
}

/// Accept what a server's tools have become, so that they can be called
#[utoipa::path(
    post, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/pins/accept", tag = "mcp-servers",
    params(ServerPath),
    request_body = AcceptPins,
    responses((status = 200, body = ServerPins), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn accept_mcp_server_pins(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
    JsonBody(body): JsonBody<AcceptPins>,
) -> Result<Json<ServerPins>, ApiError> {
    let invalid = |field: &'static str| move |reason: String| ApiError::invalid(field, reason);
    let shown: Option<ContentHash> = body
        .sha256
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|error: kitbag_model::hash::NotAHash| invalid("sha256")(error.to_string()))?;
    let tool: Option<McpToolName> = body
        .tool
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|error: kitbag_model::IdError| invalid("tool")(error.to_string()))?;
    let key = find(&app, &caller, &path).await?.key;
    let mut tx = app.store().write(&caller.org).await?;
    let no_tool = || {
        ApiError::new(Code::ToolNotFound, format!("{key} has no tool {:?}", body.tool.as_deref().unwrap_or_default()))
    };
    let accepted = match &tool {
        Some(tool) => {
            let now = tx.pins(&key).await?.into_iter().find(|pin| pin.tool == *tool).ok_or_else(no_tool)?;
            tx.accept_pin(&key, tool, &shown.unwrap_or(now.seen.sha256)).await
        }
        None => tx.accept_all(&key, shown.as_ref()).await.map(drop),
    };
    accepted.map_err(|error| match error {
        AcceptError::NotFound => no_tool(),
        AcceptError::Differs => {
            ApiError::new(Code::Conflict, "what waits is not what was shown any more; look at it again")
        }
        AcceptError::Store(error) => error.into(),
    })?;
    tx.audit(
        &caller.who,
        Action::McpServerToolsAccepted,
        &key.to_string(),
        &json!({ "tool": body.tool, "sha256": shown }),
    )
    .await?;
    tx.commit().await?;
    live::changed(&app, &caller.org, &key, "accept_tools").await;
    pins_of(&app, &caller.org, &key).await.map(Json)
}
