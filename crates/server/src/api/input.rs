//! What callers send, read strictly: unknown fields, wrong types and bad queries are errors that say where.

use axum::Json;
use axum::body::{Bytes, HttpBody};
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use kitbag_model::{OrgId, json_weight, repeated_key};
use kitbag_store::Taken;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::error::{ApiError, Code};
use crate::app::App;
use crate::edge::refusing;

/// The most values of a body: four megabytes of text can be a gigabyte of them.
const HEAVIEST: u64 = 100_000;

/// A JSON object as the body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = json_bytes(request, state, "the body is larger than this server takes").await?;
        // The text names the field and the place in the body.
        Json::from_bytes(&bytes).map(|Json(value)| Self(value)).map_err(|rejection| {
            ApiError::new(Code::BadRequest, format!("the body is not valid: {}", source_text(&rejection)))
        })
    }
}

/// A JSON object as the body, or no body, which says nothing.
pub(crate) struct MaybeJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for MaybeJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        JsonBody::from_request(request, state).await.map(|JsonBody(body)| Self(body))
    }
}

/// A JSON object as the body, which may have so many bytes, however few others may have, and its place among those that are in memory. What
/// is wrong with it is told without its values.
pub(crate) struct LargeJsonBody<T, const MOST: usize> {
    pub(crate) body: T,
    /// Hold it for as long as there is anything of the body. None: it is no larger than others.
    pub(crate) place: Option<Taken>,
}

impl<T: DeserializeOwned, const MOST: usize> LargeJsonBody<T, MOST> {
    /// Reads it for an organisation. It is no extractor: whose it is must be known before the first byte is taken.
    pub(crate) async fn read(app: &App, org: &OrgId, mut request: Request) -> Result<Self, ApiError> {
        let is_small =
            request.body().size_hint().upper().is_some_and(|most| most <= app.settings().max_body_bytes as u64);
        let place = match is_small {
            true => None,
            false => match app.fair().bodies.enter(org).await {
                Ok(place) => Some(place),
                Err(error) => return Err(refusing(request.into_body(), error).await),
            },
        };
        DefaultBodyLimit::max(MOST).apply(&mut request);
        let too_large = format!("the body has more than the {MOST} bytes that are taken");
        let bytes = json_bytes(request, app, &too_large).await?;
        Json::from_bytes(&bytes).map(|Json(body)| Self { body, place }).map_err(|rejection| {
            ApiError::new(Code::BadRequest, format!("the body is not valid: {}", quiet(&source_text(&rejection))))
        })
    }
}

/// What a reader says, without the value that it did not expect.
fn quiet(text: &str) -> String {
    match text.rsplit_once(", expected ") {
        Some((what, expected)) if what.contains("invalid ") => format!("expected {expected}"),
        _ => text.to_owned(),
    }
}

/// The bytes of a body that is a JSON object.
async fn json_bytes<S: Send + Sync>(request: Request, state: &S, too_large: &str) -> Result<Bytes, ApiError> {
    if !is_json(request.headers()) {
        let message = "the body must be sent with Content-Type: application/json";
        return Err(ApiError::new(Code::UnsupportedMediaType, message));
    }
    let bytes = Bytes::from_request(request, state).await.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            ApiError::new(Code::PayloadTooLarge, too_large)
        }
        other => ApiError::new(Code::BadRequest, format!("the body cannot be read: {other}")),
    })?;
    // A list would be read as the fields of the object in their order, which nobody means.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::new(Code::BadRequest, "the body is not valid: it must be a JSON object"));
    }
    if json_weight(&bytes) > HEAVIEST {
        let message =
            "the body has too many values: a hundred thousand lists and values may be, a fraction of them objects";
        return Err(ApiError::new(Code::PayloadTooLarge, message));
    }
    match repeated_key(&bytes) {
        Some(key) => {
            let message = format!("the body is not valid: it has the key {key:?} twice");
            Err(ApiError::new(Code::BadRequest, message))
        }
        None => Ok(bytes),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// The innermost cause, which is the part that helps: the outer ones only say that there was one.
fn source_text(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let outer = error.source().map(ToString::to_string).unwrap_or_default();
    let inner = inner.to_string();
    if outer.contains(&inner) { outer } else { inner }
}

/// The values in a path. A path that cannot be read names nothing.
pub(crate) struct PathOf<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathOf<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path: Result<Path<T>, PathRejection> = Path::from_request_parts(parts, state).await;
        path.map(|Path(value)| Self(value)).map_err(|_| ApiError::new(Code::NotFound, "this path names nothing"))
    }
}

/// A query string.
pub(crate) struct QueryOf<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryOf<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        query.map(|Query(value)| Self(value)).map_err(|rejection| {
            ApiError::new(Code::BadRequest, format!("the query is not valid: {}", source_text(&rejection)))
        })
    }
}

/// Tells a field that is null (`Some(None)`) from one that is absent (`None`).
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
