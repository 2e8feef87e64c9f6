//! Sessions of the builder as the API shows them.

use kitbag_model::builder::{BuilderSession, BuilderStatus, BuilderTurn};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::builder::{Component, Turned, catalogue};

/// Where a session stands after a turn.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BuilderTurned)]
pub(crate) struct TurnedView {
    session_id: String,
    /// `ACTIVE`.
    status: &'static str,
    /// What the person said, as it was kept: without what looked like a secret. Null if nothing was said yet.
    #[schema(required)]
    user_message: Option<String>,
    assistant: AssistantView,
    /// The catalogue, what fits best first.
    components: Vec<Component>,
    /// Which edition of the catalogue it is.
    catalogue_version: u32,
    selected_component_keys: Vec<String>,
    /// What a person must know, such as that something looked like a secret and was taken out.
    warnings: Vec<String>,
}

/// What the model says.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BuilderAssistant)]
pub(crate) struct AssistantView {
    message: String,
    suggested_component_keys: Vec<String>,
}

impl From<Turned> for TurnedView {
    fn from(turned: Turned) -> Self {
        Self {
            session_id: turned.id.to_string(),
            status: BuilderStatus::Active.as_str(),
            user_message: turned.asked,
            assistant: AssistantView { message: turned.message, suggested_component_keys: turned.suggested },
            components: turned.components.into_iter().cloned().collect(),
            catalogue_version: catalogue().version,
            selected_component_keys: turned.selected,
            warnings: turned.warnings,
        }
    }
}

/// A session with what was said in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BuilderSession)]
pub(crate) struct SessionView {
    session_id: String,
    /// `ACTIVE`, `FINALIZED` or `ARCHIVED`.
    status: &'static str,
    llm: LlmView,
    #[schema(required)]
    latest_intent: Option<String>,
    selected_component_keys: Vec<String>,
    /// What it came to.
    #[schema(required, value_type = Option<Object>)]
    final_draft: Option<Value>,
    /// What must be known of it before it is used, as it was told when it was made.
    warnings: Vec<String>,
    /// In the order in which it was said, without secrets.
    turns: Vec<TurnView>,
    components: Vec<Component>,
    catalogue_version: u32,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// Which model is asked.
#[derive(Serialize, ToSchema)]
#[schema(as = BuilderLlm)]
pub(crate) struct LlmView {
    /// `anthropic` or `openai`.
    provider: &'static str,
    model: String,
}

/// What was said once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BuilderTurn)]
pub(crate) struct TurnView {
    /// `USER` or `ASSISTANT`.
    role: &'static str,
    text: String,
    #[schema(format = DateTime)]
    created_at: String,
}

impl SessionView {
    pub(crate) fn new(session: BuilderSession, turns: Vec<BuilderTurn>) -> Self {
        let turn =
            |turn: BuilderTurn| TurnView { role: turn.role.as_str(), text: turn.text, created_at: turn.at.to_string() };
        let components = catalogue().ranked(session.latest_intent.as_deref().unwrap_or_default());
        Self {
            session_id: session.id.to_string(),
            status: session.status.as_str(),
            llm: LlmView { provider: session.llm.provider.as_str(), model: session.llm.model },
            selected_component_keys: session.selected,
            final_draft: session.final_draft,
            warnings: session.final_warnings,
            turns: turns.into_iter().map(turn).collect(),
            components: components.into_iter().cloned().collect(),
            latest_intent: session.latest_intent,
            catalogue_version: catalogue().version,
            created_at: session.created_at.to_string(),
            updated_at: session.updated_at.to_string(),
        }
    }
}
