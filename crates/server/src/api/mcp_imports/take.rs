//! `POST /v1/orgs/{org}/mcp-imports`

use axum::Json;
use axum::extract::State;
use kitbag_formats::clients::Readable;
use kitbag_model::{DisplayName, ServerKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::view::NotTaken;
use super::{mark_known, of_text, of_this_machine};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::JsonBody;
use crate::api::mcp_servers::{ServerView, live, show};
use crate::app::App;
use crate::elsewhere::Candidate;
use crate::toolsets::{NewServer, lowered};

/// Which servers to take.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TakeServers {
    /// The text that they are in; absent: the files of this machine's programs.
    text: Option<String>,
    items: Vec<TakeServer>,
    /// Whether servers that are not in a file of the user's own may start, too; false if absent. Whoever says so has looked at what
    /// they start.
    trust: Option<bool>,
}

/// A server to take.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TakeServer {
    /// Its `id` as it was shown. If the file says something else by now, nothing is taken.
    id: String,
    /// Whether to keep the values that look like secrets; false if absent. If not, each becomes a reference to a variable.
    keep_values: Option<bool>,
}

/// What became of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct TakenServers {
    added: Vec<ServerView>,
    /// What whoever took them should know.
    notes: Vec<String>,
    failed: Vec<NotTaken>,
}

/// Take MCP servers of other programs
///
/// Each gets a toolset of its own, as if it had been added by hand. One in a file of the user's own is trusted as it is; any other must be
/// trusted first. Nothing that lets tools run unasked is taken. What cannot be taken is told, and the others are taken nevertheless.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/mcp-imports", tag = "mcp-servers",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = TakeServers,
    responses((status = 200, body = TakenServers), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn import_mcp_servers(
    State(app): State<App>,
    caller: MayManage,
    JsonBody(body): JsonBody<TakeServers>,
) -> Result<Json<TakenServers>, ApiError> {
    let mut found = match body.text {
        Some(text) => of_text(text).await?,
        None => of_this_machine(&caller.org).await?.0,
    };
    mark_known(&app, &caller.org, &mut found).await?;
    let mut taken = TakenServers { added: Vec::new(), notes: Vec::new(), failed: Vec::new() };
    for wanted in body.items {
        let one = found.iter().find(|one| one.id().to_string() == wanted.id);
        let keep = wanted.keep_values.unwrap_or(false);
        match take(&app, &caller, one, keep, body.trust.unwrap_or(false)).await {
            Ok((key, notes)) => {
                taken.notes.extend(notes);
                taken.added.push(show(&app, &caller.org, true, &key).await?);
            }
            Err(error) => {
                let (code, message, _) = error.into_told();
                let (id, name) = (wanted.id, one.map(Candidate::display_name));
                taken.failed.push(NotTaken { id, name, code: code.as_str(), message });
            }
        }
    }
    Ok(Json(taken))
}

/// Takes one. Its key, and what to know about it.
async fn take(
    app: &App,
    caller: &MayManage,
    one: Option<&Candidate>,
    keep_values: bool,
    trust: bool,
) -> Result<(ServerKey, Vec<String>), ApiError> {
    let refused = |reason: String| ApiError::new(Code::Conflict, reason);
    let one = one.ok_or_else(|| refused("what was shown is not there any more; look again".to_owned()))?;
    if one.known {
        return Err(refused("exactly this server is there already".to_owned()));
    }
    let readable = one.server.as_ref().map_err(|why| ApiError::new(why.code.into(), why.to_string()))?;
    let server = if keep_values { readable.with_values() } else { readable.server.clone() };
    let name: DisplayName =
        one.display_name().parse().map_err(|reason: kitbag_model::TextError| ApiError::invalid("name", reason))?;
    let new = NewServer {
        id: None,
        name,
        launch: lowered(&caller.org, server.launch),
        enabled: server.enabled,
        requires_confirmation: None,
        description: server.description,
        pin_policy: None,
        strict_records: false,
        trusted: one.own || trust,
        sandbox: false,
    };
    let key = app.toolsets().add_server(&caller.org, &caller.author(), new).await?;
    live::changed(app, &caller.org, &key, "add_server").await;
    Ok((key, notes(one, readable, keep_values)))
}

/// What to know about a server that was taken. What was said about values that were kept is not so.
fn notes(one: &Candidate, readable: &Readable, keep_values: bool) -> Vec<String> {
    let is_kept = |note: &String| keep_values && readable.written_out.iter().any(|w| note.starts_with(&w.place));
    let name = one.display_name();
    readable.notes.iter().filter(|note| !is_kept(note)).map(|note| format!("{name}: {note}")).collect()
}
