//! Tool calls.

pub(crate) mod app;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod decide;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod result;
mod view;
pub(crate) mod waiting;

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_model::{CallStatus, ChatId, OrgId, ToolCallId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;
use crate::app::App;
use crate::calls::Asked;

pub(crate) use view::ToolCallView;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The path of a call.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Path)]
pub(crate) struct CallPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The chat.
    chat: String,
    /// The call.
    call_id: String,
}

impl CallPath {
    fn ids(&self) -> Result<(ChatId, ToolCallId), ApiError> {
        let chat = self.chat.parse().map_err(|_| ApiError::not_found("chat", &self.chat))?;
        Ok((chat, self.call_id.parse().map_err(|_| self.not_found())?))
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found("tool call", &self.call_id)
    }
}

/// Whether the caller does not want to wait (`Prefer: respond-async`).
fn wants_no_wait(headers: &HeaderMap) -> bool {
    let preferences = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    preferences.flat_map(|line| line.split(',')).any(|one| one.trim().eq_ignore_ascii_case("respond-async"))
}

/// The answer to whoever asked for a call: the call when it is over, or at once if it waits for a yes or nobody wants to wait.
async fn answer(app: &App, org: &OrgId, asked: Asked, headers: &HeaderMap) -> Result<Response, ApiError> {
    let no_wait = wants_no_wait(headers);
    let call = match asked.call.status {
        CallStatus::Running if !no_wait => app.calls().wait(org, asked).await?,
        _ => asked.call,
    };
    let call = Arc::unwrap_or_clone(call);
    let over = matches!(call.status, CallStatus::Success | CallStatus::Error);
    let place = format!("/v1/orgs/{org}/chats/{}/tool-calls/{}", call.chat_id, call.id);
    let mut more = HeaderMap::new();
    more.insert(header::LOCATION, HeaderValue::from_str(&place).map_err(ApiError::internal)?);
    if no_wait {
        more.insert(PREFERENCE_APPLIED, HeaderValue::from_static("respond-async"));
    }
    let status = if over && !no_wait { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, more, Json(ToolCallView::shown(call, org, app.stage()))).into_response())
}
