//! `GET /v1/orgs/{org}/toolsets/{id}/overrides`, `PUT` and `DELETE …/overrides/{key}`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kitbag_model::{Action, OrgId, Override, OverrideKey, ToolsetId};
use kitbag_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::ToolsetPath;
use crate::access::caller::{MayManage, MayUse};
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::api::list::List;
use crate::app::App;
use crate::toolsets::editable;

/// The path of an override.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OverridePath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The toolset; `builtin` for the built-in tools.
    id: String,
    /// `{toolset}:{tool}` or `{server}:{tool}`, or a pattern with `*`.
    key: String,
}

/// What is overridden. A field that is absent or null is not.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetOverride {
    /// `code`, `document`, `html`, `frame`, or one of those without configuration.
    renderer: Option<String>,
    /// What the renderer shows; needs `renderer`.
    #[schema(value_type = Option<Object>)]
    renderer_config: Option<Value>,
    /// A title. The id, and what a model calls the tool, stay.
    #[schema(max_length = 120)]
    name_override: Option<String>,
    /// What a model reads about the tool.
    #[schema(max_length = 16384)]
    description_override: Option<String>,
    /// Whether a person is asked before each call.
    requires_confirmation: Option<bool>,
    /// Whether the tool is there at all.
    enabled: Option<bool>,
}

/// An override.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolOverride)]
pub(crate) struct OverrideView {
    key: String,
    toolset_id: String,
    /// `bundle` if the toolset brought it, `user` if a person set it.
    origin: &'static str,
    #[schema(required)]
    renderer: Option<String>,
    #[schema(required, value_type = Option<Object>)]
    renderer_config: Option<Value>,
    #[schema(required)]
    name_override: Option<String>,
    #[schema(required)]
    description_override: Option<String>,
    #[schema(required)]
    requires_confirmation: Option<bool>,
    #[schema(required)]
    enabled: Option<bool>,
}

impl OverrideView {
    fn new(id: &str, origin: &'static str, key: &OverrideKey, over: &Override) -> Self {
        let (renderer, config) = kitbag_model::overrides::flat_rendering(over.rendering.as_ref());
        Self {
            key: key.to_string(),
            toolset_id: id.to_owned(),
            origin,
            renderer: renderer.map(|renderer| renderer.to_string()),
            renderer_config: config.cloned().map(Value::Object),
            name_override: over.name.clone(),
            description_override: over.description.clone(),
            requires_confirmation: over.requires_confirmation,
            enabled: over.enabled,
        }
    }
}

