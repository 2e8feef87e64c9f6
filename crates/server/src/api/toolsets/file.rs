//! `GET /v1/orgs/{org}/toolsets/{id}/files/{path}`

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use kitbag_model::WorkPath;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::access::caller::MayUse;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::PathOf;
use crate::api::workspace::get_file::disposition;
use crate::app::App;

/// The path of a file of a toolset.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ToolsetFilePath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The toolset.
    id: String,
    /// The file, below the toolset's folder.
    path: String,
}

/// Read a file of a toolset, as it was installed
///
/// It is always a download: what a bundle brought must not run as a page of this server. The manifest, `toolset.yaml`, is the one that an
/// export has: without values of variables and headers.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/toolsets/{id}/files/{*path}", tag = "toolsets",
    params(ToolsetFilePath),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_toolset_file(
    State(app): State<App>,
    caller: MayUse,
    PathOf(at): PathOf<ToolsetFilePath>,
) -> Result<Response, ApiError> {
    let no_toolset = || ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {:?}", at.id));
    let no_file = || ApiError::not_found("file", &at.path);
    let id = at.id.parse().map_err(|_| no_toolset())?;
    let path: WorkPath = at.path.parse().map_err(|_| no_file())?;
    let found = app.toolsets().one_file(&caller.org, caller.audience(), &id, &path).await?;
    let (hash, length, body) = found.ok_or_else(no_file)?;
    let mut headers = HeaderMap::new();
    let text = |text: String| HeaderValue::from_str(&text).map_err(ApiError::internal);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ETAG, text(format!("\"{hash}\""))?);
    headers.insert(header::CONTENT_DISPOSITION, text(disposition(path.name()))?);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok((headers, body).into_response())
}
