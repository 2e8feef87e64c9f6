//! Reading the containers of a manifest.

use std::ops::RangeInclusive;

use kitbag_model::container::{MOST_TOOLS, MOST_WORDS};
use kitbag_model::{
    Container, ContainerLimits, ContainerTool, ImageSource, LocalToolId, ServerId, ToolsetId, WorkPath,
};
use serde_json::Value as Json;

use super::read::{Manifest, Seen};
use super::{Reference, keys, overrides};
use crate::yaml::{Fields, Node};

/// What a folder that an image is built from has, in the order in which it is looked for.
pub(crate) const RECIPES: [&str; 2] = ["Containerfile", "Dockerfile"];

impl Manifest<'_, '_> {
    /// The containers. Ids of their tools are looked for among those of the toolset, since they are the same namespace.
    pub(super) fn containers(
        &mut self,
        top: &Fields<'_>,
        scope: &ToolsetId,
        tools: &mut Seen,
        legacy: &mut Vec<overrides::Legacy>,
    ) -> Vec<Container> {
        let (mut containers, mut seen) = (Vec::new(), Seen::default());
        for (node, what) in self.reader.items(top, "containers") {
            let Some(fields) = self.reader.fields(node, &what, keys::CONTAINER) else { continue };
            let id: Option<ServerId> = self.required(&fields, "id");
            if let (Some(id), Some(node)) = (&id, fields.get("id")) {
                seen.first(self.reader, id.as_str(), node.at, &format!("the container id \"{id}\""));
            }
            let source = self.source(&fields);
            let command = self.command(&fields);
            let env = match Container::check_env(self.map(&fields, "env")) {
                Ok(env) => env,
                Err(errors) => {
                    errors.iter().for_each(|error| self.launch_problem(&fields, error));
                    continue;
                }
            };
            let network = self.network(&fields);
            let limits = self.limits(&fields);
            let tools = self.tools_of_container(&fields, scope, tools, legacy);
            let enabled = self.reader.bool_of(&fields, "enabled").unwrap_or(true);
            if let (Some(id), Some(source)) = (id, source) {
                containers.push(Container { id, source, command, env, network, limits, tools, enabled });
            }
        }
        containers
    }

    fn source(&mut self, fields: &Fields<'_>) -> Option<ImageSource> {
        match (fields.get("image"), fields.get("build")) {
            (Some(node), None) => self.reader.parsed(node, &fields.path("image")).map(ImageSource::Image),
            (None, Some(node)) => {
                let folder = self.folder(node, &fields.path("build"))?;
                let any_of = RECIPES.iter().filter_map(|name| WorkPath::below(folder.as_str(), name).ok()).collect();
                self.references.push(Reference { what: fields.path("build"), any_of, line: node.at.line });
                Some(ImageSource::Build(folder))
            }
            (image, _) => {
                let but = if image.is_some() { "not both" } else { "it has neither" };
                self.reader.problem(fields.at, format!("{} needs image or build; {but}", fields.what));
                None
            }
        }
    }

    fn command(&mut self, fields: &Fields<'_>) -> Vec<String> {
        let items = self.reader.items(fields, "command");
        if items.len() > MOST_WORDS {
            self.reader.problem(fields.at, format!("{} must have at most {MOST_WORDS} words", fields.path("command")));
        }
        let mut words = Vec::with_capacity(items.len());
        for (node, what) in items {
            let Some(word) = self.reader.secret_text(node, &what) else { continue };
            if word.contains('\0') {
                self.reader.secret_problem(node.at, format!("{what} must not have a NUL"));
            }
            words.push(word.to_owned());
        }
        words
    }

    fn network(&mut self, container: &Fields<'_>) -> bool {
        let Some(node) = container.get("permissions") else { return false };
        let what = container.path("permissions");
        let Some(fields) = self.reader.fields(node, &what, keys::CONTAINER_PERMISSIONS) else { return false };
        self.reader.bool_of(&fields, "network").unwrap_or(false)
    }

