//! Refuses a body by the length it announces. One that announces none is cut off when the limit is reached.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{Method, header};
use tokio::time::timeout;
use tokio_stream::StreamExt;

use crate::api::error::{ApiError, Code};
use crate::api::{skills, toolsets};
use crate::app::App;
use crate::transfer::takes_files;

/// The request again, if it may come in.
pub(super) async fn refuse(app: &App, request: Request) -> Result<Request, ApiError> {
    let announced: Option<u64> =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let most = match takes_files(request.method(), route) {
        true => app.settings().max_upload_bytes,
        false => (app.settings().max_body_bytes as u64).max(largest_json(request.method(), route)),
    };
    match announced {
        Some(length) if length > most => {
            Box::pin(drain(request.into_body(), POLITENESS.max(2 * most))).await;
            Err(ApiError::new(
                Code::PayloadTooLarge,
                format!("the body has {length} bytes, and at most {most} are taken"),
            ))
        }
        _ => Ok(request),
    }
}

/// How large a body that holds skills may be; 0 for all others.
fn largest_json(method: &Method, route: &str) -> u64 {
    let route = route.strip_prefix("/v1/orgs/{org}").unwrap_or_default();
    match (method.as_str(), route) {
        ("POST", "/toolsets") | ("PUT", "/toolsets/{id}") => toolsets::LARGEST as u64,
        ("POST", "/skills/check") => skills::check::LARGEST as u64,
        _ => 0,
    }
}

/// So much of a body that is not taken is read all the same, or twice what would have been taken where that is more: a client
/// that is still sending would not see the answer.
const POLITENESS: u64 = 64 << 20;

/// How long that may take. A client that dribbles holds no connection for longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a body is not taken, for a client that can hear of it: what it still sends is read before.
pub(crate) async fn refusing<E>(body: Body, error: E) -> E {
    drain(body, POLITENESS).await;
    error
}

/// Reads what still comes, and forgets it.
pub(crate) async fn drain(body: Body, most: u64) {
    let mut read = 0;
    let mut parts = body.into_data_stream();
    let reading = async {
        while let Some(Ok(part)) = parts.next().await {
            read += part.len() as u64;
            if read > most {
                break;
            }
        }
    };
    // Whatever is left then, the answer is the same.
    _ = timeout(PATIENCE, reading).await;
}
