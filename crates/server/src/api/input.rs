//! What callers send, read strictly: unknown fields, wrong types and bad queries are errors that say where.

use axum::Json;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::error::{ApiError, Code};

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        Json::<T>::from_request(request, state).await.map(|Json(value)| Self(value)).map_err(explain)
    }
}

fn explain(rejection: JsonRejection) -> ApiError {
    match rejection {
        JsonRejection::MissingJsonContentType(_) => {
            ApiError::new(Code::UnsupportedMediaType, "the body must be sent with Content-Type: application/json")
        }
        JsonRejection::BytesRejection(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_))) => {
            ApiError::new(Code::PayloadTooLarge, "the body is larger than this server takes")
        }
        // The text names the field and the place in the body.
        other => ApiError::new(Code::BadRequest, format!("the body is not valid: {}", source_text(&other))),
    }
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
