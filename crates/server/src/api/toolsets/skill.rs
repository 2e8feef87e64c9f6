//! `GET /v1/orgs/{org}/toolsets/{id}/skills/{skill}`

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;

/// The path of a skill.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SkillPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The toolset.
    id: String,
    /// The skill.
    skill: String,
}

/// A skill with all its files.
#[derive(Serialize, ToSchema)]
pub(crate) struct AgentSkillBundle {
    /// `agentskills-v1`.
    format: String,
    id: String,
    /// What its `SKILL.md` calls it.
    name: String,
    #[schema(required)]
    description: Option<String>,
    /// `SKILL.md`.
    entry: String,
    files: Vec<BundledFile>,
    enabled: bool,
}

/// A file of a skill.
#[derive(Serialize, ToSchema)]
pub(crate) struct BundledFile {
    path: String,
    content: String,
    /// `utf8` or `base64`.
    encoding: String,
}

/// Show a skill of a toolset with all its files
#[utoipa::path(
    get, path = "/v1/orgs/{org}/toolsets/{id}/skills/{skill}", tag = "toolsets",
    params(SkillPath),
    responses((status = 200, body = AgentSkillBundle), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_toolset_skill(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<SkillPath>,
) -> Result<Json<AgentSkillBundle>, ApiError> {
    let no_toolset = || ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {:?}", path.id));
    let id = path.id.parse().map_err(|_| no_toolset())?;
    let found = app.toolsets().skill(&caller.org, caller.audience(), &id, &path.skill).await?;
    let found = found.ok_or_else(|| ApiError::not_found("skill", &path.skill))?;
    let file = |(path, (content, encoding))| BundledFile { path, content, encoding };
    Ok(Json(AgentSkillBundle {
        format: "agentskills-v1".to_owned(),
        id: found.skill.skill.reference.id.to_string(),
        name: found.skill.skill.name.clone(),
        description: found.skill.skill.description.clone(),
        entry: "SKILL.md".to_owned(),
        files: found.files.into_iter().map(file).collect(),
        enabled: found.skill.is_enabled(),
    }))
}
