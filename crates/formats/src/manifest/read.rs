//! Reading a manifest.

use std::collections::{BTreeMap, HashMap};

use kitbag_model::launch::LaunchField;
use kitbag_model::{
    Definition, LaunchError, McpServer, Permissions, PythonNeeds, PythonTool, RawLaunch, SkillRef, ToolsetId,
};

use super::{Read, Reference, keys, overrides};
use crate::yaml::{Entry, Fields, LARGEST, Node, Place, Problem, Problems, Reader, Scalar, TOP, Value, parse};

/// Reads a manifest, or tells everything that is wrong with it.
pub fn read(bytes: &[u8]) -> Result<Read, Problems> {
    let text = match text_of(bytes, "the manifest") {
        Ok(text) => text,
        Err(problem) => return Err(Problems(vec![problem])),
    };
    let mut reader = Reader::new(text);
    let read =
        parse(text, &mut reader).and_then(|root| Manifest { reader: &mut reader, references: Vec::new() }.top(&root));
    if read.is_none() && !reader.has_problems() {
        reader.problem(START, "the manifest is empty; it needs at least id, name and version");
    }
    let warnings = reader.finish()?;
    let (definition, references) = read.ok_or_else(|| Problems(Vec::new()))?;
    Ok(Read { definition, warnings, references })
}

const START: Place = Place { line: 1, column: 1 };

/// The text of a file that must be UTF-8. A byte order mark in front is left out.
pub(crate) fn text_of<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Problem> {
    let refuse = |place, message: String| Err(Problem::bare(place, message));
    if bytes.len() > LARGEST {
        return refuse(START, format!("{what} has {} bytes; at most {LARGEST} are allowed", bytes.len()));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
            let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
            refuse(Place { line, column }, format!("{what} is not UTF-8 text"))
        }
    }
}

/// What has been read so far of one manifest.
pub(super) struct Manifest<'r, 's> {
    pub reader: &'r mut Reader<'s>,
    pub references: Vec<Reference>,
}

/// Where each id was first seen, so that a second one can name it.
#[derive(Default)]
pub(super) struct Seen(HashMap<String, usize>);

impl Seen {
    /// Tells about an id that is there already.
    pub(super) fn first(&mut self, reader: &mut Reader<'_>, id: &str, at: Place, what: &str) -> bool {
        match self.0.get(id) {
            Some(line) => {
                reader.problem(at, format!("{what} is there twice; the first one is in line {line}"));
                false
            }
            None => {
                self.0.insert(id.to_owned(), at.line);
                true
            }
        }
    }
}

impl Manifest<'_, '_> {
    fn top(mut self, root: &Node) -> Option<(Definition, Vec<Reference>)> {
        if matches!(&root.value, Value::Scalar { text, plain } if Scalar::of(text, *plain) == Scalar::Null) {
            return None;
        }
        let top = self.reader.fields(root, TOP, keys::TOP)?;
        self.manifest_version(&top);
        let id = self.required(&top, "id");
        let name = self.required(&top, "name");
        let version = self.required(&top, "version");
        let description = self.reader.parsed_of(&top, "description");
        // The rest is read even where the id is missing, so that its problems are told too.
        let scope = id.clone().unwrap_or_else(placeholder_id);
        let mut seen = Seen::default();
        let (tools, mut legacy) = self.tools(&top, &scope, &mut seen);
        let containers = self.containers(&top, &scope, &mut seen, &mut legacy);
        let servers = self.servers(&top);
        let skills = self.skills(&top);
        let overrides = overrides::read(
            &mut self,
            &top,
            &scope,
            legacy,
            &overrides::Known { tools: &tools, servers: &servers, containers: &containers },
        );
        let python = self.python(&top);
        let permissions = self.permissions(&top);
        let definition = Definition {
            id: id?,
            name: name?,
            version: version?,
            description,
            tools,
            overrides,
            servers,
            containers,
            skills,
            python,
            permissions,
        };
        Some((definition, self.references))
    }

    fn manifest_version(&mut self, top: &Fields<'_>) {
        let Some(node) = top.get("manifest_version") else { return };
        match &node.value {
            Value::Scalar { text, .. } if text == "1" => {}
            Value::Scalar { text, .. } => {
                let text: String = text.chars().take(40).collect();
                self.reader.problem(node.at, format!("Unsupported manifest version: {text} (this Kitbag reads \"1\")"));
            }
            _ => self.reader.problem(node.at, "Unsupported manifest version (this Kitbag reads \"1\")"),
        }
    }

