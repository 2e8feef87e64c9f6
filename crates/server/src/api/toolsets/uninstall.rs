//! `DELETE /v1/orgs/{org}/toolsets/{id}`

use axum::extract::State;
use axum::http::StatusCode;

use super::ToolsetPath;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// Uninstall a toolset. What chats did with its tools stays in their history
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/toolsets/{id}", tag = "toolsets",
    params(ToolsetPath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn uninstall_toolset(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<ToolsetPath>,
) -> Result<StatusCode, ApiError> {
    let id = path.id()?;
    app.toolsets().uninstall(&caller.org, &caller.who, &id).await?;
    app.calls().end_toolset(&caller.org, id.as_str(), "removed").await;
    app.tools_changed(&caller.org, id.as_str(), "uninstall").await;
    Ok(StatusCode::NO_CONTENT)
}
