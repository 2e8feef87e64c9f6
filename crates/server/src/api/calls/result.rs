//! `GET /v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/result`

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::CallPath;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;
use crate::transfer::stream_blob;

/// Get all of what a tool call returned, however large it is
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/result", tag = "tool calls",
    params(CallPath),
    responses((status = 200, body = serde_json::Value), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_tool_call_result(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<CallPath>,
) -> Result<Response, ApiError> {
    let (chat, id) = path.ids()?;
    let call = app.calls().find(&caller.org, chat, id).await?.ok_or_else(|| path.not_found())?;
    let kind = [(header::CONTENT_TYPE, "application/json")];
    match (call.outcome.result_sha256, call.outcome.result) {
        (Some(hash), _) => {
            let blob = app.workspaces().look(&caller.org, chat).await.open(hash).await?;
            let length = blob.length();
            Ok((kind, stream_blob(blob, 0, length)).into_response())
        }
        (None, Some(result)) => Ok((kind, result.to_string()).into_response()),
        (None, None) => {
            Err(ApiError::new(Code::NotFound, format!("the call returned nothing; its status is {}", call.status)))
        }
    }
}
