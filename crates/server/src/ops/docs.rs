//! `GET /docs`: the document of `/openapi.json`, to read and to try. All of it is in the binary.

use std::sync::{Arc, LazyLock};

use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use utoipa_swagger_ui::Config;

use crate::api::error::{ApiError, Code};
use crate::api::input::PathOf;

static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::new(["/openapi.json"]).try_it_out_enabled(true).with_credentials(true)));

/// The viewer draws with inline styles and images in data URLs; scripts come from here alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The viewer's own links are relative, so its address ends in a slash.
pub(crate) async fn with_slash() -> Redirect {
    Redirect::permanent("/docs/")
}

pub(crate) async fn index() -> Result<Response, ApiError> {
    asset(PathOf("index.html".to_owned())).await
}

pub(crate) async fn asset(PathOf(file): PathOf<String>) -> Result<Response, ApiError> {
    let found = utoipa_swagger_ui::serve(&file, CONFIG.clone()).map_err(ApiError::internal)?;
    let found = found.ok_or_else(|| ApiError::new(Code::NotFound, format!("the documentation has no {file:?}")))?;
    let headers = [(header::CONTENT_TYPE, found.content_type.as_str()), (header::CONTENT_SECURITY_POLICY, POLICY)];
    Ok((headers, found.bytes.into_owned()).into_response())
}
