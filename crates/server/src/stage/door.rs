//! Tells requests for the stage from all others, by the name they are for, before anything else looks at them.
//!
//! A request for a name of the stage never reaches the API or the page, and one for any other name never reaches the
//! stage: what runs there shares no origin with what holds the user's cookie.

use std::time::Instant;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;

use super::grants::Show;
use super::{Stage, app, frame, page};
use crate::access::origin::asked_host;
use crate::app::App;

/// What on the stage a request is for, if it is for the stage.
pub(crate) fn label(app: &App, request: &Request) -> Option<String> {
    let host = asked_host(request.uri(), request.headers()).filter(|host| !app.hosts().is_ours(host))?;
    app.stage().names().label(&host).map(ToOwned::to_owned)
}

/// What the stage answers.
pub(crate) async fn answer(stage: &Stage, label: &str, request: Request) -> Response {
    let found = stage.grants().find(Instant::now(), label);
    let Some(grant) = found else {
        // One answer for what never was and for what is over: a guess learns nothing.
        return stage.plain(StatusCode::NOT_FOUND, "There is no such page, or its time is over. Open the call again.");
    };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = match &grant.show {
        Show::Page { page, data } => page::answer(stage, &grant, (page, data), &method, &path).await,
        Show::Frame { port } => frame::answer(stage, &grant, *port, request).await,
        Show::App { page, policy } => app::answer(stage, (page, policy), &method, &path),
    };
    // The label stays out of the log: whoever knows it may look.
    tracing::debug!(chat = %grant.chat, %method, status = response.status().as_u16(), "shown on the stage");
    response
}
