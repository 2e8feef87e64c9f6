//! `GET /v1/executors/connect`

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;

use crate::access::executor::OfExecutor;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::app::App;
use crate::runs::LARGEST_MESSAGE;

/// Stay connected as an executor
///
/// A WebSocket, with the executor's own token. Each text frame is one message; `docs/decisions/agent-runs.md` has them.
#[utoipa::path(
    get, path = "/v1/executors/connect", tag = "executors",
    responses((status = 101), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn connect_executor(
    State(app): State<App>,
    of: OfExecutor,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    if app.is_draining() {
        return Err(ApiError::new(Code::Unavailable, "the server is stopping; try again"));
    }
    let upgrade = upgrade.map_err(|reason| ApiError::new(Code::BadRequest, reason.to_string()))?;
    let upgrade = upgrade.max_message_size(LARGEST_MESSAGE).max_frame_size(LARGEST_MESSAGE);
    let runs = app.runs().clone();
    Ok(upgrade.on_upgrade(move |socket| async move { runs.connected(of.home, of.executor, socket).await }))
}
