//! Settings as the API shows them, and how a version of them is named.

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use kitbag_model::{OrgSettings, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::origin::only;
use crate::api::error::{ApiError, Code};
use crate::rules::OrganizationRules;

/// What an organisation says about itself. What is absent or null is the server's default; all of it is replaced.
#[derive(ToSchema)]
#[schema(as = OrganizationSettings, rename_all = "camelCase")]
#[allow(dead_code, reason = "the document describes with it what the model reads and writes")]
pub(crate) struct SettingsDoc {
    toolsets: Option<ToolsetSettingsDoc>,
    resolution: Option<ListSettingsDoc>,
    quotas: Option<QuotasDoc>,
    retention: Option<RetentionDoc>,
    network: Option<NetworkDoc>,
}

/// About toolsets.
#[derive(ToSchema)]
#[schema(as = ToolsetSettings, rename_all = "camelCase")]
#[allow(dead_code, reason = "the document describes with it what the model reads and writes")]
pub(crate) struct ToolsetSettingsDoc {
    /// The toolset that is used where none is named. It must be one of this organisation; if it is removed, this is null again.
    default_toolset_id: Option<String>,
}

/// Which tools clients get, as `--toolsets` and its kin say it for `local`, which cannot have these here.
#[derive(ToSchema)]
#[schema(as = ResolutionSettings, rename_all = "camelCase")]
#[allow(dead_code, reason = "the document describes with it what the model reads and writes")]
pub(crate) struct ListSettingsDoc {
    /// Toolset ids, or `all`; an empty list is none.
    #[schema(max_items = 512)]
    toolsets: Option<Vec<String>>,
    /// Tools beside those of the toolsets.
    #[schema(max_items = 512)]
    enabled_tools: Option<Vec<String>>,
    /// Tools that no client gets.
    #[schema(max_items = 512)]
    disabled_tools: Option<Vec<String>>,
    /// Whether clients list meta tools in place of the tools.
    dynamic: Option<bool>,
}

/// How much of the server the organisation takes at the most; it can only be less than what `limits` says.
#[derive(ToSchema)]
#[schema(as = QuotaSettings, rename_all = "camelCase")]
#[allow(dead_code, reason = "the document describes with it what the model reads and writes")]
pub(crate) struct QuotasDoc {
    /// Calls in a minute.
    #[schema(minimum = 1, maximum = 1_000_000)]
    calls_per_minute: Option<u64>,
    /// Calls that run or wait for their turn.
    #[schema(minimum = 1, maximum = 10_000)]
    concurrent_calls: Option<u64>,
    /// Bytes that all states of all workspaces take.
    #[schema(minimum = 1, maximum = 1_125_899_906_842_624_u64)]
    workspace_bytes: Option<u64>,
    /// Runs that executors have at the same time; others wait.
    #[schema(minimum = 1, maximum = 10_000)]
    executors_in_flight: Option<u64>,
    /// Runs that wait for an executor.
    #[schema(minimum = 1, maximum = 1_000_000)]
    queued_runs: Option<u64>,
}

/// How long things are kept that nobody uses; null is for ever.
#[derive(ToSchema)]
#[schema(as = RetentionSettings, rename_all = "camelCase")]
#[allow(dead_code, reason = "the document describes with it what the model reads and writes")]
pub(crate) struct RetentionDoc {
    /// After so many days a chat that nobody touched is deleted.
    #[schema(minimum = 1, maximum = 36_500)]
    chat_days: Option<u64>,
    /// After so many days lines of the audit may be deleted, which only the operator can do (`kitbag admin retain`).
    #[schema(minimum = 1, maximum = 36_500)]
    audit_days: Option<u64>,
}

/// What the organisation dials.
#[derive(ToSchema)]
#[schema(as = NetworkSettings, rename_all = "camelCase")]
#[allow(dead_code, reason = "the document describes with it what the model reads and writes")]
pub(crate) struct NetworkDoc {
    /// The hosts that MCP servers and imports may be at: `api.example.org`, `*.example.org`; an empty list is none, null whatever
    /// the operator allows.
    #[schema(max_items = 256)]
    allow: Option<Vec<String>>,
}

/// Settings, and what the operator lets the organisation have.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Settings)]
pub(crate) struct SettingsView {
    #[serde(flatten)]
    #[schema(value_type = SettingsDoc)]
    settings: OrgSettings,
    limits: LimitsView,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// What the operator lets the organisation have at the most. Null is no limit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SettingsLimits)]
pub(crate) struct LimitsView {
    #[schema(required)]
    calls_per_minute: Option<u64>,
    #[schema(required)]
    concurrent_calls: Option<u64>,
    #[schema(required)]
    workspace_bytes: Option<u64>,
    #[schema(required)]
    executors_in_flight: Option<u64>,
    #[schema(required)]
    queued_runs: Option<u64>,
    /// The variables that MCP servers may refer to; null is any, which `local` may.
    #[schema(required)]
    variables: Option<Vec<String>>,
}

impl LimitsView {
    pub(super) fn new(limits: OrganizationRules, is_local: bool) -> Self {
        Self {
            calls_per_minute: limits.calls_per_minute,
            concurrent_calls: limits.concurrent_calls,
            workspace_bytes: limits.workspace_bytes,
            executors_in_flight: limits.executors_in_flight,
            queued_runs: limits.queued_runs,
            variables: (!is_local).then(|| limits.variables.unwrap_or_default()),
        }
    }
}

/// The answer with these settings, and the name of this version of them.
pub(super) fn answer(settings: OrgSettings, updated_at: Timestamp, limits: LimitsView) -> Response {
    let etag = HeaderValue::try_from(etag(&settings)).expect("a hash in quotes is a header");
    let view = SettingsView { settings, limits, updated_at: updated_at.to_string() };
    ([(header::ETAG, etag)], Json(view)).into_response()
}

/// Checks `If-Match`: somebody else may have changed the settings since they were read.
pub(super) fn check_version(headers: &HeaderMap, current: &OrgSettings) -> Result<(), ApiError> {
    if !headers.contains_key(header::IF_MATCH) {
        return Ok(());
    }
    let wanted = only(headers, &header::IF_MATCH).unwrap_or_default();
    if wanted == "*" || wanted == etag(current) {
        return Ok(());
    }
    let message =
        "the settings have changed since they were read: their ETag is not the one in If-Match; read them again";
    Err(ApiError::new(Code::PreconditionFailed, message))
}

fn etag(settings: &OrgSettings) -> String {
    format!("\"{}\"", settings.digest())
}
