//! `GET /v1/orgs/{org}/tools/resolve`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use kitbag_model::resolution::{ChatSelectors, Reason, Verdict, from_request};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::QueryOf;
use crate::app::App;
use crate::gateway;
use crate::resolution::{Bounds, Resolution, wrong_lists};
use crate::toolsets::Tool;

/// The lists of a client, as an MCP endpoint takes them.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ResolveQuery {
    /// Toolset ids with commas between, or `all`; empty is none. Absent: all that is allowed.
    toolsets: Option<String>,
    /// Tools beside those of the toolsets: ids, names that a model sees, bare names, `mcp:{server key}`, `toolset:{id}`, patterns with `*`.
    enabled_tools: Option<String>,
    /// Tools to take away.
    disabled_tools: Option<String>,
    /// Whether meta tools are listed in place of the tools: yes, y, true, 1, no, n, false, 0, or empty for no.
    #[param(pattern = "^ *([yY]([eE][sS])?|[tT][rR][uU][eE]|1|[nN][oO]?|[fF][aA][lL][sS][eE]|0)? *$")]
    dynamic: Option<String>,
    /// The chat whose tools these are to be: what its selectors leave out, a client of it does not get. Or as the header `X-Mcp-Chat`.
    chat: Option<String>,
    /// Every tool, with the rule that put it in or out.
    #[serde(default)]
    explain: bool,
}

/// Which tools a client gets.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ResolvedTools)]
pub(crate) struct ResolvedView {
    /// In the order in which a client lists them; with `explain` also those that it does not get.
    tools: Vec<ResolvedTool>,
    /// Whether a client lists meta tools in place of them, and reaches them through these.
    dynamic: bool,
    /// How many tools a client gets.
    count: usize,
    /// What the definitions of these tools take of a model's context, estimated.
    total_tokens: usize,
    /// Servers whose tools nobody has seen yet and of which some may come in.
    pending: Vec<String>,
    /// What the names of headers with a client's lists begin with; empty if no header is read.
    header_prefix: String,
    /// What has become wrong with the server's own lists since it started.
    stale: Vec<String>,
}

/// A tool, and why.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResolvedTool {
    id: String,
    toolset_id: String,
    /// What a model calls it.
    model_name: String,
    /// Whether the client gets it.
    included: bool,
    /// The rule that put it in or out, for programs: `allToolsets`, `toolset`, `enabled`, `disabled`, `notListed`, `global`, `chat`,
    /// `off` or `problem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    rule: Option<Reason>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What its definition takes of a model's context: the bytes of the JSON that a client gets, divided by four.
    tokens: usize,
}

/// Show which tools a client with these lists gets
///
/// The lists may also come as headers, such as `X-Mcp-Toolsets`, exactly as on an MCP endpoint; the same one by both ways is an error.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/tools/resolve", tag = "tools",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ResolveQuery),
    responses((status = 200, body = ResolvedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn resolve_tools(
    State(app): State<App>,
    caller: MayUse,
    headers: HeaderMap,
    QueryOf(query): QueryOf<ResolveQuery>,
) -> Result<Json<ResolvedView>, ApiError> {
    let given = [
        ("toolsets", &query.toolsets),
        ("enabled_tools", &query.enabled_tools),
        ("disabled_tools", &query.disabled_tools),
        ("dynamic", &query.dynamic),
    ];
    let pairs = given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let said = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let prefix = &app.settings().resolution.header_prefix;
    let lists = from_request(pairs, said, prefix).map_err(|problems| wrong_lists(&problems))?;
    let chat = gateway::chat_of(&headers, query.chat.as_slice(), prefix);
    let chat = chat.map_err(|problem| ApiError::new(Code::BadRequest, problem))?;
    let selectors = match chat {
        Some(chat) => gateway::selectors_of(&app, &caller.org, &chat).await?,
        None => Arc::default(),
    };
    let selectors = Bounds::of_selectors(&selectors).selectors(app.toolsets(), &caller.org, caller.audience()).await?;
    let resolution = app.resolve(&caller.org, caller.audience(), &lists).await?;
    Ok(Json(view(&resolution, &selectors, query.explain, prefix)))
}

fn view(resolution: &Resolution, selectors: &ChatSelectors, explain: bool, prefix: &str) -> ResolvedView {
    let shown = |tool: &Tool, reason: Option<Reason>| ResolvedTool {
        id: tool.id.to_string(),
        toolset_id: tool.toolset.0.clone(),
        model_name: tool.model_name.clone(),
        included: reason.as_ref().is_none_or(Reason::is_in),
        reason: reason.as_ref().map(ToString::to_string),
        rule: reason,
        tokens: tokens(tool),
    };
    let left_out = |tool: &Tool| match selectors.verdict(&tool.id, &tool.toolset.0) {
        Verdict::In => None,
        Verdict::TakenBy(selector) => Some(Reason::Chat(Some(selector))),
        Verdict::NotListed => Some(Reason::Chat(None)),
    };
    // What the lists leave out is so for every chat.
    let in_chat = |tool: &Tool, reason: Reason| if reason.is_in() { left_out(tool).unwrap_or(reason) } else { reason };
    let tools: Vec<ResolvedTool> = match explain {
        true => resolution.reasons().map(|(tool, reason)| shown(tool, Some(in_chat(tool, reason)))).collect(),
        false => resolution.tools().filter(|tool| left_out(tool).is_none()).map(|tool| shown(tool, None)).collect(),
    };
    let included = || tools.iter().filter(|tool| tool.included);
    ResolvedView {
        dynamic: resolution.resolved.dynamic,
        count: included().count(),
        total_tokens: included().map(|tool| tool.tokens).sum(),
        pending: resolution.pending().map(ToString::to_string).collect(),
        header_prefix: prefix.to_owned(),
        stale: resolution.stale.messages(),
        tools,
    }
}

/// An estimate: a token of JSON is about four bytes.
fn tokens(tool: &Tool) -> usize {
    Value::Object(gateway::listed(tool)).to_string().len().div_ceil(4)
}
