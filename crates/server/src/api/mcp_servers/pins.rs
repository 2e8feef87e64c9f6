//! `GET /v1/orgs/{org}/mcp-servers/{serverKey}/pins`

use axum::Json;
use axum::extract::State;
use kitbag_model::pin::waiting_hash;
use kitbag_model::{Acceptance, FieldChange, OrgId, Pin, ServerKey, ToolId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{ServerPath, find};
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// What is remembered of a server's tools.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerPins {
    /// What happens when a tool changes: `warn`, `quarantine` or `accept`.
    pin_policy: String,
    /// What to send as `sha256` to accept all that waits, and only that.
    waiting_sha256: String,
    /// In the server's order; those that are not listed any more come last.
    pins: Vec<PinView>,
}

/// What is remembered of a server's tool.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pin)]
pub(crate) struct PinView {
    /// The server's own name for the tool.
    tool: String,
    tool_id: String,
    /// `accepted`; or `quarantined`: it cannot be called until somebody accepts what it has become.
    state: String,
    /// Whether it is other than what was accepted.
    waiting: bool,
    /// Whether the last list of the server had it.
    listed: bool,
    /// The hash of what it is now; what to send as `sha256` to accept it.
    sha256: String,
    /// The hash of what was accepted; null if nothing ever was.
    #[schema(required)]
    accepted_sha256: Option<String>,
    /// What is different from what was accepted. These are the words of the server: show them so that nothing in them is hidden.
    changes: Vec<ChangeView>,
    #[schema(format = DateTime)]
    first_seen_at: String,
    #[schema(format = DateTime)]
    last_seen_at: String,
}

/// A part of a tool's definition that is other than it was.
#[derive(Serialize, ToSchema)]
#[schema(as = PinChange)]
pub(crate) struct ChangeView {
    field: String,
    /// What it was; absent if it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    /// What it is; absent if it is not there any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

impl From<FieldChange> for ChangeView {
    fn from(change: FieldChange) -> Self {
        Self { field: change.field, before: change.before, after: change.after }
    }
}

impl From<&Pin> for PinView {
    fn from(pin: &Pin) -> Self {
        Self {
            tool: pin.tool.to_string(),
            tool_id: ToolId::Mcp { server: pin.server.clone(), tool: pin.tool.clone() }.to_string(),
            state: pin.state.to_string(),
            waiting: pin.is_waiting(),
            listed: pin.listed,
            sha256: pin.seen.sha256.to_string(),
            accepted_sha256: match &pin.accepted {
                Acceptance::AsSeen => Some(pin.seen.sha256.to_string()),
                Acceptance::Other(accepted) => Some(accepted.sha256.to_string()),
                Acceptance::Never => None,
            },
            changes: pin.difference().into_iter().map(ChangeView::from).collect(),
            first_seen_at: pin.first_seen_at.to_string(),
            last_seen_at: pin.last_seen_at.to_string(),
        }
    }
}

/// What is remembered of a server's tools now.
pub(super) async fn pins_of(app: &App, org: &OrgId, key: &ServerKey) -> Result<ServerPins, ApiError> {
    let not_found = || ApiError::not_found("MCP server", &key.to_string());
    let mut tx = app.store().read(org).await?;
    let installed = tx.installed(&key.toolset).await?.ok_or_else(not_found)?;
    let server = installed.server(key.server.as_str()).ok_or_else(not_found)?;
    let pins = tx.pins(key).await?;
    Ok(ServerPins {
        pin_policy: installed.pin_policy(server).to_string(),
        waiting_sha256: waiting_hash(&pins).to_string(),
        pins: pins.iter().map(PinView::from).collect(),
    })
}

/// Show what is remembered of a server's tools, with what has changed since it was accepted
#[utoipa::path(
    get, path = "/v1/orgs/{org}/mcp-servers/{serverKey}/pins", tag = "mcp-servers",
    params(ServerPath),
    responses((status = 200, body = ServerPins), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_mcp_server_pins(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ServerPath>,
) -> Result<Json<ServerPins>, ApiError> {
    let found = find(&app, &caller, &path).await?;
    pins_of(&app, &caller.org, &found.key).await.map(Json)
}
