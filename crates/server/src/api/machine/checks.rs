//! `GET /v1/orgs/{org}/server/checks`

use axum::Json;
use axum::extract::State;
use kitbag_model::OrgId;
use serde::Serialize;
use utoipa::ToSchema;

use super::sizes::{self, PartView};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::app::App;
use crate::ops::checks::{self, Check, REQUIRED};

/// What this machine offers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ServerChecks)]
pub(crate) struct ChecksView {
    checks: Vec<CheckView>,
    /// How much of the disk the parts of the data folder take, largest first.
    data: Vec<PartView>,
    /// Whether there was so much that not all of it was counted.
    data_cut: bool,
}

/// One thing that was looked at.
#[derive(Serialize, ToSchema)]
#[schema(as = ServerCheck)]
pub(crate) struct CheckView {
    name: &'static str,
    /// `ok`, `missing` (Kitbag does less) or `bad` (it does not work).
    status: &'static str,
    /// What was found.
    found: String,
    /// What to do about it; empty if it is fine.
    advice: String,
    /// Whether it is a layer without which no tool is called, unless the sandbox is `relaxed`.
    required: bool,
}

impl From<Check> for CheckView {
    fn from(check: Check) -> Self {
        let required = REQUIRED.contains(&check.name);
        Self { name: check.name, status: check.verdict.as_str(), found: check.found, advice: check.advice, required }
    }
}

/// Look at what this machine offers: the data folder, Python, each layer of the sandbox, and what to do about what is missing
///
/// Each is tried, so it takes a moment. Only the organisation `local` is told.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/server/checks", tag = "operations",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = ChecksView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn check_server(State(app): State<App>, caller: MayManage) -> Result<Json<ChecksView>, ApiError> {
    if caller.org != OrgId::local() {
        return Err(ApiError::new(Code::Forbidden, "about the machine only the organisation \"local\" is told"));
    }
    let data = app.settings().data.clone();
    let counted = tokio::task::spawn_blocking(move || sizes::count(&data));
    let checks = checks::machine(&app.settings().data).await;
    let counted = counted.await.map_err(ApiError::internal)?;
    Ok(Json(ChecksView {
        checks: checks.into_iter().map(CheckView::from).collect(),
        data: counted.parts,
        data_cut: counted.cut,
    }))
}
