//! `POST /v1/orgs/{org}/mcp-imports/read`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::ImportableServers;
use super::{mark_known, of_text};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;

/// A text with MCP servers.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadServers {
    /// The configuration of another program, or a part of it; JSON or TOML.
    text: String,
}

/// Read the MCP servers of a text, such as somebody copied from another program's configuration
///
/// Nothing is taken, and no value that looks like a secret is shown.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/mcp-imports/read", tag = "mcp-servers",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = ReadServers,
    responses((status = 200, body = ImportableServers), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn read_importable_mcp_servers(
    State(app): State<App>,
    caller: MayManage,
    JsonBody(body): JsonBody<ReadServers>,
) -> Result<Json<ImportableServers>, ApiError> {
    let mut found = of_text(body.text).await?;
    mark_known(&app, &caller.org, &mut found).await?;
    Ok(Json(ImportableServers::new(&app, &caller.org, &found, &[])))
}
