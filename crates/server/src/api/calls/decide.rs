//! `POST /v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/decision`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{CallPath, ToolCallView, answer};
use crate::access::caller::MayDecide;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;
use crate::calls::Verdict;

/// Yes or no.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decide {
    approve: bool,
    /// Other arguments, to be used instead. They count for a yes only.
    #[schema(value_type = Option<Object>)]
    args: Option<Map<String, Value>>,
    /// The `argsDigest` of what was looked at: if the call has another one, nothing is decided.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    digest: Option<String>,
}

/// Say yes or no to a tool call that waits for it
///
/// It needs the scope `manage`: no agent approves its own calls. A call is decided once; a second decision is a conflict that says
/// what was decided. After a yes it answers as `call_tool` does.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/decision", tag = "tool calls",
    params(CallPath, ("Prefer" = Option<String>, Header, description = "`respond-async` answers at once.")),
    request_body = Decide,
    responses((status = 200, body = ToolCallView), (status = 202, body = ToolCallView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn decide_tool_call(
    State(app): State<App>,
    caller: MayDecide,
    PathOf(path): PathOf<CallPath>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<Decide>,
) -> Result<Response, ApiError> {
    let (chat, id) = path.ids()?;
    let bad = |_| ApiError::invalid("digest", "must be the argsDigest of the call: 64 hexadecimal digits");
    let digest = body.digest.map(|text| text.parse()).transpose().map_err(bad)?;
    let verdict =
        Verdict { approve: body.approve, args: body.args, digest, audience: caller.audience(), who: caller.who };
    let (calls, org) = (app.calls().clone(), caller.org.clone());
    let deciding = kitbag_trace::carried(async move { calls.decide(&org, chat, id, verdict).await });
    let deciding = tokio::spawn(deciding);
    let call = deciding.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    answer(&app, &caller.org, call, &headers).await
}
