//! What an executor reads and writes for an attempt that it has: `/v1/executors/attempts/{run}/{attempt}/…`

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitbag_model::ContentHash;
use kitbag_model::run::wire::AttemptId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::executor::OfExecutor;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf};
use crate::app::App;
use crate::edge::refusing;
use crate::transfer::stream_blob;
use crate::workspaces::WorkspaceError;

/// So many contents may be asked about at once.
const MOST_HASHES: usize = 50_000;

/// The path of an attempt.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct AttemptPath {
    /// The run.
    run: String,
    /// Which attempt, from 1.
    attempt: String,
}

/// The path of a content.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct BlobPath {
    /// The run.
    run: String,
    /// Which attempt, from 1.
    attempt: String,
    /// The hash of the content.
    sha256: String,
}

/// Contents that are asked about.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskedContents {
    /// Their hashes.
    #[schema(max_items = 50_000)]
    hashes: Vec<String>,
}

/// Contents that are not here.
#[derive(Serialize, ToSchema)]
pub(crate) struct MissingContents {
    missing: Vec<String>,
}

fn attempt(run: &str, attempt: &str) -> Result<AttemptId, ApiError> {
    let not_found = || ApiError::not_found("attempt", &format!("{run}:{attempt}"));
    let run_id = run.parse().map_err(|_| not_found())?;
    Ok(AttemptId { run_id, attempt: attempt.parse().map_err(|_| not_found())? })
}

fn content(text: &str) -> Result<ContentHash, ApiError> {
    text.parse().map_err(|_| ApiError::not_found("content", text))
}

/// Read the content of a file that an assignment names
#[utoipa::path(
    get, path = "/v1/executors/attempts/{run}/{attempt}/blobs/{sha256}", tag = "executors",
    params(BlobPath),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn get_attempt_blob(
    State(app): State<App>,
    of: OfExecutor,
    PathOf(path): PathOf<BlobPath>,
) -> Result<Response, ApiError> {
    let named = app.runs().named(&of.home, &of.executor, attempt(&path.run, &path.attempt)?).await?;
    let hash = content(&path.sha256)?;
    if !named.has(&hash) {
        return Err(ApiError::not_found("content", &path.sha256));
    }
    let blob = app.workspaces().look(&named.org, named.chat).await.open(hash).await?;
    let length = blob.length();
    let kind = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
    let size = (header::CONTENT_LENGTH, length.to_string());
    Ok(([kind, size], stream_blob(blob, 0, length)).into_response())
}

/// Ask which contents are missing
#[utoipa::path(
    post, path = "/v1/executors/attempts/{run}/{attempt}/missing", tag = "executors",
    params(AttemptPath),
    request_body = AskedContents,
    responses((status = 200, body = MissingContents), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn ask_missing_blobs(
    State(app): State<App>,
    of: OfExecutor,
    PathOf(path): PathOf<AttemptPath>,
    JsonBody(body): JsonBody<AskedContents>,
) -> Result<Json<MissingContents>, ApiError> {
    let named = app.runs().named(&of.home, &of.executor, attempt(&path.run, &path.attempt)?).await?;
    if body.hashes.len() > MOST_HASHES {
        return Err(ApiError::invalid("hashes", format!("must have at most {MOST_HASHES} entries")));
    }
    let read = |text: &String| text.parse().map_err(|_| ApiError::invalid("hashes", format!("{text:?} is no hash")));
    let hashes = body.hashes.iter().map(read).collect::<Result<Vec<ContentHash>, _>>()?;
    let missing = app.workspaces().look(&named.org, named.chat).await.missing(hashes).await?;
    Ok(Json(MissingContents { missing: missing.iter().map(ToString::to_string).collect() }))
}

/// Bring the content of a file that the agent left
#[utoipa::path(
    put, path = "/v1/executors/attempts/{run}/{attempt}/blobs/{sha256}", tag = "executors",
    params(BlobPath),
    request_body(content = Option<Vec<u8>>, content_type = "application/octet-stream", description = "The content; nothing for an empty file."),
    responses((status = 204), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn put_attempt_blob(
    State(app): State<App>,
    of: OfExecutor,
    PathOf(path): PathOf<BlobPath>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let named = app.runs().named(&of.home, &of.executor, attempt(&path.run, &path.attempt)?).await?;
    let hash = content(&path.sha256)?;
    let settings = app.settings();
    let mut arriving = match app.workspaces().arriving(&named.org, &headers).await {
        Ok(arriving) => arriving,
        Err(error) => return Err(refusing(body, error.into()).await),
    };
    let (most, patience) = (settings.max_upload_bytes, settings.request_timeout);
    let staged = app.inbox().receive(body.into_data_stream(), most, patience, Some(&mut arriving)).await?;
    let lease = app.workspaces().look(&named.org, named.chat).await;
    lease.take_files(vec![(staged.path().to_owned(), hash)]).await.map_err(|error| match error {
        WorkspaceError::Cas(kitbag_cas::CasError::Corrupt { .. }) => {
            ApiError::invalid("sha256", "the content that came has another hash")
        }
        other => other.into(),
    })?;
    Ok(StatusCode::NO_CONTENT)
}
