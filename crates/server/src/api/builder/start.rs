//! `POST /v1/orgs/{org}/toolsets/builder/sessions`

use axum::Json;
use axum::extract::State;
use kitbag_model::builder::BuilderLlm;
use kitbag_model::{Maker, redact};
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::TurnedView;
use super::{LONGEST, checked};
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::JsonBody;
use crate::app::App;
use crate::builder::{Builder, OrganizationModels};

/// How long the name of a model may be.
const LONGEST_MODEL: usize = 200;

/// A session to begin.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StartBuilder {
    /// What the toolset is for. Absent or empty: the session begins with a greeting, and no model is asked.
    #[schema(max_length = 20000)]
    intent: Option<String>,
    llm: ChosenLlm,
}

/// Which model is asked.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ChosenBuilderLlm)]
pub(crate) struct ChosenLlm {
    provider: ChosenProvider,
    /// Its name there.
    #[schema(min_length = 1, max_length = 200)]
    model: String,
    auth: Option<LlmAuth>,
}

/// Whose models there are.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Maker)]
pub(crate) enum ChosenProvider {
    Anthropic,
    Openai,
}

/// Who pays for it.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BuilderLlmAuth)]
pub(crate) struct LlmAuth {
    /// The secret of the organisation: `llm.anthropic` or `llm.openai`, the one of the provider. Absent: that one.
    secret_id: Option<String>,
}

impl ChosenLlm {
    fn read(self) -> Result<BuilderLlm, ApiError> {
        let provider = match self.provider {
            ChosenProvider::Anthropic => Maker::Anthropic,
            ChosenProvider::Openai => Maker::Openai,
        };
        checked("llm.model", &self.model, 1, LONGEST_MODEL)?;
        if self.model.trim().is_empty() || self.model.chars().any(char::is_control) {
            return Err(ApiError::invalid("llm.model", "must be the name of a model"));
        }
        // It is kept and told in records, so that a key in the wrong field must not get there.
        if redact(&self.model).count() > 0 {
            return Err(ApiError::invalid("llm.model", "must be the name of a model, not a key"));
        }
        let secret = provider.secret();
        let named = self.auth.and_then(|auth| auth.secret_id);
        if named.is_some_and(|named| named != secret.as_str()) {
            let reason = format!("models of {} are paid for with the secret {secret}", provider.as_str());
            return Err(ApiError::invalid("llm.auth.secretId", reason));
        }
        Ok(BuilderLlm { provider, model: self.model })
    }
}

/// Begin to put a toolset together with a model
///
/// Secrets that are recognised in the intent are taken out before it is kept and before the model sees it; `warnings` tells so. What the model
/// suggests is in the catalogue, whatever it says.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/builder/sessions", tag = "builder",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    request_body = StartBuilder,
    responses((status = 200, body = TurnedView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn start_toolset_builder(
    State(app): State<App>,
    caller: MayManage,
    JsonBody(body): JsonBody<StartBuilder>,
) -> Result<Json<TurnedView>, ApiError> {
    checked("intent", body.intent.as_deref().unwrap_or_default(), 0, LONGEST)?;
    let llm = body.llm.read()?;
    let answers = OrganizationModels(app.clone());
    let builder = Builder::of(&app, &answers, &caller.org, caller.author());
    Ok(Json(builder.start(llm, body.intent.as_deref()).await?.into()))
}