    pub(super) fn required<T: std::str::FromStr<Err: std::fmt::Display>>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
    ) -> Option<T> {
        let node = self.reader.required(fields, name)?;
        self.reader.parsed(node, &fields.path(name))
    }

    /// The tools, and the renderers that they bring in the old way.
    fn tools<'n>(
        &mut self,
        top: &Fields<'n>,
        scope: &ToolsetId,
        seen: &mut Seen,
    ) -> (Vec<PythonTool>, Vec<overrides::Legacy>) {
        let (mut tools, mut legacy) = (Vec::new(), Vec::new());
        for (node, what) in self.reader.items(top, "tools") {
            let Some(fields) = self.reader.fields(node, &what, keys::TOOL) else { continue };
            let id: Option<kitbag_model::LocalToolId> = self.required(&fields, "id");
            if let (Some(id), Some(node)) = (&id, fields.get("id")) {
                seen.first(self.reader, &id.folded(), node.at, &format!("the tool id \"{id}\""));
            }
            let entrypoint: Option<kitbag_model::Entrypoint> = self.required(&fields, "entrypoint");
            if let (Some(entrypoint), Some(node)) = (&entrypoint, fields.get("entrypoint")) {
                let what = fields.path("entrypoint");
                self.references.push(Reference { what, any_of: entrypoint.files(), line: node.at.line });
            }
            let rendering = overrides::legacy(self, &fields);
            let name = self.reader.parsed_of(&fields, "name");
            let description = self.reader.parsed_of(&fields, "description");
            let input_schema = self.schema(&fields, "input_schema");
            let requires_confirmation = self.reader.bool_of(&fields, "requires_confirmation");
            let enabled = self.reader.bool_of(&fields, "enabled").unwrap_or(true);
            if let (Some(id), Some((rendering, at))) = (&id, rendering) {
                legacy.push(overrides::Legacy::new(scope, id, rendering, at));
            }
            if let (Some(id), Some(entrypoint)) = (id, entrypoint) {
                tools.push(PythonTool {
                    id,
                    entrypoint,
                    name,
                    description,
                    input_schema,
                    requires_confirmation,
                    enabled,
                });
            }
        }
        (tools, legacy)
    }

    pub(super) fn schema(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
    ) -> Option<serde_json::Map<String, serde_json::Value>> {
        let (node, what) = (fields.get(name)?, fields.path(name));
        let schema = self.reader.json_map(node, &what)?;
        if schema.get("type").is_some_and(|kind| kind != "object") {
            self.reader.problem(node.at, format!("{what} must be the schema of an object: type: object"));
        }
        Some(schema)
    }

    fn servers(&mut self, top: &Fields<'_>) -> Vec<McpServer> {
        let (mut servers, mut seen) = (Vec::new(), Seen::default());
        for (node, what) in self.reader.items(top, "mcp_servers") {
            let Some(fields) = self.reader.fields(node, &what, keys::SERVER) else { continue };
            let id: Option<kitbag_model::ServerId> = self.required(&fields, "id");
            if let (Some(id), Some(node)) = (&id, fields.get("id")) {
                seen.first(self.reader, id.as_str(), node.at, &format!("the server id \"{id}\""));
            }
            let launch = self.launch(&fields);
            let enabled = self.reader.bool_of(&fields, "enabled").unwrap_or(true);
            let requires_confirmation = self.reader.bool_of(&fields, "requires_confirmation");
            let description = self.reader.parsed_of(&fields, "description");
            if let (Some(id), Some(launch)) = (id, launch) {
                servers.push(McpServer { id, launch, enabled, requires_confirmation, description });
            }
        }
        servers
    }

    fn launch(&mut self, fields: &Fields<'_>) -> Option<kitbag_model::Launch> {
        // A field of the wrong type is told about already; a second message that it is missing would only confuse.
        let before = self.reader.problem_count();
        let text = |manifest: &mut Self, name: &str| manifest.reader.text_of(fields, name).map(ToOwned::to_owned);
        let raw = RawLaunch {
            server_type: text(self, "type"),
            command: text(self, "command"),
            args: self.args(fields),
            cwd: text(self, "cwd"),
            env: self.map(fields, "env"),
            url: text(self, "url"),
            headers: self.map(fields, "headers"),
        };
        let wrong_types = self.reader.problem_count() > before;
        match raw.check() {
            Ok(launch) => Some(launch),
            Err(_) if wrong_types => None,
            Err(errors) => {
                for error in errors {
                    self.launch_problem(fields, &error);
                }
                None
            }
        }
    }

    fn args(&mut self, fields: &Fields<'_>) -> Vec<String> {
        let items = self.reader.items(fields, "args");
        items
            .into_iter()
            .filter_map(|(node, what)| self.reader.secret_text(node, &what).map(ToOwned::to_owned))
            .collect()
    }

    pub(super) fn map(&mut self, fields: &Fields<'_>, name: &str) -> BTreeMap<String, String> {
        self.reader.texts(fields, name).into_iter().map(|(entry, text)| (entry.key.clone(), text)).collect()
    }

    /// Tells what is wrong with a launch where it is. The lines of values are not repeated: they may hold secrets.
    pub(super) fn launch_problem(&mut self, fields: &Fields<'_>, error: &LaunchError) {
        let message = match error.field {
            LaunchField::Server => format!("{} {}", fields.what, error.reason),
            LaunchField::Type => format!("{}: {}", fields.path("type"), error.reason),
            _ => format!("{}.{error}", fields.what),
        };
        let item = |name: &str, index: usize| match fields.get(name).map(|node| &node.value) {
            Some(Value::List(items)) => items.get(index).map(|item| item.at),
            _ => None,
        };
        let entry = |name: &str, key: &str| match fields.get(name).map(|node| &node.value) {
            Some(Value::Map(entries)) => entries.iter().find(|entry| entry.key == key).map(|entry: &Entry| entry.at),
            _ => None,
        };
        let place = match &error.field {
            LaunchField::Server => None,
            LaunchField::Type => fields.entry("type").map(|entry| entry.at),
            LaunchField::Args(Some(index)) => item("args", *index),
            LaunchField::Env(Some(key)) => entry("env", key),
            LaunchField::Headers(Some(key)) => entry("headers", key),
            other => fields.entry(&other.to_string()).map(|entry| entry.at),
        };
        let at = place.unwrap_or(fields.at);
        match error.field {
            _ if error.reason.is_of_placeholders() => self.reader.placeholder_problem(at, message),
            LaunchField::Args(Some(_))
            | LaunchField::Env(Some(_))
            | LaunchField::Headers(Some(_))
            | LaunchField::Url => {
                self.reader.secret_problem(at, message);
            }
            _ => self.reader.problem(at, message),
        }
    }

    fn skills(&mut self, top: &Fields<'_>) -> Vec<SkillRef> {
        let (mut skills, mut seen) = (Vec::new(), Seen::default());
        for (node, what) in self.reader.items(top, "skills") {
            let Some(fields) = self.reader.fields(node, &what, keys::SKILL) else { continue };
            let id: Option<kitbag_model::SkillId> = self.required(&fields, "id");
            let path = match fields.get("path") {
                Some(node) => self.folder(node, &fields.path("path")),
                None => id.as_ref().map(SkillRef::default_path),
            };
            let enabled = self.reader.bool_of(&fields, "enabled").unwrap_or(true);
            let (Some(id), Some(path)) = (id, path) else { continue };
            let at = fields.get("id").map_or(fields.at, |node| node.at);
            if seen.first(self.reader, id.as_str(), at, &format!("the skill id \"{id}\"")) {
                let any_of = kitbag_model::WorkPath::below(path.as_str(), "SKILL.md").into_iter().collect();
                self.references.push(Reference { what, any_of, line: at.line });
            }
            skills.push(SkillRef { id, path, enabled });
        }
        skills
    }

    /// A folder of the toolset. `./` in front and `/` behind are how people write folders.
    pub(super) fn folder(&mut self, node: &Node, what: &str) -> Option<kitbag_model::WorkPath> {
        let text = self.reader.text(node, what)?;
        let plain = text.strip_prefix("./").unwrap_or(text);
        match plain.strip_suffix('/').unwrap_or(plain).parse() {
            Ok(path) => Some(path),
            Err(error) => {
                self.reader.problem(node.at, format!("{what} must be a folder inside the toolset: {error}"));
                None
            }
        }
    }

    fn python(&mut self, top: &Fields<'_>) -> PythonNeeds {
        let Some(node) = top.get("python") else { return PythonNeeds::default() };
        let Some(fields) = self.reader.fields(node, "python", keys::PYTHON) else { return PythonNeeds::default() };
        let version = self.reader.parsed_of(&fields, "version");
        let items = self.reader.items(&fields, "dependencies");
        if items.len() > PythonNeeds::MOST {
            self.reader.problem(node.at, format!("python.dependencies must have at most {} items", PythonNeeds::MOST));
        }
        let dependencies = items.into_iter().filter_map(|(node, what)| self.reader.parsed(node, &what)).collect();
        PythonNeeds { version, dependencies }
    }

    fn permissions(&mut self, top: &Fields<'_>) -> Permissions {
        let Some(node) = top.get("permissions") else { return Permissions::default() };
        let Some(fields) = self.reader.fields(node, "permissions", keys::PERMISSIONS) else {
            return Permissions::default();
        };
        let mut permission = |name: &str| self.reader.bool_of(&fields, name).unwrap_or(false);
        Permissions { network: permission("network"), listen: permission("listen") }
    }
}

/// Stands for an id that could not be read, while the rest is.
fn placeholder_id() -> ToolsetId {
    "unreadable".parse().expect("a plain word is an id")
}
