//! `POST /v1/orgs/{org}/toolsets/builder/sessions/{builder}/chat`

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::TurnedView;
use super::{LONGEST, SessionPath, checked, checked_keys};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;
use crate::builder::{Builder, OrganizationModels};

/// What somebody says next.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChatBuilder {
    #[schema(min_length = 1, max_length = 20000)]
    message: String,
    /// What is chosen so far; absent: what the session has.
    #[schema(max_items = 50)]
    selected_component_keys: Option<Vec<String>>,
}

/// Say something in a session of the builder
///
/// What is chosen afterwards is what the request has and what the model suggests. A key that is not in the catalogue is an error of the
/// request (`details.invalid`), and left out with a warning if the model names it.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/builder/sessions/{builder}/chat", tag = "builder",
    params(SessionPath), request_body = ChatBuilder,
    responses((status = 200, body = TurnedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn chat_toolset_builder(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<SessionPath>,
    JsonBody(body): JsonBody<ChatBuilder>,
) -> Result<Json<TurnedView>, ApiError> {
    checked("message", &body.message, 1, LONGEST)?;
    if body.message.trim().is_empty() {
        return Err(ApiError::invalid("message", "must not be empty"));
    }
    checked_keys(body.selected_component_keys.as_deref())?;
    let answers = OrganizationModels(app.clone());
    let builder = Builder::of(&app, &answers, &caller.org, caller.author());
    Ok(Json(builder.chat(&path.builder, &body.message, body.selected_component_keys).await?.into()))
}
