//! `GET /v1/orgs/{org}/toolsets/{id}/export`

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use kitbag_model::Action;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::ToolsetPath;
use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::{PathOf, QueryOf};
use crate::app::App;
use crate::transfer::stream_staged;

/// How to export.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// Also if an argument or an address in it looks like a secret.
    #[serde(default)]
    force: bool,
}

/// Export a toolset as a bundle
///
/// The manifest is made anew from what is installed, with what was changed about it. Placeholders stay as they are; a value
/// that stands in an environment or a header becomes a placeholder. The same toolset gives the same bytes.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/toolsets/{id}/export", tag = "toolsets",
    params(ToolsetPath, ExportQuery),
    responses((status = 200, content_type = "application/zip", body = Vec<u8>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn export_toolset(
    State(app): State<App>,
    caller: MayUse,
    PathOf(path): PathOf<ToolsetPath>,
    QueryOf(query): QueryOf<ExportQuery>,
) -> Result<Response, ApiError> {
    let id = path.id()?;
    if query.force && !caller.manages {
        return Err(ApiError::new(
            Code::Forbidden,
            "to force out what looks like a secret needs a token with the scope \"manage\"",
        ));
    }
    app.toolsets().seen(&caller.org, caller.audience(), &id).await?;
    let (installed, bundle) = app.toolsets().export(&caller.org, &id, app.inbox(), query.force).await?;
    if query.force {
        let details = json!({ "version": installed.toolset.version, "force": true });
        app.note(&caller.org, &caller.who, Action::ToolsetExported, id.as_str(), &details).await?;
    }
    let name = format!("{id}-v{}.zip", installed.toolset.version);
    let headers = [
        (header::CONTENT_TYPE, "application/zip".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok((headers, stream_staged(bundle)?).into_response())
}
