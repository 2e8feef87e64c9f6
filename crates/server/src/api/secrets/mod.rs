//! Secrets that an organisation gives to the server. They are replaced and forgotten, and never read through here.

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod set;

use kitbag_model::OrgSecretName;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::api::error::{ApiError, Code};

/// The names that secrets have.
#[derive(ToSchema)]
#[schema(as = SecretName)]
#[allow(dead_code, reason = "the document names them")]
pub(crate) enum SecretNameDoc {
    #[schema(rename = "llm.anthropic")]
    LlmAnthropic,
    #[schema(rename = "llm.openai")]
    LlmOpenai,
}

/// A secret in the path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SecretPath {
    /// The organisation; `local` in the embedded mode.
    #[allow(dead_code, reason = "whoever asks has looked at it")]
    org: String,
    /// The secret.
    #[param(value_type = SecretNameDoc)]
    name: String,
}

impl SecretPath {
    fn name(&self) -> Result<OrgSecretName, ApiError> {
        self.name.parse().map_err(|error: kitbag_model::UnknownSecret| ApiError::new(Code::NotFound, error.to_string()))
    }
}
