//! `GET /v1/orgs/{org}/chats/{chat}/turns/{turn}/events`

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::TurnPath;
use super::follow::follow;
use crate::access::caller::MayUse;
use crate::access::origin::only;
use crate::access::stay::Stay;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::app::App;

/// From where on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TurnEventsQuery {
    /// The number behind which to begin; `Last-Event-ID` says the same. From the first on, if absent.
    #[param(value_type = Option<u64>, minimum = 0)]
    after: Option<String>,
}

/// Take a turn up again
///
/// The events of `stream`, from behind `Last-Event-ID`: of a block that became whole meanwhile there is the block in place of its pieces. The
/// latest turn of a chat is known until the server ends; what an older one said is in its message.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/turns/{turn}/events", tag = "turns",
    params(TurnPath, TurnEventsQuery),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn turn_events(
    State(app): State<App>,
    stay: Stay,
    caller: MayUse,
    PathOf(path): PathOf<TurnPath>,
    QueryOf(query): QueryOf<TurnEventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let share = app.fair().streams.take(&caller.org, &caller.who)?;
    let (chat, id) = (path.chat()?, path.turn()?);
    let turn = app.turns().find(&caller.org, chat, id).ok_or_else(|| path.not_found())?;
    // A browser that has heard nothing may say so with a header without a number.
    let header = only(&headers, &HeaderName::from_static("last-event-id")).filter(|number| !number.is_empty());
    let named = query.after.as_deref().or(header);
    let wrong = |_| ApiError::invalid("after", "must be a number of an event");
    let after = named.map(|text| text.parse().map_err(wrong)).transpose()?.unwrap_or(0);
    Ok(follow(turn, after, stay, share))
}
