//! `GET /metrics`, for Prometheus.
//!
//! On a loopback address it is open, like `/healthz`: whoever reaches it is on this machine. Elsewhere it takes a
//! token, since numbers tell who works when. One that was let in lately is let in also while the database, where tokens are looked up, is away.

use std::time::Instant;

use axum::extract::State;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};

use crate::access::caller::authenticate;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::app::App;
use crate::ops::numbers;

/// Numbers in Prometheus' text format
#[utoipa::path(
    get, path = "/metrics", tag = "operations", security((), ("token" = [])),
    responses((status = 200, content_type = "text/plain", body = String), (status = "4XX", body = ErrorBody)),
)]
pub(crate) async fn metrics(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    if !app.settings().address.ip().is_loopback() {
        let scrapers = app.scrapers();
        match authenticate(&app, &Method::GET, &headers).await {
            Ok(_) => scrapers.let_in(&headers, Instant::now()),
            Err(error) if error.is_unavailable() && scrapers.knows(&headers, Instant::now()) => {}
            Err(error) => {
                if !error.is_unavailable() {
                    scrapers.turned_away(&headers);
                }
                return Err(error);
            }
        }
    }
    let handle = app.metrics().ok_or_else(|| ApiError::new(Code::NotFound, "this server keeps no metrics"))?;
    numbers::look(&app).await;
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, handle.render()).into_response())
}
