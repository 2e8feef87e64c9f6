//! Pages that show results of tools, for hosts that show MCP Apps: a tool with an `html` renderer has one of ours, a server's tool
//! the one that its server offers. Ours gets its data from the host, by a script that speaks with it, and can reach nothing.

use kitbag_formats::html;
use kitbag_mcp::manager::APP;
use kitbag_mcp::serve::Fault;
use kitbag_model::renderer::toolset_path;
use kitbag_model::{Rendering, ToolId, ToolsetId, WorkPath};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::lists::no_resource;
use super::menu::{Entry, Menu};
use super::tools::{fault, internal};
use super::view::View;
use super::{files, names};
use crate::stage::{SHUT_IN, TOOLSET, WORKSPACE};
use crate::toolsets::{Provider, Tool};

/// The document around a page, which speaks with the host.
const SHELL: &str = include_str!("app.html");

/// Where a page comes from.
enum Source {
    /// A file of this toolset.
    Artifact(ToolsetId, WorkPath),
    /// A text, whose expressions get their values from the call.
    Content(Value),
}

/// The page of a tool, if it has one that is known before it is called.
fn source(tool: &Tool) -> Option<(&Rendering, Source)> {
    let rendering = tool.effective.rendering.value.as_ref().filter(|it| it.renderer().name() == "html")?;
    let said = |key: &str| rendering.config().get(key).filter(|value| !value.is_null());
    let toolset = match &tool.id {
        ToolId::Toolset { toolset, .. } => Some(toolset),
        ToolId::Mcp { server, .. } => Some(&server.toolset),
        ToolId::Builtin(_) | ToolId::LegacyMcp { .. } => None,
    };
    let source = match said("artifact") {
        Some(path) => Source::Artifact(toolset?.clone(), toolset_path(path.as_str()?)?.ok()?),
        None => Source::Content(said("content")?.clone()),
    };
    Some((rendering, source))
}

/// The address of a tool's page.
fn address(tool: &Tool) -> Option<String> {
    source(tool)?;
    Some(match &tool.id {
        ToolId::Toolset { toolset, tool } => format!("ui://{toolset}/{tool}"),
        ToolId::Mcp { server, tool } => {
            format!("ui://{}/{}/{}", server.toolset, server.server, files::escaped_part(tool.as_str()))
        }
        ToolId::Builtin(name) => format!("ui://builtin/{name}"),
        ToolId::LegacyMcp { .. } => return None,
    })
}

/// Says in a tool's definition where its page is. A server's own page is where clients find the server's resources.
pub(super) fn mark(tool: &Tool, shown: &mut Map<String, Value>, plain: bool) {
    let own = address(tool);
    let renamed = match &tool.id {
        ToolId::Mcp { server, .. } if !plain => Some(server),
        _ => None,
    };
    if own.is_none() && renamed.is_none() {
        return;
    }
    let mut meta = match shown.remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    match own {
        Some(uri) => {
            meta.remove(FLAT);
            match meta.get_mut("ui") {
                Some(Value::Object(ui)) => drop(ui.insert("resourceUri".to_owned(), uri.into())),
                _ => drop(meta.insert("ui".to_owned(), json!({ "resourceUri": uri }))),
            }
        }
        None => {
            for at in ["/ui/resourceUri", "/ui~1resourceUri"] {
                let mut all = Value::Object(std::mem::take(&mut meta));
                if let (Some(Value::String(uri)), Some(server)) = (all.pointer_mut(at), renamed) {
                    *uri = names::resource(server, uri);
                }
                meta = if let Value::Object(all) = all { all } else { Map::new() };
            }
        }
    }
    if !meta.is_empty() {
        shown.insert("_meta".to_owned(), meta.into());
    }
}

/// The addresses that a server gives to the page of its tool.
pub(super) fn own_pages(tool: &Tool) -> impl Iterator<Item = &str> {
    let meta = tool.definition.as_ref().and_then(|definition| definition.get("_meta"));
    let said = [meta.and_then(|meta| meta.pointer("/ui/resourceUri")), meta.and_then(|meta| meta.get(FLAT))];
    said.into_iter().flatten().filter_map(Value::as_str)
}

/// How tools said where their page is before there was an object for it.
const FLAT: &str = "ui/resourceUri";

/// The tool whose page this is.
pub(super) fn of<'m>(menu: &'m Menu, uri: &str) -> Option<&'m Entry> {
    let is_it = |entry: &&Entry| address(&entry.tool).is_some_and(|own| own == uri);
    if uri.starts_with("ui://") { menu.entries.iter().find(is_it) } else { None }
}

/// `resources/read` of a tool's page.
pub(super) async fn read(view: &View, tool: &Tool, uri: &str, stateless: bool) -> Result<Box<RawValue>, Fault> {
    let missing = || no_resource(uri, stateless);
    let (rendering, source) = source(tool).ok_or_else(missing)?;
    let mut scene = json!({ "workspace": WORKSPACE });
    if !matches!(tool.id, ToolId::Builtin(_)) {
        scene["toolset"] = TOOLSET.into();
    }
    let config = Value::Object(rendering.config().clone());
    if config.to_string().contains("chat_id") {
        scene["chat_id"] = view.chat().await?.to_string().into();
    }
    let returns_text = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("string");
    let mut app = json!({
        "info": { "name": tool.effective.name.value, "version": env!("CARGO_PKG_VERSION") },
        "scene": scene,
        // What a server answers is what its call returned; a tool of ours returned what is in the answer.
        "whole": tool.provider == Provider::Mcp,
        "text": tool.output_schema.as_ref().is_some_and(returns_text),
    });
    if let Some(data) = rendering.config().get("data").filter(|data| !data.is_null()) {
        app["data"] = data.clone();
    }
    match source {
        Source::Content(content) => app["content"] = content,
        Source::Artifact(toolset, path) => {
            let found = view.app.toolsets().artifact(&view.org, &toolset, &path).await;
            let (_, bytes) = found.map_err(|error| fault(error.into()))?.ok_or_else(missing)?;
            let page = html::text(&bytes).map_err(|error| Fault::params(format!("{uri} cannot be shown: {error}")))?;
            app["page"] = page.into();
        }
    }
    let content = json!({
        "uri": uri, "mimeType": APP, "text": document(&app),
        "_meta": { "ui": { "csp": {
            "connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": [],
        } } },
    });
    to_raw_value(&json!({ "contents": [content] })).map_err(|error| internal(&error))
}

/// The document that a host gets. It brings the policy that pages have everywhere: a host may allow less, but not more.
fn document(app: &Value) -> String {
    SHELL.replacen("THE_POLICY", SHUT_IN, 1).replacen("THE_APP", &html::literal(app), 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_one_script_whatever_the_page_says() {
        let page = "</script><!-- <script> THE_APP THE_POLICY \u{2028}";
        let made = document(&json!({ "page": page, "scene": {} }));
        assert_eq!(made.matches("<script").count(), 1, "{made}");
        assert_eq!(made.matches("</script").count(), 1, "{made}");
        assert_eq!(made.matches("<!--").count(), 0, "{made}");
        assert!(made.contains(&format!("content=\"{SHUT_IN}\"")) && !SHUT_IN.contains('"'));
        assert!(made.contains("})(JSON.parse(\"") && made.contains("THE_APP THE_POLICY"), "{made}");
    }
}
