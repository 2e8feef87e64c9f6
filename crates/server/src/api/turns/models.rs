//! `GET /v1/orgs/{org}/models`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use kitbag_llm::{Limits, Retry};
use kitbag_model::{Maker, OrgId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::caller::MayUse;
use crate::api::error::{ApiError, ErrorBody};
use crate::app::App;
use crate::turns::{ModelName, explain};

/// How long a provider may take to say which models it has. Somebody looks at a list that opens; a model can also be typed.
const PATIENCE: Duration = Duration::from_secs(8);

/// Which models can be asked.
#[derive(Serialize, ToSchema)]
#[schema(as = Models)]
pub(crate) struct ModelsView {
    /// The model of those who name none.
    #[schema(required)]
    default: Option<String>,
    /// Everybody that the server can ask.
    providers: Vec<ProviderView>,
}

/// Somebody who has models.
#[derive(Serialize, ToSchema)]
#[schema(as = ModelProvider)]
pub(crate) struct ProviderView {
    #[schema(value_type = String, pattern = "^(anthropic|openai)$")]
    provider: Maker,
    /// Whether there is a key, or none is needed.
    available: bool,
    /// Its models, named as `stream` takes them.
    models: Vec<String>,
    /// Why there is no list of them. One that does not list its models may still answer.
    #[schema(required)]
    error: Option<ErrorBody>,
}

/// The models that a turn can be asked of, as their providers list them
#[utoipa::path(
    get, path = "/v1/orgs/{org}/models", tag = "turns",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode.")),
    responses((status = 200, body = ModelsView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_models(State(app): State<App>, caller: MayUse) -> Result<Json<ModelsView>, ApiError> {
    let (anthropic, openai) =
        tokio::join!(of(&app, &caller.org, Maker::Anthropic), of(&app, &caller.org, Maker::Openai));
    let default = app.settings().models.default.as_ref().map(ModelName::to_string);
    Ok(Json(ModelsView { default, providers: vec![anthropic, openai] }))
}

async fn of(app: &App, org: &OrgId, maker: Maker) -> ProviderView {
    let none = |available, error: ApiError| ProviderView {
        provider: maker,
        available,
        models: Vec::new(),
        error: Some(error.into_body()),
    };
    let provider = match app.provider(org, maker).await {
        Ok(provider) => provider,
        Err(error) => return none(false, error),
    };
    let once = Limits { total: PATIENCE, retry: Retry { attempts: 1, ..Retry::default() }, ..Limits::default() };
    match app.turns().models().under(app.model_policy()).within(once).list(&provider).await {
        Ok(names) => {
            // What a turn would not take is not offered.
            let named = names.into_iter().filter_map(|name| format!("{}/{name}", maker.as_str()).parse().ok());
            let models = named.map(|name: ModelName| name.to_string()).collect();
            ProviderView { provider: maker, available: true, models, error: None }
        }
        Err(error) => none(true, explain(&error)),
    }
}
