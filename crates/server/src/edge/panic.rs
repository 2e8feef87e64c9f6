//! A handler that panics is a defect; the caller still gets an answer, and the others their service.

use std::any::Any;

use axum::response::{IntoResponse, Response};

use crate::api::error::ApiError;

pub(crate) fn answer(cause: Box<dyn Any + Send>) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    ApiError::internal(format!("panic: {}", text.unwrap_or("(no message)"))).into_response()
}
