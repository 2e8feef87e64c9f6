//! The bare proxy: the floor for anything that stands in between.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use reqwest::Client;

use crate::echo::listen;

/// Is one, until somebody ends it.
pub(crate) async fn be_floor(url: &str) {
    let state: (Client, Arc<str>) = (Client::builder().no_proxy().build().unwrap(), Arc::from(url));
    listen(Router::new().route("/mcp", post(pass_on)).with_state(state)).await;
}

/// The floor: bytes in, bytes out.
async fn pass_on(State((client, url)): State<(Client, Arc<str>)>, mut headers: HeaderMap, body: Bytes) -> Response {
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
    let answer = client.post(&*url).headers(headers).body(body).send().await.unwrap();
    let kind = answer.headers()[header::CONTENT_TYPE].clone();
    ([(header::CONTENT_TYPE, kind)], Body::from(answer.bytes().await.unwrap())).into_response()
}
