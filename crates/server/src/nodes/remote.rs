//! What one node asks another for in its own name: to run a call of a chat that the other holds, and to end one that runs there. Everything
//! that matters stands in the address, which the seal covers.

use std::time::Duration;

use axum::extract::{Query, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_model::{ChatId, OrgId, ToolCallId};
use serde::Deserialize;

use super::Nodes;
use super::channel::{self, FromNode, SEAL};
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::servers::Servers;

pub(crate) const RUN: &str = "/internal/nodes/run-call";
pub(crate) const CANCEL: &str = "/internal/nodes/cancel-call";

/// Which call.
#[derive(Deserialize)]
pub(crate) struct Named {
    org: OrgId,
    chat: ChatId,
    call: ToolCallId,
    who: Option<String>,
}

/// Whether another node did what it was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// It did.
    Done,
    /// It did not, and will not.
    Refused,
    /// It is not known.
    Unknown,
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
    let running = tokio::spawn(async move { app.calls().run_for(&org, chat, call, &from).await });
    running.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A call that runs here is ended by somebody at another node.
pub(crate) async fn cancel_here(
    State(app): State<App>,
    Query(named): Query<Named>,
    request: Request,
) -> Result<Response, ApiError> {
    node_of(&request)?;
    let who = named.who.unwrap_or_default();
    app.calls().cancel_here(&named.org, named.chat, named.call, &who).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn node_of(request: &Request) -> Result<String, ApiError> {
    let from = request.extensions().get::<FromNode>().map(|from| from.0.clone());
    from.ok_or_else(|| ApiError::new(Code::NotFound, "there is no such route"))
}

fn address_of(what: &str, org: &OrgId, chat: ChatId, call: ToolCallId, who: Option<&str>) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("org", org.as_str()).append_pair("chat", &chat.to_string());
    query.append_pair("call", &call.to_string());
    if let Some(who) = who {
        query.append_pair("who", who);
    }
    format!("{what}?{}", query.finish())
}

impl Nodes {
    /// Asks another node to do something about a call, and waits until it did.
    pub(crate) async fn ask(
        &self,
        servers: &Servers,
        node: &str,
        what: &str,
        (org, chat, call): (&OrgId, ChatId, ToolCallId),
        who: Option<&str>,
    ) -> Answer {
        let Some(address) = self.peer(node).and_then(|peer| peer.address) else { return Answer::Refused };
        let path = address_of(what, org, chat, call, who);
        let (Ok(seal), Ok(client)) =
            (channel::seal((servers, self), node, &Method::POST, &path, None).await, self.client())
        else {
            return Answer::Refused;
        };
        let asking =
            client.post(format!("{address}{path}")).header(SEAL, seal).header(header::HOST, "localhost").send();
        tokio::select! {
            answered = asking => match answered {
                Ok(response) if response.status().is_success() => Answer::Done,
                Ok(response) => {
                    let status = response.status();
                    let why = response.text().await.unwrap_or_default();
                    tracing::warn!(node, %status, why, "another node did not do what it was asked for");
                    Answer::Refused
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