/// List what is overridden in a toolset: by the toolset itself, and by people
#[utoipa::path(
    get, path = "/v1/orgs/{org}/toolsets/{id}/overrides", tag = "overrides",
    params(ToolsetPath),
    responses((status = 200, body = List<OverrideView>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_overrides(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ToolsetPath>,
) -> Result<Json<List<OverrideView>>, ApiError> {
    let mut tx = app.store().read(&caller.org).await?;
    let view = |origin| {
        let id = path.id.clone();
        move |(key, over): &(OverrideKey, Override)| OverrideView::new(&id, origin, key, over)
    };
    if path.id == "builtin" {
        let found = tx.builtin_overrides().await?;
        return Ok(Json(List::part("", found.iter().map(view("user")).collect(), None)));
    }
    let installed = tx.installed(&path.id()?).await?.filter(|one| caller.audience().sees(&one.toolset));
    let installed = installed.ok_or_else(|| path.not_found())?;
    let bundle = installed.bundle_overrides.iter().map(view("bundle"));
    let all = bundle.chain(installed.user_overrides.iter().map(view("user"))).collect();
    Ok(Json(List::part("", all, None)))
}

/// Override what a tool, or several, are in a toolset. It replaces what a person said there before
///
/// The tool need not exist yet. What the toolset itself says stays below it.
#[utoipa::path(
    put, path = "/v1/orgs/{org}/toolsets/{id}/overrides/{key}", tag = "overrides",
    params(OverridePath),
    request_body = SetOverride,
    responses((status = 200, body = OverrideView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn set_override(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<OverridePath>,
    JsonBody(body): JsonBody<SetOverride>,
) -> Result<Json<OverrideView>, ApiError> {
    let over = checked(body)?;
    let (toolset, key) = target(&app, &caller.org, &path).await?;
    // Before the transaction: with one open nobody may wait for another.
    check_artifact(&app, &caller.org, &toolset, &over).await?;
    let mut tx = app.store().write(&caller.org).await?;
    if path.id == "builtin" {
        tx.set_builtin_override(&key, &over).await?;
    } else {
        editable(&mut tx, &toolset).await?;
        tx.set_override(&toolset, &key, &over).await.map_err(|error| gone(error, &path))?;
    }
    // Who lowered the guard must be known later.
    let details = json!({
        "toolsetId": path.id, "requiresConfirmation": over.requires_confirmation, "enabled": over.enabled,
    });
    tx.audit(&caller.who, Action::OverrideSet, key.as_str(), &details).await?;
    tx.commit().await?;
    app.tools_changed(&caller.org, &path.id, "override").await;
    Ok(Json(OverrideView::new(&path.id, "user", &key, &over)))
}

/// Take back what a person overrode
#[utoipa::path(
    delete, path = "/v1/orgs/{org}/toolsets/{id}/overrides/{key}", tag = "overrides",
    params(OverridePath),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn delete_override(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<OverridePath>,
) -> Result<StatusCode, ApiError> {
    let (toolset, key) = target(&app, &caller.org, &path).await?;
    let mut tx = app.store().write(&caller.org).await?;
    let was_there = match path.id.as_str() {
        "builtin" => tx.clear_builtin_override(&key).await?,
        _ => {
            editable(&mut tx, &toolset).await?;
            tx.clear_override(&toolset, &key).await?
        }
    };
    if was_there {
        tx.audit(&caller.who, Action::OverrideDeleted, key.as_str(), &json!({ "toolsetId": path.id })).await?;
    }
    tx.commit().await?;
    app.tools_changed(&caller.org, &path.id, "override").await;
    if was_there { Ok(StatusCode::NO_CONTENT) } else { Err(ApiError::not_found("override", &path.key)) }
}

/// The toolset, which must be there, and the key in its one spelling.
async fn target(app: &App, org: &OrgId, path: &OverridePath) -> Result<(ToolsetId, OverrideKey), ApiError> {
    let not_found = || ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {:?}", path.id));
    let toolset = match path.id.as_str() {
        "builtin" => ToolsetId::builtin(),
        id => {
            let id = id.parse().map_err(|_| not_found())?;
            app.store().read(org).await?.toolset(&id).await?.ok_or_else(not_found)?.id
        }
    };
    let key = OverrideKey::parse(&path.key, &toolset).map_err(|reason| ApiError::invalid("key", reason))?;
    Ok((toolset, key))
}

/// Somebody may uninstall the toolset between the check and the write.
fn gone(error: StoreError, path: &OverridePath) -> ApiError {
    match error {
        StoreError::Reference => ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {:?}", path.id)),
        other => other.into(),
    }
}

fn checked(body: SetOverride) -> Result<Override, ApiError> {
    let rendering = kitbag_model::renderer::check(body.renderer.as_deref(), body.renderer_config.as_ref());
    let over = Override {
        rendering: rendering.map_err(|reason| ApiError::new(Code::BadRequest, reason.to_string()))?,
        name: body.name_override.filter(|text| !text.is_empty()),
        description: body.description_override.filter(|text| !text.is_empty()),
        requires_confirmation: body.requires_confirmation,
        enabled: body.enabled,
    };
    if let Some(name) = &over.name {
        name.parse::<kitbag_model::DisplayName>().map_err(|reason| ApiError::invalid("nameOverride", reason))?;
    }
    if let Some(text) = &over.description {
        text.parse::<kitbag_model::Description>().map_err(|reason| ApiError::invalid("descriptionOverride", reason))?;
    }
    if over.is_empty() {
        return Err(ApiError::new(Code::BadRequest, "nothing is overridden; delete the override to take it back"));
    }
    Ok(over)
}

/// A page that a renderer shows must be one of the toolset's files.
async fn check_artifact(app: &App, org: &OrgId, id: &ToolsetId, over: &Override) -> Result<(), ApiError> {
    let mut tx = app.store().read(org).await?;
    for path in over.rendering.iter().flat_map(kitbag_model::Rendering::files) {
        if tx.toolset_file(id, &path).await?.is_none() {
            return Err(ApiError::invalid("rendererConfig.artifact", format!("the toolset has no file {path}")));
        }
    }
    Ok(())
}
