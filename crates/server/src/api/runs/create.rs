//! `POST /v1/orgs/{org}/agent-runs`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::run::{Output, RunConfig};
use kitbag_runner::Schemas;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::RunView;
use crate::access::caller::MayDecide;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;
use crate::runs::Ask;

/// A run to be made.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateRun {
    /// What people call it; one line.
    #[schema(min_length = 1, max_length = 120)]
    name: Option<String>,
    /// `agent.run`: `prompt` (a text, or `system`, `instructions`, `inputTemplate`), `toolsetId`, `engine` (`id`, `model`), `execution` (`mode`,
    /// `selector`), `tools` (`execution`, `allow`), `limits`, `output`, `maxAttempts`.
    #[schema(value_type = Object)]
    config: Value,
    workspace: Option<RunWorkspace>,
}

/// Where a run works.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunWorkspace {
    /// The chat whose files it begins with.
    chat_id: String,
    /// A state of it; the current one, if absent.
    manifest_id: Option<String>,
    /// Whether what it leaves becomes the chat's next state, if the chat has not changed meanwhile; not, if absent.
    apply: Option<bool>,
}

/// Have an agent work on something
///
/// It waits for an executor that its selector admits. The toolset is the one of the configuration, or the organisation's default, or none; exactly
/// what it is now is what the agent gets, whenever it runs. Without a `workspace` the run has one of its own.
///
/// It takes a person at the page, or the scope `manage`: on an executor nobody is asked before a tool is called.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/agent-runs", tag = "runs",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = CreateRun,
    responses((status = 201, body = RunView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn create_run(
    State(app): State<App>,
    caller: MayDecide,
    JsonBody(body): JsonBody<CreateRun>,
) -> Result<(StatusCode, Json<RunView>), ApiError> {
    let name = body.name.map(|name| name.parse()).transpose().map_err(|reason| ApiError::invalid("name", reason))?;
    let wrong = |place: &str, reason: &str| ApiError::invalid(format!("config.{place}").trim_end_matches('.'), reason);
    let config = RunConfig::read(&body.config).map_err(|error| wrong(&error.path, &error.reason))?;
    if let Output::Json { json_schema: Some(schema) } = &config.output {
        // Nobody should wait for an agent whose answer nothing can be held to.
        let ready = Schemas::default().ready(&Value::Object(schema.clone()));
        if let Some(problem) = ready.problem() {
            return Err(wrong("output.jsonSchema", &format!("is no JSON Schema: {problem}")));
        }
    }
    let (mut chat, mut manifest, mut apply) = (None, None, None);
    if let Some(workspace) = body.workspace {
        let id = &workspace.chat_id;
        chat = Some(id.parse().map_err(|_| ApiError::not_found("chat", id))?);
        manifest = match &workspace.manifest_id {
            Some(id) => Some(id.parse().map_err(|_| ApiError::not_found("manifest", id))?),
            None => None,
        };
        apply = workspace.apply;
    }
    let ask = Ask { name, config, chat, manifest, apply, retry_of: None };
    let run = app.runs().ask(&caller.org, caller.audience(), &caller.who, ask).await?;
    let waiting = app.runs().why_waiting(&caller.org, &run).await?;
    Ok((StatusCode::CREATED, Json(RunView::new(run, waiting))))
}
