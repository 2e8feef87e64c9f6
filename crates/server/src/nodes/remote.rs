//! What one node asks another for in its own name: to run a call of a chat that the other holds, to end one that runs there, to keep what a run left.
//! Everything that matters stands in the address, which the seal covers.

use std::time::Duration;

use axum::extract::{Query, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_model::{CallError, CallErrorCode, ChatId, OrgId, RunId, ToolCallId};
use serde::Deserialize;
use serde_json::Value;

use super::channel::{self, FromNode, SEAL};
use super::{Nodes, forward};
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::calls::by_somebody;
use crate::servers::Servers;

pub(crate) const RUN: &str = "/internal/nodes/run-call";
pub(crate) const CANCEL: &str = "/internal/nodes/cancel-call";

/// Makes what a run left the chat's next state.
pub(crate) const APPLY: &str = "/internal/nodes/apply-run";

/// Which run.
#[derive(Deserialize)]
pub(crate) struct NamedRun {
    org: OrgId,
    run: RunId,
}

/// Which call.
#[derive(Deserialize)]
pub(crate) struct Named {
    org: OrgId,
    chat: ChatId,
    call: ToolCallId,
    /// Who ends it, if that is somebody: then the audit has it from whoever ends it.
    who: Option<String>,
    /// Why it ends, if that is not because somebody wants it.
    code: Option<CallErrorCode>,
    why: Option<String>,
}

/// Whether another node did what it was asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// It did, and says this.
    Done(String),
    /// It did nothing: it does not hold the chat any more, is about to stop, or was started anew. Somebody else may.
    Refused,
    /// It did nothing, and nobody else would, either.
    Failed(Failed),
    /// It is not known.
    Unknown,
}

/// What another node says that is wrong with what it was asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failed {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Failed {
    /// What an answer that is no success says of what was done. An error inside, or none in time, says nothing.
    fn of(status: StatusCode, text: String) -> Option<Self> {
        if !status.is_client_error() || status == StatusCode::REQUEST_TIMEOUT {
            return None;
        }
        let told = serde_json::from_str::<Value>(&text).ok();
        let told = told.and_then(|told| told.get("message")?.as_str().map(ToOwned::to_owned));
        Some(Self { status, message: told.unwrap_or(text) })
    }
}

/// What became of a call that another node handed over.
pub(crate) enum Handed {
    /// It is over, or not that node's any more: its record says it.
    Looked,
    /// It is not for this node to run.
    Elsewhere(ApiError),
}

/// A call that was asked for at another node runs here, to its end.
pub(crate) async fn run_here(
    State(app): State<App>,
    Query(named): Query<Named>,
    request: Request,
) -> Result<Response, ApiError> {
    let from = node_of(&request)?;
    let Named { org, chat, call, .. } = named;
    // It goes on if the other node goes away.
    let running = async move { app.calls().run_for(&org, chat, call, &from).await };
    let running = tokio::spawn(kitbag_trace::carried(running));
    match running.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))? {
        Handed::Looked => Ok(StatusCode::NO_CONTENT.into_response()),
        Handed::Elsewhere(why) => Ok(forward::undone(why)),
    }
}

/// A call that runs here is ended by somebody at another node, or by that node.
pub(crate) async fn cancel_here(
    State(app): State<App>,
    Query(named): Query<Named>,
    request: Request,
) -> Result<Response, ApiError> {
    node_of(&request)?;
    let why = match (named.code, named.why) {
        (Some(code), Some(why)) => CallError::new(code, why),
        _ => by_somebody(),
    };
    app.calls().cancel_here(&named.org, named.chat, named.call, why, named.who.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What a run left becomes the next state of a chat that is held here. Why not, if that cannot be.
pub(crate) async fn apply_here(
    State(app): State<App>,
    Query(named): Query<NamedRun>,
    request: Request,
) -> Result<String, ApiError> {
    node_of(&request)?;
    Ok(app.runs().apply_for(&named.org, named.run).await?.unwrap_or_default())
}

pub(super) fn node_of(request: &Request) -> Result<String, ApiError> {
    let from = request.extensions().get::<FromNode>().map(|from| from.0.clone());
    from.ok_or_else(|| ApiError::new(Code::NotFound, "there is no such route"))
}

/// What is asked for, with everything that matters in it.
pub(super) fn address_of(what: &str, named: &[(&str, &str)]) -> String {
    format!("{what}?{}", url::form_urlencoded::Serializer::new(String::new()).extend_pairs(named).finish())
}

impl Nodes {
    /// Whether there is such a node, and others reach it.
    pub(crate) fn can_ask(&self, node: &str) -> bool {
        self.peer(node).is_some_and(|peer| peer.address.is_some())
    }

    /// Asks another node to do something about a call, and waits until it did.
    pub(crate) async fn ask(
        &self,
        servers: &Servers,
        node: &str,
        what: &str,
        (org, chat, call): (&OrgId, ChatId, ToolCallId),
        more: &[(&str, &str)],
    ) -> Answer {
        let (chat, call) = (chat.to_string(), call.to_string());
        let named = [&[("org", org.as_str()), ("chat", &*chat), ("call", &*call)], more].concat();
        self.asked(servers, node, address_of(what, &named)).await
    }

    /// Asks another node to make what a run left the state of a chat that it holds.
    pub(crate) async fn ask_to_apply(&self, servers: &Servers, node: &str, org: &OrgId, run: RunId) -> Answer {
        let run = run.to_string();
        self.asked(servers, node, address_of(APPLY, &[("org", org.as_str()), ("run", &*run)])).await
    }

    pub(super) async fn asked(&self, servers: &Servers, node: &str, path: String) -> Answer {
        let Some(address) = self.peer(node).and_then(|peer| peer.address) else { return Answer::Refused };
        let Ok(vault) = servers.vault().await else { return Answer::Refused };
        let seal = channel::seal(&vault, self, node, &Method::POST, &path, None);
        let (Ok(seal), Ok(client)) = (seal, self.client(node)) else { return Answer::Refused };
        let asking =
            client.post(format!("{address}{path}")).header(SEAL, seal.clone()).header(header::HOST, "localhost");
        let asking = asking.headers(channel::trace()).send();
        tokio::select! {
            answered = asking => match answered {
                // Another program may be at that address by now, or one in between.
                Ok(response)
                    if !response.headers().contains_key(forward::UNDONE)
                        && !channel::is_answered(&vault, &seal, response.headers()) =>
                {
                    let status = response.status();
                    tracing::warn!(node, %status, "somebody else answers at the address of another node");
                    Answer::Unknown
                }
                Ok(response) if response.status().is_success() => {
                    Answer::Done(response.text().await.unwrap_or_default())
                }
                Ok(response) => {
                    let (status, undone) = (response.status(), response.headers().contains_key(forward::UNDONE));
                    let why = response.text().await.unwrap_or_default();
                    tracing::warn!(node, %status, why, "another node did not do what it was asked for");
                    match Failed::of(status, why) {
                        _ if undone => Answer::Refused,
                        Some(failed) => Answer::Failed(failed),
                        None => Answer::Unknown,
                    }
                }
                Err(error) if error.is_connect() => Answer::Refused,
                Err(error) => {
                    tracing::warn!(%error, node, "it is not known whether another node did what it was asked for");
                    Answer::Unknown
                }
            },
            () = self.gone(node) => Answer::Unknown,
        }
    }

    /// So long it takes until somebody says how the calls of a dead node ended, and a little more.
    pub(crate) fn patience(&self) -> Duration {
        3 * self.0.settings.lease
    }
}
