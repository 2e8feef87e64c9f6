//! A handler that panics is a defect; the caller still gets an answer, and the others their service.

use std::any::Any;

use axum::response::{IntoResponse, Response};

use crate::api::error::ApiError;

pub(crate) fn answer(cause: Box<dyn Any + Send>) -> Response {
    ApiError::internal(format!("panic: {}", words(&*cause))).into_response()
}

/// What a panic says.
pub(crate) fn words(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    text.unwrap_or("(no message)")
}
