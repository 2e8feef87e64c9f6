//! `POST /v1/orgs/{org}/chats/{chat}/tool-calls`

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use kitbag_model::ToolId;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{ToolCallView, answer, wants_no_wait};
use crate::access::caller::MayUse;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;
use crate::calls::Ask;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What to call.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CallTool {
    /// The tool's id.
    tool_id: String,
    /// Its arguments.
    #[serde(default)]
    #[schema(value_type = Object)]
    args: Map<String, Value>,
    /// The message that it belongs to: the one that the chat stands at, or one above it. Absent: a message of the role `tool` is
    /// added below the one that the chat stands at.
    message_id: Option<String>,
}

/// Call a tool
///
/// Answers 200 with the call when it is over, whether the tool succeeded or failed; 202 with a call that is `pending` if a person has
/// to say yes first, and always 202 with `Prefer: respond-async`. The call goes on if the caller goes away. Calls of one chat run
/// one after the other, in the order in which they came.
///
/// With `Idempotency-Key` the same request may be sent again: it is one call. The key with another request is a conflict.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/tool-calls", tag = "tool calls",
    params(
        ChatPath,
        ("Idempotency-Key" = Option<String>, Header, description = "The caller's own name for this request: 1 to 255 visible ASCII characters.", min_length = 1, max_length = 255, pattern = "^[!-~]+$"),
        ("Prefer" = Option<String>, Header, description = "`respond-async` answers at once."),
    ),
    request_body = CallTool,
    responses((status = 200, body = ToolCallView), (status = 202, body = ToolCallView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn call_tool(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<CallTool>,
) -> Result<Response, ApiError> {
    let chat = path.id()?;
    let key = idempotency_key(&headers)?;
    let stand = app.calls().stand(&caller.org, chat).await?.ok_or_else(|| path.not_found())?;
    let no_tool = || ApiError::new(Code::ToolNotFound, format!("there is no tool {:?}", body.tool_id));
    let tool: ToolId = body.tool_id.parse().map_err(|_| no_tool())?;
    let no_message = || ApiError::invalid("messageId", "is not a message of this chat");
    let message = body.message_id.map(|id| id.parse().map_err(|_| no_message())).transpose()?;
    // Who may change the lists is not bound by them; an agent's token is.
    let lists = if caller.manages { None } else { Some(app.lists_of(&caller.org).await?) };
    let bounds = stand.bounds().with_lists(lists);
    let (at_once, stand) = (wants_no_wait(&headers), stand.manifest);
    let audience = caller.audience();
    let who = caller.who;
    let args = body.args;
    let ask = Ask { chat, stand, tool, args, message, key, at_once, who, audience, bounds, company: None };
    // From here on it is done to its end: a caller that goes away must not leave half of it.
    let (calls, org) = (app.calls().clone(), caller.org.clone());
    let asking = tokio::spawn(kitbag_trace::carried(async move { calls.ask(&org, ask).await }));
    let asked = asking.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    answer(&app, &caller.org, asked, &headers).await
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut keys = headers.get_all(KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let visible = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_graphic);
    let good = keys.next().is_none() && (1..=255).contains(&key.len()) && visible(key.as_bytes());
    match key.to_str() {
        Ok(text) if good => Ok(Some(text.to_owned())),
        _ => Err(ApiError::invalid("Idempotency-Key", "must be one value of 1 to 255 visible ASCII characters")),
    }
}
