//! Who makes models.

use serde::{Deserialize, Serialize};

use crate::org_secret::OrgSecretName;

/// Whose models there are: the way they are spoken to, and the secret that pays for them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Maker {
    /// Anthropic.
    Anthropic,
    /// OpenAI, or whoever speaks as they do.
    Openai,
}

impl Maker {
    /// The organisation's secret that pays for its models.
    pub fn secret(self) -> OrgSecretName {
        match self {
            Self::Anthropic => OrgSecretName::LlmAnthropic,
            Self::Openai => OrgSecretName::LlmOpenai,
        }
    }

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
        }
    }
}
