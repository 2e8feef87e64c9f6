//! The tools that MCP servers provide. They live on their servers: what is remembered of them are pins, and what holds for each
//! follows from the server, the toolset's overrides and what the server's state allows.

use kitbag_model::overrides::confirmation;
use kitbag_model::{
    Chosen, Effective, Installed, InstalledServer, Layers, OrgId, Origin, Pin, PinState, ServerKey, ToolId, safe_text,
};
use serde_json::{Map, Value, json};

use super::catalogue::{Provider, Tool, by_name};
use crate::servers::Servers;

/// What the tools of servers are made from.
pub(super) struct Provided<'a> {
    pub(super) servers: &'a Servers,
    pub(super) org: &'a OrgId,
    /// Of the whole organisation, or of the servers that are asked for.
    pub(super) pins: &'a [Pin],
}

impl Provided<'_> {
    /// All tools of a server, in its own order.
    pub(super) fn tools(&self, one: &Installed, server: &InstalledServer) -> Vec<Tool> {
        let key = one.server_key(&server.server);
        let problem = self.problem(one, server, &key);
        let pins = self.pins.iter().filter(|pin| pin.listed && pin.server == key);
        pins.map(|pin| tool(one, server, pin, problem.as_deref())).collect()
    }

    /// Why none of a server's tools can be called now. One that is off is said to be off elsewhere.
    pub(super) fn problem(&self, one: &Installed, server: &InstalledServer, key: &ServerKey) -> Option<String> {
        if !(one.toolset.enabled && server.is_enabled()) {
            return None;
        }
        if !server.is_trusted() {
            return Some(format!("{key} must be trusted before it may start"));
        }
        self.servers.trouble(self.org, key)
    }
}

/// A tool of a server.
pub(super) fn tool(one: &Installed, server: &InstalledServer, pin: &Pin, problem: Option<&str>) -> Tool {
    let layers = Layers { bundle: &one.bundle_overrides, user: &one.user_overrides, trusted: one.is_trusted() };
    let id = ToolId::Mcp { server: pin.server.clone(), tool: pin.tool.clone() };
    let said = |name: &str| pin.seen.definition.get(name);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(safe_text).filter(|text| !text.is_empty());
    let title = text(said("title")).or_else(|| text(said("annotations")?.get("title")));
    let description = text(said("description"));
    let described = if description.is_some() { Origin::Tool } else { Origin::Default };
    // What the server's entry says of questions is part of what was trusted.
    let asked = server.server.requires_confirmation.filter(|asks| *asks || server.is_trusted());
    let quarantined = (pin.state == PinState::Quarantined)
        .then(|| format!("{id} is not what was accepted: look at what changed, and accept it (kitbag mcp accept)"));
    let base = Effective {
        name: match title {
            Some(title) => Chosen::new(title, Origin::Tool),
            None => Chosen::new(safe_text(pin.tool.as_str()), Origin::Default),
        },
        description: Chosen::new(description, described),
        rendering: by_name(pin.tool.as_str()),
        requires_confirmation: confirmation(true, &[(asked, Origin::Tool)]),
        enabled: Chosen::new(server.is_enabled(), Origin::Default),
    };
    let schema = |name: &str| said(name).and_then(Value::as_object).cloned();
    Tool {
        provider: Provider::Mcp,
        toolset: (one.toolset.id.to_string(), one.toolset.name.to_string()),
        model_name: String::new(),
        input_schema: Value::Object(schema("inputSchema").unwrap_or_else(any_object)),
        output_schema: schema("outputSchema").map(Value::Object),
        definition: Some(pin.seen.definition.clone()),
        effective: layers.apply(&id, base),
        toolset_enabled: one.toolset.enabled,
        problem: quarantined.or_else(|| problem.map(ToOwned::to_owned)),
        id,
    }
}

fn any_object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object"))])
}
