//! `GET /v1/orgs/{org}/toolsets/builder/sessions/{builder}`

use axum::Json;
use axum::extract::State;
use kitbag_model::builder::MOST_TURNS;

use super::SessionPath;
use super::view::SessionView;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::PathOf;
use crate::app::App;
use crate::builder::{Builder, OrganizationModels};

/// Get a session of the builder
///
/// With everything that was said in it. It is there for who began it.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/toolsets/builder/sessions/{builder}", tag = "builder",
    params(SessionPath),
    responses((status = 200, body = SessionView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_toolset_builder(
    State(app): State<App>,
    caller: MayManage,
    PathOf(path): PathOf<SessionPath>,
) -> Result<Json<SessionView>, ApiError> {
    let answers = OrganizationModels(app.clone());
    let builder = Builder::of(&app, &answers, &caller.org, caller.author());
    let (session, turns) = builder.read(&path.builder, MOST_TURNS).await?;
    Ok(Json(SessionView::new(session, turns)))
}
