//! Tools as the API shows them.

use kitbag_model::{Chosen, Origin};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::toolsets::Tool;

/// A tool.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tool)]
pub(crate) struct ToolView {
    id: String,
    /// The toolset that brings it; `builtin` for the built-in ones.
    toolset_id: String,
    toolset_name: String,
    /// `builtin`, `python`, `mcp` or `container`.
    provider: &'static str,
    /// Its title.
    name: String,
    /// What a model reads about it.
    #[schema(required)]
    description: Option<String>,
    /// What a model calls it.
    model_name: String,
    #[schema(value_type = Object)]
    input_schema: Value,
    #[schema(required, value_type = Option<Object>)]
    output_schema: Option<Value>,
    requires_confirmation: bool,
    /// Whether it is on; its toolset may be off nevertheless.
    enabled: bool,
    /// Whether it can be called now.
    available: bool,
    /// Why its code cannot be called, if that is so.
    #[schema(required)]
    problem: Option<String>,
    /// How its results are shown.
    #[schema(required)]
    renderer: Option<String>,
    #[schema(required, value_type = Option<Object>)]
    renderer_config: Option<Value>,
}

impl From<Tool> for ToolView {
    fn from(tool: Tool) -> Self {
        let available = tool.is_available();
        let rendering = tool.effective.rendering.value;
        Self {
            id: tool.id.to_string(),
            toolset_id: tool.toolset.0,
            toolset_name: tool.toolset.1,
            provider: tool.provider.as_str(),
            name: tool.effective.name.value,
            description: tool.effective.description.value,
            model_name: tool.model_name,
            input_schema: tool.input_schema,
            output_schema: tool.output_schema,
            requires_confirmation: tool.effective.requires_confirmation.value,
            enabled: tool.effective.enabled.value,
            available,
            problem: tool.problem,
            renderer_config: rendering.as_ref().map(|rendering| Value::Object(rendering.config().clone())),
            renderer: rendering.map(|rendering| rendering.renderer().to_string()),
        }
    }
}

/// A tool, with where each of its values comes from.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolDetail {
    #[serde(flatten)]
    tool: ToolView,
    /// For each value: `default`, `tool`, `server`, or `bundle` or `user` with the key of the override.
    #[schema(value_type = Object)]
    origins: Value,
}

impl From<Tool> for ToolDetail {
    fn from(tool: Tool) -> Self {
        fn origin<T>(chosen: &Chosen<T>) -> &Origin {
            &chosen.origin
        }
        let effective = &tool.effective;
        let origins = json!({
            "name": origin(&effective.name),
            "description": origin(&effective.description),
            "renderer": origin(&effective.rendering),
            "requiresConfirmation": origin(&effective.requires_confirmation),
            "enabled": origin(&effective.enabled),
        });
        Self { tool: tool.into(), origins }
    }
}
