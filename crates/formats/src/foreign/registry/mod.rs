//! `server.json`, an entry of the MCP registry: packages that can be started and addresses that can be dialled. The old
//! spelling with underscores is read too.
//!
//! An entry often says several ways to the same server. All are taken and the first is used, so that its tools are not
//! there twice. Nothing is downloaded: a package that is a file is handed over with the hash that it must have.

mod input;
mod package;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::builder::{Builder, Draft, Secretive};
use super::lower::{Host, Scope};
use super::notes::{Notes, shown};
use super::{name, servers, toolset};
use crate::bundle::{Bundle, Refused};
use crate::import::{Download, Options};

/// A value under any of its spellings.
fn field<'v>(map: &'v Map<String, Value>, spellings: &[&str]) -> Option<&'v Value> {
    spellings.iter().find_map(|key| map.get(*key)).filter(|value| !value.is_null())
}

fn text<'v>(map: &'v Map<String, Value>, spellings: &[&str]) -> Option<&'v str> {
    field(map, spellings).and_then(Value::as_str)
}

/// The objects of a list.
fn objects<'v>(map: &'v Map<String, Value>, spellings: &[&str]) -> Vec<&'v Map<String, Value>> {
    field(map, spellings).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object).collect()
}

/// Reads an entry.
pub(crate) fn read(
    top: &Map<String, Value>,
    file: Option<&str>,
    options: Options,
) -> Result<(Bundle, Vec<Download>), Refused> {
    let mut notes = Notes::new(file);
    let full = text(top, &["name"]).unwrap_or_default();
    if full.is_empty() {
        notes.problem("name must be a text and not empty");
    }
    let short = full.rsplit('/').next().unwrap_or(full);
    if let Some(status) = text(top, &["status"]).filter(|status| *status != "active") {
        notes.warn(format!("its status in the registry is \"{}\"", shown(status)));
    }
    for key in ["packages", "remotes"] {
        let is_list = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_object));
        if top.get(key).is_some_and(|value| !value.is_null() && !is_list(value)) {
            notes.problem(format!("{key} must be a list of objects"));
        }
    }
    let mut downloads = Vec::new();
    let mut builder = Builder::new(&mut notes, options);
    for (index, entry) in objects(top, &["packages"]).into_iter().enumerate() {
        let draft = draft(&builder, format!("packages[{index}]"), short, text(entry, package::TYPE));
        downloads.extend(package::read(&mut builder, draft, entry));
    }
    for (index, entry) in objects(top, &["remotes"]).into_iter().enumerate() {
        let draft = draft(&builder, format!("remotes[{index}]"), short, Some("remote"));
        remote(&mut builder, draft, entry);
    }
    let servers = builder.servers;
    if servers.len() > 1 {
        notes.warn(format!(
            "it says {} ways to reach one server; {} is used, the others are there and disabled",
            servers.len(),
            servers[0].id
        ));
    }
    if servers.is_empty() && downloads.is_empty() && notes.problems.is_empty() {
        notes.problem("it has no package and no remote that can be used here");
    }
    let detail = top.get("version_detail").and_then(|detail| detail.get("version")).and_then(Value::as_str);
    let stem = file.map(name::stem).unwrap_or_default();
    let display = text(top, &["title"]).unwrap_or(short);
    let mut made = toolset::Made::new([short, full, stem], text(top, &["version"]).or(detail), display, &mut notes);
    made.describe(text(top, &["description"]), &mut notes);
    made.definition.servers = servers;
    made.finish(Vec::new(), Vec::new(), notes).map(|bundle| (bundle, downloads))
}

/// A server of the entry. All but the first are disabled, and named after what they are.
fn draft(builder: &Builder<'_>, place: String, short: &str, kind: Option<&str>) -> Draft {
    let first = builder.servers.is_empty();
    let slug = name::toolset_id([short]);
    let name = if first { slug.to_string() } else { format!("{slug}-{}", kind.unwrap_or("package")) };
    Draft { enabled: first, ..Draft::new(place, &name) }
}

/// An address to dial.
fn remote(builder: &mut Builder<'_>, mut draft: Draft, entry: &Map<String, Value>) {
    let before = builder.notes.problems.len();
    let place = draft.place.clone();
    let variables = input::variables(entry);
    let scope = Scope { host: Host::Registry, declared: &variables };
    match text(entry, &["type", "transport_type"]) {
        Some(kind) => draft.launch.server_type = servers::server_type(builder, &format!("{place}.type"), kind),
        None => builder.notes.problem(format!("{place}.type must be streamable-http or sse")),
    }
    match text(entry, &["url"]) {
        Some(url) => draft.launch.url = builder.text(&format!("{place}.url"), url, &scope),
        None => builder.notes.problem(format!("{place}.url must be a text")),
    }
    input::values(builder, &mut draft, Secretive::Headers, &objects(entry, &["headers"]), &variables);
    if builder.notes.problems.len() == before {
        builder.finish(draft);
    }
}

/// What the parts in curly braces of a value can be.
type Variables = BTreeMap<String, super::lower::Declared>;
