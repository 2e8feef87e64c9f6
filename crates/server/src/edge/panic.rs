//! A handler that panics is a defect; the caller still gets an answer, and the others their service.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::api::error::ApiError;

/// What comes of answering, also if it panics.
pub(super) async fn caught<T>(answering: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    let mut answering = pin!(answering);
    poll_fn(move |context| {
        // It is not polled again after a panic, so nobody sees what that left half done.
        let polled = catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(context)));
        polled.unwrap_or_else(|cause| Poll::Ready(Err(ApiError::internal(format!("panic: {}", words(&*cause))))))
    })
    .await
}

/// What a panic says.
pub(crate) fn words(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str).or_else(|| cause.downcast_ref::<&str>().copied());
    text.unwrap_or("(no message)")
}
