//! `GET /v1/orgs/{org}/agent-runs/{run}/events`

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use kitbag_model::{OrgId, RunId};
use kitbag_store::KeptEvent;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;

use super::RunPath;
use crate::access::caller::MayUse;
use crate::access::origin::only;
use crate::access::stay::Stay;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::app::App;
use crate::fair::Share;

/// How often a line is sent that says nothing but that the connection is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How often it is looked though nobody said that there is something: another server may have heard it.
const LOOK: Duration = Duration::from_secs(2);

/// So many events are read at a time, and are on their way to one listener.
const AT_ONCE: u32 = 200;
const ON_THE_WAY: usize = 32;

/// From where on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// The number behind which to begin; `Last-Event-ID` says the same. From the first on, if absent.
    #[param(value_type = Option<u64>, minimum = 0)]
    after: Option<String>,
    /// `false`: ends with what is known now, instead of waiting for more.
    #[param(value_type = Option<bool>)]
    follow: Option<String>,
}

/// Follow a run
///
/// Server-sent events, numbered (`id:`), from the first on, or from behind `Last-Event-ID`: nothing is missed by who comes back. Each has a name
/// (`event:`) and a JSON object with `at`, `attempt` and what the event has: `state`, `agent_toolset_applied`, `toolset_not_applied`, `log`, `text`,
/// `thinking`, `tool_call`, `tool_result` (how that is shown is at `…/calls/{event}`), `usage`, `final`, `error`. The last is `end`, with the run's
/// `state`; then the stream ends.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/agent-runs/{run}/events", tag = "runs",
    params(RunPath, EventsQuery),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn run_events(
    State(app): State<App>,
    stay: Stay,
    caller: MayUse,
    PathOf(path): PathOf<RunPath>,
    QueryOf(query): QueryOf<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let share = app.fair().streams.take(&caller.org, &caller.who)?;
    let run = path.seen(&app, &caller.org, caller.audience()).await?;
    let named =
        query.after.as_deref().or_else(|| only(&headers, &axum::http::HeaderName::from_static("last-event-id")));
    let after = match named {
        Some(text) => text.parse().map_err(|_| ApiError::invalid("after", "must be a number of an event"))?,
        None => 0,
    };
    let follow = match query.follow.as_deref() {
        None | Some("true") => true,
        Some("false") => false,
        Some(other) => return Err(ApiError::invalid("follow", format!("must be true or false, not {other:?}"))),
    };
    let (sender, receiver) = mpsc::channel(ON_THE_WAY);
    let follower = Follower { app, stay, org: caller.org, run: run.id, after, follow, _share: share };
    tokio::spawn(follower.pass_on(sender));
    let stream = ReceiverStream::new(receiver);
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

/// Somebody who follows a run.
struct Follower {
    app: App,
    stay: Stay,
    org: OrgId,
    run: RunId,
    after: u64,
    follow: bool,
    /// Its place among those who listen.
    _share: Share,
}

impl Follower {
    /// Passes on what happens, until the run is over, or the listener is gone or may hear no more.
    async fn pass_on(mut self, sender: mpsc::Sender<Result<Sent, Infallible>>) {
        let mut news = self.app.runs().news();
        let mut over = self.app.events().over();
        loop {
            match self.send_new(&sender).await {
                Some(true) => {}
                Some(false) | None => return,
            }
            let mine = (self.org.clone(), self.run);
            let heard = async {
                loop {
                    match news.recv().await {
                        Ok(told) if told == mine => return,
                        // Whoever missed some looks, too.
                        Err(RecvError::Lagged(_)) => return,
                        Ok(_) => {}
                        Err(RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            let looked_at = tokio::select! {
                biased;
                () = sender.closed() => return,
                _ = over.wait_for(|over| *over) => return,
                () = self.stay.changed() => true,
                () = heard => false,
                () = tokio::time::sleep(LOOK) => false,
            };
            if looked_at && !self.stay.may_stay().await {
                return;
            }
        }
    }

    /// Sends what is new. Whether there may be more; none if nobody can be told.
    async fn send_new(&mut self, sender: &mpsc::Sender<Result<Sent, Infallible>>) -> Option<bool> {
        loop {
            // The state before the events: a run that is over then has all of them.
            let mut tx = self.app.store().read_beside(&self.org).await.ok()?;
            let state = tx.run(self.run).await.ok()?.map(|run| run.state);
            let events = tx.run_events(self.run, self.after, AT_ONCE).await.ok()?;
            drop(tx);
            let count = events.len();
            for event in events {
                self.after = event.n;
                sender.send(Ok(sent(&event))).await.ok()?;
            }
            if count == AT_ONCE as usize {
                continue;
            }
            let is_over = state.is_none_or(|state| state.is_over());
            if is_over || !self.follow {
                let data = json!({ "state": state });
                sender.send(Ok(Sent::default().event("end").data(data.to_string()))).await.ok()?;
                return Some(false);
            }
            return Some(true);
        }
    }
}

fn sent(event: &KeptEvent) -> Sent {
    let mut data = serde_json::to_value(&event.kind).unwrap_or_default();
    let name = data.get("kind").and_then(|kind| kind.as_str()).unwrap_or("log").to_owned();
    if let Some(map) = data.as_object_mut() {
        map.insert("at".to_owned(), json!(event.at));
        map.insert("attempt".to_owned(), json!(event.attempt));
        map.insert("n".to_owned(), json!(event.n));
    }
    Sent::default().id(event.n.to_string()).event(name).data(data.to_string())
}
