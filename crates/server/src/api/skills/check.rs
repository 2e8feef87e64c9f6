//! `POST /v1/orgs/{org}/skills/check`

use axum::Json;
use axum::extract::{Request, State};
use kitbag_formats::bundle::{Finding, made_skill};
use kitbag_formats::skill::Bundle;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::LargeJsonBody;
use crate::app::App;

/// How many bytes a body with one skill may have: one of the largest size in base64, and some.
pub(crate) const LARGEST: usize = 24 << 20;

/// What is wrong with a skill, or could be better.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkillProblems {
    problems: Vec<SkillProblem>,
}

/// Something about a skill.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkillProblem {
    /// The file; absent: the skill as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// The column, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    message: String,
    /// `error`: it would be refused. `warning`: it would be taken.
    severity: &'static str,
}

impl SkillProblem {
    fn new(finding: Finding, severity: &'static str) -> Self {
        let Finding { file, line, column, message, .. } = finding;
        Self { path: file, line, column, message, severity }
    }
}

/// Look at a skill, without keeping anything of it
#[utoipa::path(
    post, path = "/v1/orgs/{org}/skills/check", tag = "toolsets",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body(content = HashMap<String, Value>, description = "The skill as `create_toolset` takes it. Whatever is wrong with it is told."),
    responses((status = 200, body = SkillProblems), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn check_skill(
    State(app): State<App>,
    caller: MayUse,
    request: Request,
) -> Result<Json<SkillProblems>, ApiError> {
    let LargeJsonBody { body, place } = LargeJsonBody::<_, LARGEST>::read(&app, &caller.org, request).await?;
    // A large one takes a while to look through.
    let looked = tokio::task::spawn_blocking(move || {
        let _place = place;
        problems(&Value::Object(body))
    });
    let problems = looked.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    Ok(Json(SkillProblems { problems }))
}

fn problems(value: &Value) -> Vec<SkillProblem> {
    let bundle = match Bundle::from_json(value) {
        Ok(bundle) => bundle,
        Err(errors) => {
            let path = |index: usize| value.get("files")?.get(index)?.get("path")?.as_str().map(ToOwned::to_owned);
            let told = |error: &kitbag_formats::skill::BundleError| SkillProblem {
                path: error.file().and_then(path),
                line: None,
                column: None,
                message: error.to_string(),
                severity: "error",
            };
            return errors.iter().map(told).collect();
        }
    };
    match made_skill(&bundle) {
        Ok((_, warnings)) => warnings.into_iter().map(|finding| SkillProblem::new(finding, "warning")).collect(),
        Err(findings) => findings.into_iter().map(|finding| SkillProblem::new(finding, "error")).collect(),
    }
}
