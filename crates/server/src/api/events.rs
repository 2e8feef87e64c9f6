//! `GET /v1/orgs/{org}/events`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use kitbag_model::{ChatId, OrgId};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;

use super::error::{ApiError, ErrorBody};
use super::input::QueryOf;
use crate::access::caller::MayUse;
use crate::access::stay::Stay;
use crate::app::App;
use crate::events::{Event, MISSED, Sight};
use crate::fair::Share;

/// How often a line is sent that says nothing but that the connection is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// So many events are on their way to one listener.
const ON_THE_WAY: usize = 32;

/// Which events.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only those of this chat, and those that concern all chats.
    chat: Option<String>,
}

/// Hear what happens, from now on
///
/// Server-sent events; each has a name (`event:`) and a JSON object (`data:`). A comment is sent every 15 seconds. Nothing is
/// kept: after a break, ask the API. The stream ends with the token, the session or the membership that opened it.
///
/// - `ready` `{}`: from here on nothing is missed.
/// - `tool_call`: a tool call that was asked for, decided, or is over, as `get_tool_call` shows it; a `result` or `logs` of more
///   than 16 KiB is null, with `resultOmitted` or `logsOmitted` true.
/// - `tool_call_progress` `{"chatId","callId","fraction","message"}`: `fraction` from 0 to 1, or null.
/// - `tool_call_log` `{"chatId","callId","lines":[{"stream","text"}],"dropped"}`: at most ten a second for each call; `dropped` lines
///   were left out. All that is kept of the log is in the call.
/// - `chat_changed` `{"chatId","reason"}`: `created`, `changed`, `deleted`, `message` (one was added by `add_message`) or `branch` (it
///   stands at another message).
/// - `workspace_changed` `{"chatId","manifestId","changedPaths","deletedPaths","changedCount","deletedCount","source","sourceRef"}`:
///   at most 500 paths each are named.
/// - `tools_changed` `{"toolsetId","reason"}`: `import`, `create`, `update`, `uninstall`, `enable`, `disable`, `override`, `trust` or `prepare`.
/// - `toolset_progress` `{"toolsetId","message"}`: a line about the environment that is being built.
/// - `mcp_server` `{"id","status","reason","since"}`: how an MCP server is now; what else there is to know of it, `get_mcp_server` says.
/// - `process` `{"chatId","processes":[…]}`: what runs now of what calls left running, as `list_processes` shows it.
/// - `members_changed` `{"userId","reason"}`: `joined`, `role`, `removed`, or, with `userId` null, `invitations`.
/// - `run_changed` `{"runId","chatId","state","attempt"}`: a run of an agent is in another state; what happens in it, `run_events` tells.
/// - `executor_changed` `{"executorId","connected"}`: an executor was paired, came, went, or has another name or other labels.
/// - `lagged` `{"missed"}`: so many events were missed, for they were not taken fast enough; null: nobody knows how many, for another
///   server on the same database could not be heard for a while.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/events", tag = "events",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), EventsQuery),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn events(
    State(app): State<App>,
    stay: Stay,
    caller: MayUse,
    QueryOf(query): QueryOf<EventsQuery>,
) -> Result<Response, ApiError> {
    let share = app.fair().streams.take(&caller.org, &caller.who)?;
    let chat = match query.chat {
        Some(text) => {
            let not_found = || ApiError::not_found("chat", &text);
            let id: ChatId = text.parse().map_err(|_| not_found())?;
            app.store().read(&caller.org).await?.chat(id).await?.ok_or_else(not_found)?;
            Some(id)
        }
        None => None,
    };
    let (sender, receiver) = mpsc::channel(ON_THE_WAY);
    let sight = Sight::new(&app, &caller.org, caller.audience()).await?;
    tokio::spawn(pass_on(app, Listener { stay, org: caller.org, chat, _share: share }, sight, sender));
    let stream = ReceiverStream::new(receiver);
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

/// Somebody who listens.
struct Listener {
    stay: Stay,
    org: OrgId,
    chat: Option<ChatId>,
    /// Its place among those who listen.
    _share: Share,
}

impl Listener {
    fn concerns(&self, event: &Arc<Event>) -> bool {
        if event.name == MISSED {
            return true;
        }
        event.org == self.org && (self.chat.is_none() || event.chat.is_none() || event.chat == self.chat)
    }
}

/// Passes on what concerns one listener, until it is gone, may hear no more, or the server ends.
async fn pass_on(app: App, mut listener: Listener, mut sight: Sight, sender: mpsc::Sender<Result<Sent, Infallible>>) {
    let (mut bus, mut over) = (app.events().listen(), app.events().over());
    let mut next = Some(named("ready", &json!({})));
    loop {
        if let Some(event) = next.take() {
            tokio::select! {
                sent = sender.send(Ok(event)) => if sent.is_err() { return },
                _ = over.wait_for(|over| *over) => return,
            }
        }
        // In this order: whoever was taken out hears nothing that came after.
        let heard = tokio::select! {
            biased;
            () = sender.closed() => return,
            _ = over.wait_for(|over| *over) => return,
            () = listener.stay.changed() => None,
            heard = bus.recv() => Some(heard),
        };
        next = match heard {
            None if listener.stay.may_stay().await => None,
            None => return,
            Some(Ok(event)) if listener.concerns(&event) => {
                sight.see(&app, &event).await.map(|data| named(&event.name, &data))
            }
            Some(Ok(_)) => None,
            Some(Err(RecvError::Lagged(missed))) => {
                metrics::counter!("kitbag_events_dropped_total", "listener" => "api").increment(missed);
                Some(named("lagged", &json!({ "missed": missed })))
            }
            Some(Err(RecvError::Closed)) => return,
        };
    }
}

fn named(name: &str, data: &serde_json::Value) -> Sent {
    Sent::default().event(name).data(data.to_string())
}
