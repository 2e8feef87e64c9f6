//! `GET /v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/app`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use kitbag_formats::html;
use kitbag_mcp::manager::{APP, ManagerError};
use kitbag_mcp::tool::ToolDefinition;
use kitbag_model::{ServerKey, ToolId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::CallPath;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// The app of a call's tool.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCallApp)]
pub(crate) struct AppView {
    /// Where the document is that shows it, for a short time; null if the tool has none, or this server shows nothing.
    #[schema(required)]
    url: Option<String>,
    /// The server's definition of the tool.
    #[schema(required, value_type = Option<Object>)]
    tool: Option<Value>,
    /// The tools that it may call, all of its own server: their names there, and their ids here.
    tools: Vec<AppTool>,
}

/// A tool that an app may call.
#[derive(Serialize, ToSchema)]
pub(crate) struct AppTool {
    name: String,
    id: String,
}

/// Show the app of a tool call
///
/// An MCP server may offer a page for the results of a tool (MCP Apps, `_meta.ui.resourceUri`). It is put on the stage, inside a
/// document that passes messages between it and the page around it.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/chats/{chat}/tool-calls/{callId}/app", tag = "tool calls",
    params(CallPath),
    responses((status = 200, body = AppView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_tool_call_app(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<CallPath>,
) -> Result<Json<AppView>, ApiError> {
    let (chat, id) = path.ids()?;
    let call = app.calls().find(&caller.org, chat, id).await?.ok_or_else(|| path.not_found())?;
    let ToolId::Mcp { server, tool } = &call.tool_id else { return Ok(Json(AppView::default())) };
    // The record of a call is its chat's; the server behind it is there for who sees it.
    if app.toolsets().seen(&caller.org, caller.audience(), &server.toolset).await.is_err() {
        return Ok(Json(AppView::default()));
    }
    let defined: Arc<[ToolDefinition]> =
        app.servers().manager(&caller.org).tools(&caller.org, server).unwrap_or_default();
    let definition = defined.iter().find(|definition| definition.name == tool.as_str()).map(ToolDefinition::raw);
    let definition = definition.unwrap_or_default();
    let Some(uri) = address(&definition) else { return Ok(Json(AppView::default())) };
    let asked =
        app.servers().manager(&caller.org).request(&caller.org, server, "resources/read", json!({ "uri": uri })).await;
    let answer = asked.map_err(|error| refused(server, error))?;
    let content = page_of(&answer).ok_or_else(|| unusable(server, uri, "it is no page of an app"))?;
    let page = content.get("text").and_then(Value::as_str).unwrap_or_default();
    let page = html::text(page.as_bytes()).map_err(|error| unusable(server, uri, &error.to_string()))?;
    let url = app.stage().open_app(&caller.org, chat, &call.id.to_string(), page, content.pointer("/_meta/ui/csp"));
    let of_app = defined.iter().filter(|definition| is_for_apps(&definition.raw()));
    let tools = of_app.filter_map(|definition| {
        let tool = definition.name.parse().ok()?;
        Some(AppTool { name: definition.name.clone(), id: ToolId::Mcp { server: server.clone(), tool }.to_string() })
    });
    let tools = tools.collect();
    Ok(Json(AppView { url, tool: Some(Value::Object(definition)), tools }))
}

/// Where a server says that the page of a tool is.
fn address(tool: &Map<String, Value>) -> Option<&str> {
    let meta = tool.get("_meta")?;
    let said = meta.pointer("/ui/resourceUri").or_else(|| meta.get("ui/resourceUri"))?;
    said.as_str().filter(|uri| uri.starts_with("ui://"))
}

/// Whether apps may call a tool: those that say nothing about who may are for everybody.
fn is_for_apps(tool: &Map<String, Value>) -> bool {
    match tool.get("_meta").and_then(|meta| meta.pointer("/ui/visibility")) {
        Some(Value::Array(whom)) => whom.iter().any(|one| one == "app"),
        _ => true,
    }
}

/// The page in what a server answered.
fn page_of(answer: &Value) -> Option<&Value> {
    let kind = |content: &Value| content.get("mimeType").and_then(Value::as_str).map(|kind| kind.replace(' ', ""));
    let contents = answer.get("contents").and_then(Value::as_array)?;
    contents.iter().find(|content| kind(content).as_deref() == Some(APP) && content.get("text").is_some())
}

fn unusable(server: &ServerKey, uri: &str, why: &str) -> ApiError {
    ApiError::new(Code::Conflict, format!("{server} offers {uri} for this tool, which cannot be shown: {why}"))
}

fn refused(server: &ServerKey, error: ManagerError) -> ApiError {
    match error {
        ManagerError::NeedsTrust => ApiError::new(Code::NeedsTrust, format!("{server} must be trusted first")),
        error => ApiError::new(Code::McpServerNotConnected, format!("{server}: {error}")),
    }
}
