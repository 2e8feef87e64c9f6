//! Tools about tools, for clients that would drown in all of them: what there is can be listed, searched and looked at, and called
//! through one of them, under the same rules.

use std::sync::Arc;

use kitbag_mcp::serve::Fault;
use kitbag_model::tool_search::{Indexed, ToolSearch};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::menu::Entry;
use super::tools::{Wanted, arguments, failed, internal, unknown};
use super::view::View;

/// So many are found at most, and unless somebody says how many.
const MOST: usize = 50;
const USUAL: usize = 10;

/// The names of all of them.
const NAMES: [&str; 6] =
    ["list_toolsets", "list_tools", "search_tools", "get_tool_input_schema", "get_tool_output_schema", "call_tool"];

/// How they are listed.
pub(super) fn listed() -> Vec<Value> {
    let tool = |name: &str, title: &str, description: &str, properties: Value, required: Value| {
        let only_reads = name != "call_tool";
        json!({
            "name": name, "title": title, "description": description,
            "inputSchema": { "type": "object", "properties": properties, "required": required },
            "annotations": { "readOnlyHint": only_reads, "destructiveHint": !only_reads, "openWorldHint": !only_reads },
        })
    };
    let name = json!({ "tool": { "type": "string", "description": "The tool's name." } });
    vec![
        tool("list_toolsets", "List toolsets", "Lists the toolsets: groups of tools.", json!({}), json!([])),
        tool(
            "list_tools",
            "List tools",
            "Lists the tools of a toolset with what they do.",
            json!({ "toolset": { "type": "string", "description": "The toolset's name." } }),
            json!(["toolset"]),
        ),
        tool(
            "search_tools",
            "Search tools",
            "Finds tools by what they do: searches names, descriptions and parameters, best first.",
            json!({
                "query": { "type": "string", "description": "Words." },
                "limit": { "type": "integer", "minimum": 1, "maximum": MOST, "description": "How many at most." },
            }),
            json!(["query"]),
        ),
        tool(
            "get_tool_input_schema",
            "Get a tool's input schema",
            "Tells which arguments a tool takes.",
            name.clone(),
            json!(["tool"]),
        ),
        tool(
            "get_tool_output_schema",
            "Get a tool's output schema",
            "Tells what a tool returns, if it says so.",
            name,
            json!(["tool"]),
        ),
        tool(
            "call_tool",
            "Call a tool",
            "Calls a tool. Look at its input schema first.",
            json!({
                "tool": { "type": "string", "description": "The tool's name." },
                "input": { "type": "object", "description": "Its arguments." },
            }),
            json!(["tool"]),
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    toolset: Option<String>,
    query: Option<String>,
    limit: Option<usize>,
    tool: Option<String>,
    #[serde(default)]
    input: Value,
}

impl View {
    /// Calls one of them.
    pub(super) async fn call_meta(self: &Arc<Self>, name: &str, wanted: Wanted) -> Result<Box<RawValue>, Fault> {
        let menu = &*self.menu().await?;
        if !NAMES.contains(&name) {
            return Err(unknown(name));
        }
        let input = arguments(&wanted.params)?;
        let input: Input = match serde_json::from_value(Value::Object(input)) {
            Ok(input) => input,
            Err(error) => return failed(&format!("INVALID_ARGUMENTS: {name}: {error}")),
        };
        let tool = || input.tool.as_deref().unwrap_or_default();
        match name {
            "list_toolsets" => {
                let all = menu.toolsets.iter().map(|(id, name)| json!({ "name": id, "description": name }));
                said(&all.collect::<Vec<_>>(), "No toolsets found.")
            }
            "list_tools" => {
                let toolset = input.toolset.as_deref().unwrap_or_default();
                if !menu.toolsets.iter().any(|(id, _)| id.eq_ignore_ascii_case(toolset)) {
                    return failed(&format!("Toolset '{toolset}' not found."));
                }
                let of_it = |entry: &&Entry| entry.tool.toolset.0.eq_ignore_ascii_case(toolset);
                let all = menu.entries.iter().filter(of_it).map(short);
                said(&all.collect::<Vec<_>>(), &format!("No tools found for toolset '{toolset}'."))
            }
            "search_tools" => {
                let (query, most) = (input.query.unwrap_or_default(), input.limit.unwrap_or(USUAL).clamp(1, MOST));
                let found = menu.index().find(&query, most);
                let all = found.into_iter().map(|found| short(&menu.entries[found.place]));
                said(&all.collect::<Vec<_>>(), "No tools found.")
            }
            "get_tool_input_schema" => match menu.find(tool()) {
                Some(entry) => said_one(entry.shown.get("inputSchema").unwrap_or(&Value::Null)),
                None => failed(&format!("Tool '{}' not found.", tool())),
            },
            "get_tool_output_schema" => match menu.find(tool()).map(output_schema) {
                Some(Some(schema)) => said_one(schema),
                Some(None) => failed(&format!("Tool '{}' does not say what it returns.", tool())),
                None => failed(&format!("Tool '{}' not found.", tool())),
            },
            _ => {
                let Some(entry) = menu.find(tool()) else { return failed(&format!("Tool '{}' not found.", tool())) };
                let mut params = wanted.params;
                params.set_value("name", &entry.name.as_str().into());
                let input = if input.input.is_null() { json!({}) } else { input.input };
                params.set_value("arguments", &input);
                // Its arguments are inside another tool's, which no header can say.
                self.call_entry(menu, entry, Wanted { params, client: wanted.client, headers: None }).await
            }
        }
    }
}

/// What a tool says that it returns, be it structured or not.
fn output_schema(entry: &Entry) -> Option<&Value> {
    entry.shown.get("outputSchema").or(entry.tool.output_schema.as_ref())
}

fn short(entry: &Entry) -> Value {
    json!({ "name": entry.name, "description": entry.shown.get("description") })
}

/// A list, as text and as it is.
fn said(all: &[Value], none: &str) -> Result<Box<RawValue>, Fault> {
    if all.is_empty() { text(none) } else { said_one(&json!(all)) }
}

fn said_one(value: &Value) -> Result<Box<RawValue>, Fault> {
    text(&serde_json::to_string_pretty(value).unwrap_or_default())
}

fn text(text: &str) -> Result<Box<RawValue>, Fault> {
    to_raw_value(&json!({ "content": [{ "type": "text", "text": text }] })).map_err(|error| internal(&error))
}

/// What a menu's tools can be found by.
pub(super) fn index(entries: &[Entry]) -> ToolSearch {
    let names: Vec<[&str; 2]> =
        entries.iter().map(|entry| [entry.name.as_str(), entry.tool.effective.name.value.as_str()]).collect();
    ToolSearch::new(entries.iter().zip(&names).map(|(entry, names)| Indexed {
        names,
        description: entry.shown.get("description").and_then(Value::as_str).unwrap_or_default(),
        input_schema: Some(&entry.tool.input_schema),
    }))
}
