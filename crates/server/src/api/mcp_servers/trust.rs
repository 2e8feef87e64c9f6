//! `POST /v1/orgs/{org}/mcp-servers/{serverKey}/trust`

use axum::Json;
use axum::extract::State;
use kitbag_model::Action;
use kitbag_store::StoreError;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{ServerPath, ServerView, find, live, show};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;

/// What was looked at.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Trust {
    /// The command line that was shown. If it is given, it must be what would start now: somebody may have changed it since.
    command_line: Option<String>,
    /// The `fingerprint` that was shown. It covers all that decides what starts: environment, folder and headers too.
    fingerprint: Option<String>,
}

/// Let a server start as it is now. When what it would start changes, it needs to be trusted again
#[utoipa::path(
    post, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/trust", tag = "mcp-servers",
    params(ServerPath),
    request_body = Trust,
    responses((status = 200, body = ServerView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn trust_mcp_server(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ServerPath>,
    JsonBody(body): JsonBody<Trust>,
) -> Result<Json<ServerView>, ApiError> {
    let found = find(&app, &caller, &path).await?;
    let server = found.server()?;
    let other_line = body.command_line.is_some_and(|shown| shown != server.server.launch.command_line());
    let fingerprint = server.server.fingerprint();
    if other_line || body.fingerprint.is_some_and(|shown| shown != fingerprint.to_string()) {
        return Err(ApiError::new(
            Code::Conflict,
            "what it would start is not what was shown any more; look at it again",
        ));
    }
    let mut tx = app.store().write(&caller.org).await?;
    tx.trust(&found.key.toolset, found.key.server.as_str(), &fingerprint).await.map_err(|error| match error {
        // It was removed between the two.
        StoreError::Reference => path.not_found(),
        other => other.into(),
    })?;
    let details = json!({ "fingerprint": fingerprint });
    tx.audit(&caller.who, Action::McpServerTrusted, &found.key.to_string(), &details).await?;
    tx.commit().await?;
    live::changed(&app, &caller.org, &found.key, "trust").await;
    show(&app, &caller.org, true, &found.key).await.map(Json)
}
