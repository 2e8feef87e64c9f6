//! Executors: how a machine becomes one, what is known of it, and what it asks for.

pub(crate) mod attempt;
pub(crate) mod connect;
pub(crate) mod list;
pub(crate) mod pair;
pub(crate) mod pairing;
pub(crate) mod revoke;
pub(crate) mod update;
mod view;

use kitbag_model::ExecutorId;
use kitbag_model::run::{Label, MOST_LABELS};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;

pub(crate) use view::ExecutorView;

/// The path of an executor.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ExecutorPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "the caller's check reads it")]
    org: String,
    /// The executor.
    executor: String,
}

impl ExecutorPath {
    fn not_found(&self) -> ApiError {
        ApiError::not_found("executor", &self.executor)
    }

    fn id(&self) -> Result<ExecutorId, ApiError> {
        self.executor.parse().map_err(|_| self.not_found())
    }
}

/// Labels that somebody gives an executor, each once.
fn labels(texts: Vec<String>) -> Result<Vec<String>, ApiError> {
    if texts.len() > MOST_LABELS {
        return Err(ApiError::invalid("labels", format!("must have at most {MOST_LABELS} entries")));
    }
    let mut labels: Vec<String> = Vec::with_capacity(texts.len());
    for (index, text) in texts.into_iter().enumerate() {
        let label: Label = text.parse().map_err(|reason| ApiError::invalid(&format!("labels[{index}]"), reason))?;
        if !labels.iter().any(|known| known == label.as_str()) {
            labels.push(label.as_str().to_owned());
        }
    }
    Ok(labels)
}
