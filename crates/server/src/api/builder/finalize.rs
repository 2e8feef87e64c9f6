//! `POST /v1/orgs/{org}/toolsets/builder/sessions/{builder}/finalize`

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{SessionPath, checked_keys};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;
use crate::builder::{Builder, OrganizationModels, Wishes};

/// What the draft is to be like.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FinalizeBuilder {
    /// In place of what the model calls it.
    #[schema(max_length = 120)]
    name: Option<String>,
    /// In place of what the model says of it.
    #[schema(max_length = 2000)]
    description: Option<String>,
    /// `private` (if absent) or `org`.
    visibility: Option<String>,
    /// What is chosen; absent: what the session has.
    #[schema(max_items = 50)]
    selected_component_keys: Option<Vec<String>>,
}

/// A draft of a toolset.
#[derive(Serialize, ToSchema)]
#[schema(as = BuilderFinalized)]
pub(crate) struct FinalizedView {
    /// A body for `create_toolset`.
    #[schema(value_type = Object)]
    draft: Value,
    /// What must be known before it is used, such as the variables that it requires.
    warnings: Vec<String>,
}

/// Make a draft of a toolset
///
/// The model writes its name, what it is for and its skills; its servers come from the catalogue. Nothing is made but the draft, which is
/// checked like a toolset: send it to `create_toolset` when somebody has looked at it. The session is over.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/builder/sessions/{builder}/finalize", tag = "builder",
    params(SessionPath), request_body = FinalizeBuilder,
    responses((status = 200, body = FinalizedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn finalize_toolset_builder(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<SessionPath>,
    JsonBody(body): JsonBody<FinalizeBuilder>,
) -> Result<Json<FinalizedView>, ApiError> {
    checked_keys(body.selected_component_keys.as_deref())?;
    let answers = OrganizationModels(app.clone());
    let builder = Builder::of(&app, &answers, &caller.org, caller.author());
    let wishes = Wishes { name: body.name, description: body.description, visibility: body.visibility };
    let made = builder.finalize(&path.builder, wishes, body.selected_component_keys).await?;
    Ok(Json(FinalizedView { draft: made.draft, warnings: made.warnings }))
}
