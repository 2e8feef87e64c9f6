//! A call that an agent made, as it is shown: with what was said of its tool when the run was made, by the code that makes the plans of
//! calls in chats. It is made when somebody looks: what an executor tells is only written down.

use kitbag_model::run::{Run, RunEventKind, RunRenderings, tool_id};
use kitbag_model::{ContentHash, OrgId, RenderPlan, ToolId, WorkPath};
use kitbag_store::StoreError;
use serde_json::{Value, json};

use super::AgentRuns;
use crate::stage::{Draft, Made, NotShown, Ports};
use crate::toolsets::LARGEST_PAGE;

/// A call of an agent.
pub(crate) struct ShownCall {
    /// The engine's own name for it.
    pub(crate) call_id: String,
    /// The tool, as the agent sees it.
    pub(crate) tool: String,
    /// The tool, as it is known here; none of the agent's own.
    pub(crate) tool_id: Option<ToolId>,
    /// With an address, if it has a page or a frame.
    pub(crate) plan: Option<Value>,
    pub(crate) warnings: Vec<String>,
}

impl AgentRuns {
    /// The call whose result is the event of this number; none if that is no result of a call.
    pub(crate) async fn call(&self, org: &OrgId, run: &Run, event: u64) -> Result<Option<ShownCall>, StoreError> {
        let mut tx = self.0.store.read_beside(org).await?;
        let Some((called, ended)) = tx.run_call(run.id, event).await? else { return Ok(None) };
        let renderings = tx.run_renderings(run.id).await?;
        drop(tx);
        let RunEventKind::ToolCall { call_id, tool, input } = called.kind else { return Ok(None) };
        let RunEventKind::ToolResult { output, is_error, .. } = ended.kind else { return Ok(None) };
        let tool_id = tool_id(run.toolset.as_ref(), &tool);
        let mut shown = ShownCall { call_id, tool, tool_id, plan: None, warnings: Vec::new() };
        if is_error {
            return Ok(Some(shown));
        }
        match plan(&self.0.stage, run, &renderings, &shown, &input, &returned(output)) {
            Some(Ok(plan)) => {
                // A call of a chat has another name, for it has an id.
                let name = format!("run {} {event}", run.id);
                shown.plan = Some(self.0.stage.present(org, run.chat_id, &name, &plan));
            }
            Some(Err(error)) => shown.warnings.push(error.as_warning()),
            None => {}
        }
        Ok(Some(shown))
    }
}

/// None: it is shown by its shape.
fn plan(
    stage: &crate::stage::Stage,
    run: &Run,
    renderings: &RunRenderings,
    call: &ShownCall,
    input: &Value,
    result: &Value,
) -> Option<Result<RenderPlan, NotShown>> {
    let rendering = renderings.find(&call.tool, call.tool_id.as_ref())?;
    let nothing = serde_json::Map::new();
    let args = input.as_object().unwrap_or(&nothing);
    let made = Made { chat: run.chat_id, tool: call.tool_id.as_ref(), args, result };
    Some(Draft::new(&rendering, &made).and_then(|draft| {
        let page = draft.page().and_then(|(_, path)| page(run, renderings, &path));
        draft.finish(stage, Ports::OutOfReach, page)
    }))
}

/// The content of a file of the run's toolset. The chat has it since the run was made.
fn page(run: &Run, renderings: &RunRenderings, path: &WorkPath) -> Option<ContentHash> {
    let of_program = || run.toolset.as_ref()?.program_file(path);
    let file = renderings.pages.get(path).or_else(of_program)?;
    (file.size <= LARGEST_PAGE).then_some(file.sha256)
}

/// What a tool returned: engines have a text, the blocks of MCP alone, or all of the answer of a server.
fn returned(output: Value) -> Value {
    let answer = match output {
        Value::String(text) => json!({ "content": [{ "type": "text", "text": text }] }),
        Value::Array(blocks) if is_blocks(&blocks) => json!({ "content": blocks }),
        Value::Object(mut fields) => {
            // Codex spells it so.
            if let Some(structured) = fields.remove("structured_content") {
                fields.insert("structuredContent".to_owned(), structured);
            }
            Value::Object(fields)
        }
        other => other,
    };
    kitbag_runner::returned(&answer)
}

fn is_blocks(list: &[Value]) -> bool {
    !list.is_empty() && list.iter().all(|block| block.get("type").is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_returned() {
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        for (output, value) in [
            (json!("plain"), json!("plain")),
            (json!("{\"a\": 1}"), json!({"a": 1})),
            (json!("17"), json!("17")),
            (text("[1, 2]"), json!([1, 2])),
            (text("words"), json!("words")),
            (json!({ "content": text("x"), "structured_content": { "a": 1 } }), json!({"a": 1})),
            (json!({ "content": text("x"), "structured_content": null }), json!("x")),
            (json!([{ "a": 1 }]), json!([{ "a": 1 }])),
            (json!([]), json!([])),
            (json!({ "content": "a file" }), json!({ "content": "a file" })),
            (Value::Null, Value::Null),
        ] {
            assert_eq!(returned(output.clone()), value, "{output}");
        }
    }
}
