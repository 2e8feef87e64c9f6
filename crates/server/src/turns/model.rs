//! Which model a turn is of, where it is, and with whose key it is asked.

use std::fmt;
use std::str::FromStr;

use kitbag_guard::dial::EgressPolicy;
use kitbag_llm::{LlmError, Provider, Wire};
use kitbag_model::{Maker, OrgId, Secret};
use serde_json::json;
use url::Url;

use crate::api::error::{ApiError, Code};
use crate::app::App;

/// A model, as `anthropic/<model>` or `openai/<model>`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ModelName {
    pub(crate) maker: Maker,
    pub(crate) model: String,
}

/// A text that names no model.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be anthropic/<model> or openai/<model>, as in anthropic/claude-sonnet-4-5")]
pub struct BadModelName;

impl FromStr for ModelName {
    type Err = BadModelName;

    fn from_str(text: &str) -> Result<Self, BadModelName> {
        let (maker, model) = text.split_once('/').ok_or(BadModelName)?;
        let maker = match maker {
            "anthropic" => Maker::Anthropic,
            "openai" => Maker::Openai,
            _ => return Err(BadModelName),
        };
        let is_good = (1..=200).contains(&model.len()) && model.chars().all(|c| c.is_ascii_graphic());
        is_good.then(|| Self { maker, model: model.to_owned() }).ok_or(BadModelName)
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.maker.as_str(), self.model)
    }
}

/// Where models are, and what turns may take.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// Anthropic, or who speaks as they do.
    pub anthropic_url: Url,
    /// OpenAI, or who speaks as they do.
    pub openai_url: Url,
    /// The keys of whoever runs the server. They are for `local` alone: other organisations have their own.
    pub anthropic_key: Option<Secret>,
    /// The other one.
    pub openai_key: Option<Secret>,
    /// The model of those who name none.
    pub default: Option<ModelName>,
    /// Of more bytes of tools' schemas a turn gets a search in their place.
    pub tool_bytes: usize,
    /// The most turns that run, with the questions of the builder.
    pub most_turns: usize,
}

impl Default for ModelSettings {
    fn default() -> Self {
        let url = |text: &str| text.parse().expect("an address that is written here");
        Self {
            anthropic_url: url("https://api.anthropic.com"),
            openai_url: url("https://api.openai.com"),
            anthropic_key: None,
            openai_key: None,
            default: None,
            tool_bytes: 32 * 1024,
            most_turns: 128,
        }
    }
}

impl App {
    /// The model that somebody means.
    pub(crate) fn model_named(&self, text: Option<&str>) -> Result<ModelName, ApiError> {
        match (text, &self.settings().models.default) {
            (Some(text), _) => text.parse().map_err(|reason| ApiError::invalid("model", reason)),
            (None, Some(default)) => Ok(default.clone()),
            (None, None) => {
                Err(ApiError::invalid("model", "must be given: the server has no model of its own (--model)"))
            }
        }
    }

    /// Whom to ask for a model of an organisation's.
    pub(crate) async fn provider(&self, org: &OrgId, maker: Maker) -> Result<Provider, ApiError> {
        let settings = &self.settings().models;
        let (wire, url, own) = match maker {
            Maker::Anthropic => (Wire::Anthropic, &settings.anthropic_url, &settings.anthropic_key),
            Maker::Openai => (Wire::OpenAi, &settings.openai_url, &settings.openai_key),
        };
        let given = self.secret(org, maker.secret()).await.map_err(ApiError::internal)?;
        let key = given.or_else(|| own.clone().filter(|_| *org == OrgId::local()));
        // A server of one's own needs no key; the makers themselves do.
        let theirs = ModelSettings::default();
        if key.is_none() && [&theirs.anthropic_url, &theirs.openai_url].contains(&url) {
            let name = maker.secret();
            let message =
                format!("the organisation has no key for {}; give it one as the secret {name}", maker.as_str());
            return Err(
                ApiError::new(Code::LlmSecretRequired, message).with_details(json!({ "secret": name.as_str() }))
            );
        }
        Ok(Provider { wire, base_url: url.clone(), key })
    }

    /// What may be dialled for a model: where the operator says that it is, wherever that may be.
    /// Nobody else names the address, and a client of one origin dials no other.
    pub(crate) fn model_policy(&self) -> EgressPolicy {
        EgressPolicy { only: None, allow_private: true, ..self.settings().egress.clone() }
    }
}

/// A model's no, as the API tells it.
pub(crate) fn explain(error: &LlmError) -> ApiError {
    ApiError::new(Code::LlmUnavailable, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_with_its_maker() {
        let name: ModelName = "openai/org/model:7b".parse().unwrap();
        assert_eq!(
            (name.maker, name.model.as_str(), name.to_string()),
            (Maker::Openai, "org/model:7b", "openai/org/model:7b".to_owned())
        );
        for wrong in ["", "claude", "google/gemini", "openai/", "anthropic/a b", "openai/é"] {
            assert_eq!(wrong.parse::<ModelName>(), Err(BadModelName), "{wrong}");
        }
    }
}