    fn limits(&mut self, container: &Fields<'_>) -> ContainerLimits {
        let Some(node) = container.get("limits") else { return ContainerLimits::default() };
        let Some(fields) = self.reader.fields(node, &container.path("limits"), keys::LIMITS) else {
            return ContainerLimits::default();
        };
        let whole = |value: &Json| value.as_u64();
        let thousandths = |value: &Json| {
            let cpus = value.as_f64().filter(|cpus| (0.0..=1e6).contains(cpus))?;
            // The range is checked after; what is in it is exact enough.
            Some((cpus * 1000.0).round() as u64)
        };
        ContainerLimits {
            memory: self.limit(
                &fields,
                "memory",
                bytes,
                ContainerLimits::MEMORY,
                "bytes, or a text such as 256m or 2g",
            ),
            milli_cpus: self.limit(
                &fields,
                "cpus",
                thousandths,
                ContainerLimits::MILLI_CPUS,
                "a number from 0.01 to 1024",
            ),
            pids: self.limit(&fields, "pids", whole, ContainerLimits::PIDS, "a whole number from 1 to 65536"),
            seconds: self.limit(&fields, "seconds", whole, ContainerLimits::SECONDS, "a whole number from 1 to 86400"),
        }
    }

    fn limit(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: impl Fn(&Json) -> Option<u64>,
        range: RangeInclusive<u64>,
        wanted: &str,
    ) -> Option<u64> {
        let (node, what): (&Node, String) = (fields.get(name)?, fields.path(name));
        let value = self.reader.json(node, &what)?;
        let found = read(&value).filter(|value| range.contains(value));
        if found.is_none() {
            let least = if name == "memory" { ", and no less than 6m" } else { "" };
            self.reader.problem(node.at, format!("{what} must be {wanted}{least}"));
        }
        found
    }

    fn tools_of_container(
        &mut self,
        container: &Fields<'_>,
        scope: &ToolsetId,
        seen: &mut Seen,
        legacy: &mut Vec<overrides::Legacy>,
    ) -> Vec<ContainerTool> {
        let mut tools = Vec::new();
        let items = self.reader.items(container, "tools");
        if items.len() > MOST_TOOLS {
            self.reader
                .problem(container.at, format!("{} must have at most {MOST_TOOLS} items", container.path("tools")));
        }
        for (node, what) in items {
            let Some(fields) = self.reader.fields(node, &what, keys::CONTAINER_TOOL) else { continue };
            let id: Option<LocalToolId> = self.required(&fields, "id");
            if let (Some(id), Some(node)) = (&id, fields.get("id")) {
                seen.first(self.reader, &id.folded(), node.at, &format!("the tool id \"{id}\""));
            }
            let rendering = overrides::legacy(self, &fields);
            if let (Some(id), Some((rendering, at))) = (&id, rendering) {
                legacy.push(overrides::Legacy::new(scope, id, rendering, at));
            }
            let name = self.reader.parsed_of(&fields, "name");
            let description = self.reader.parsed_of(&fields, "description");
            let _ = self.reader.required(&fields, "input_schema");
            let input_schema = self.schema(&fields, "input_schema");
            let output_schema = self.schema(&fields, "output_schema");
            let command = self.command(&fields);
            let requires_confirmation = self.reader.bool_of(&fields, "requires_confirmation");
            let enabled = self.reader.bool_of(&fields, "enabled").unwrap_or(true);
            if let (Some(id), Some(input_schema)) = (id, input_schema) {
                tools.push(ContainerTool {
                    rendering: None,
                    id,
                    name,
                    description,
                    input_schema,
                    output_schema,
                    command,
                    mcp_name: None,
                    requires_confirmation,
                    enabled,
                });
            }
        }
        tools
    }
}

/// Bytes: a number, or a text with a letter behind it.
fn bytes(value: &Json) -> Option<u64> {
    if let Some(bytes) = value.as_u64() {
        return Some(bytes);
    }
    let text = value.as_str()?;
    let unit = match text.bytes().last()?.to_ascii_lowercase() {
        b'k' => 1 << 10,
        b'm' => 1 << 20,
        b'g' => 1 << 30,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}
