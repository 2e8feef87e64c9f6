//! Why a bucket could not be used.

use kitbag_cas::CasError;

/// The store did not answer, or said no. The text names keys, never credentials.
#[derive(Debug, thiserror::Error)]
#[error("the blob store does not answer: {reason}")]
pub struct BucketError {
    reason: String,
}

impl BucketError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl From<object_store::Error> for BucketError {
    fn from(error: object_store::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<BucketError> for CasError {
    fn from(error: BucketError) -> Self {
        Self::Distant { reason: error.reason }
    }
}
