//! Refuses a body by the length it announces, before a byte of it is read. One that announces none is cut off when the
//! limit is reached.

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;

use crate::api::error::{ApiError, Code};
use crate::app::App;

pub(crate) async fn refuse_large(State(app): State<App>, request: Request, next: Next) -> Result<Response, ApiError> {
    let announced: Option<u64> =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let most = app.settings().max_body_bytes;
    match announced {
        Some(length) if length > most as u64 => Err(ApiError::new(
            Code::PayloadTooLarge,
            format!("the body has {length} bytes, and at most {most} are taken"),
        )),
        _ => Ok(next.run(request).await),
    }
}
