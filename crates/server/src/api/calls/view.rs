//! A tool call as the API shows it.

use kitbag_model::{CallError, CallErrorCode, LogLine, OrgId, SandboxReport, ToolCall};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::stage::Stage;

/// In an event a result, or a log, that is larger is left out.
const SHORT: usize = 16 * 1024;

/// Why a call returned nothing.
#[derive(Serialize, ToSchema)]
#[schema(as = ToolCallError)]
pub(crate) struct CallErrorView {
    /// `DENIED`, `CANCELLED`, `TIMEOUT`, `INTERRUPTED`, `TOOL_FAILED`, `UNAVAILABLE`, `QUOTA_EXCEEDED` or `INTERNAL`; of MCP
    /// servers also `MCP_SERVER_NOT_CONNECTED`, `MCP_ENV_NOT_SET:<VAR>`, `REQUIRES_AUTH` or `NEEDS_TRUST`.
    code: String,
    message: String,
}

impl From<CallError> for CallErrorView {
    fn from(error: CallError) -> Self {
        // Which variable it is belongs to this code.
        let named = error.message.split(": ").next().filter(|_| error.code == CallErrorCode::EnvNotSet);
        Self { code: named.unwrap_or(error.code.as_str()).to_owned(), message: error.message }
    }
}

/// A line of a call's log.
#[derive(Serialize, ToSchema)]
#[schema(as = ToolCallLogLine)]
pub(crate) struct LogLineView {
    /// `stdout`, `stderr`, `log` or `traceback`.
    stream: &'static str,
    text: String,
}

impl From<LogLine> for LogLineView {
    fn from(line: LogLine) -> Self {
        Self { stream: line.stream.as_str(), text: line.text }
    }
}

/// What held a call.
#[derive(Serialize, ToSchema)]
#[schema(as = SandboxReport)]
pub(crate) struct SandboxView {
    /// The layers that did.
    layers: Vec<String>,
    /// The layers that this machine could not give.
    missing: Vec<String>,
}

impl From<SandboxReport> for SandboxView {
    fn from(report: SandboxReport) -> Self {
        Self { layers: report.layers, missing: report.missing }
    }
}

/// What a person said about a call.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCallDecision)]
pub(crate) struct DecisionView {
    approved: bool,
    decided_by: String,
    #[schema(format = DateTime)]
    decided_at: String,
}

/// One call of a tool.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolCall)]
pub(crate) struct ToolCallView {
    id: String,
    chat_id: String,
    /// The message that it belongs to.
    message_id: String,
    tool_id: String,
    #[schema(value_type = Object)]
    args: Map<String, Value>,
    /// What a decision is bound to: the tool and these arguments.
    args_digest: String,
    /// What it returned. Of a large result a summary: `{"truncated":true,"bytes","sha256","preview"}`; all of it is at `…/result`.
    #[schema(required)]
    result: Option<Value>,
    /// Whether `result` is a summary.
    result_truncated: bool,
    /// How to show it: `{"renderer","config"}`; null if it failed, or there is nothing to show. Of a page or a frame `config`
    /// has `url`, its address for a short time; a list has none.
    #[schema(required, value_type = Option<Object>)]
    render_plan: Option<Value>,
    /// `pending`, `running`, `success` or `error`.
    status: &'static str,
    #[schema(required)]
    error: Option<CallErrorView>,
    /// What whoever reads it should know.
    warnings: Vec<String>,
    /// When it was asked for.
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(required, format = DateTime)]
    finished_at: Option<String>,
    /// The workspace's state before it.
    #[schema(required)]
    pre_manifest_id: Option<String>,
    /// The workspace's state after it.
    #[schema(required)]
    post_manifest_id: Option<String>,
    /// The end of what it said.
    #[schema(required)]
    logs: Option<Vec<LogLineView>>,
    /// How many bytes of that were left out.
    logs_cut: u64,
    /// What held it; null until it ran.
    #[schema(required)]
    sandbox: Option<SandboxView>,
    asked_by: String,
    /// Whether a person is asked.
    requires_confirmation: bool,
    /// Until when somebody may decide.
    #[schema(required, format = DateTime)]
    expires_at: Option<String>,
    #[schema(required)]
    decision: Option<DecisionView>,
    /// In an event: the result is left out, for it is large.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(required = false)]
    result_omitted: bool,
    /// In an event: the log is left out, for it is large.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(required = false)]
    logs_omitted: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl ToolCallView {
    /// For whoever reads one call: a page or a frame has an address.
    pub(crate) fn shown(call: ToolCall, org: &OrgId, stage: &Stage) -> Self {
        let (chat, id) = (call.chat_id, call.id.to_string());
        let mut view = Self::from(call);
        let plan = view.render_plan.take();
        view.render_plan = plan.map(|plan| match serde_json::from_value(plan.clone()) {
            Ok(plan) => stage.present(org, chat, &id, &plan),
            // Another version of this program wrote it.
            Err(_) => plan,
        });
        view
    }

    /// For an event: without what is large.
    pub(crate) fn short(call: ToolCall) -> Self {
        let mut view = Self::from(call);
        view.result_omitted = view.result.as_ref().is_some_and(|result| result.to_string().len() > SHORT);
        view.logs_omitted = view.logs.iter().flatten().map(|line| line.text.len()).sum::<usize>() > SHORT;
        view.result = view.result.filter(|_| !view.result_omitted);
        view.logs = view.logs.filter(|_| !view.logs_omitted);
        view
    }
}

impl From<ToolCall> for ToolCallView {
    fn from(call: ToolCall) -> Self {
        let outcome = call.outcome;
        Self {
            id: call.id.to_string(),
            chat_id: call.chat_id.to_string(),
            message_id: call.message_id.to_string(),
            tool_id: call.tool_id.to_string(),
            args: call.args,
            args_digest: call.args_sha256.to_string(),
            result: outcome.result,
            result_truncated: outcome.result_sha256.is_some(),
            render_plan: outcome.render_plan,
            status: call.status.as_str(),
            error: outcome.error.map(CallErrorView::from),
            warnings: outcome.warnings,
            started_at: call.started_at.to_string(),
            finished_at: call.finished_at.map(|at| at.to_string()),
            pre_manifest_id: outcome.pre_manifest_id.map(|id| id.to_string()),
            post_manifest_id: outcome.post_manifest_id.map(|id| id.to_string()),
            logs: Some(outcome.logs.into_iter().map(LogLineView::from).collect()),
            logs_cut: outcome.logs_cut,
            sandbox: outcome.sandbox.map(SandboxView::from),
            asked_by: call.asked_by,
            requires_confirmation: call.expires_at.is_some(),
            expires_at: call.expires_at.map(|at| at.to_string()),
            decision: call.decision.map(|decision| DecisionView {
                approved: decision.approved,
                decided_by: decision.by,
                decided_at: decision.at.to_string(),
            }),
            result_omitted: false,
            logs_omitted: false,
        }
    }
}
