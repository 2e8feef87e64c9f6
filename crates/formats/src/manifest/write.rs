//! Writing a manifest: one text for one definition.

use kitbag_model::{
    Container, ContainerLimits, ContainerTool, Definition, ImageSource, Launch, McpServer, Override, OverrideKey,
    PythonTool, SkillRef, Template,
};

use super::document::{self, Document, Permissions, Python, Server, Skill, Tool, ToolOverride};
use crate::yaml::emit;

/// The manifest of a definition. Reading it gives the same definition.
pub fn write(definition: &Definition) -> String {
    let document = Document {
        manifest_version: Some("1".to_owned()),
        id: definition.id.to_string(),
        name: definition.name.to_string(),
        version: definition.version.to_string(),
        description: definition.description.as_ref().map(ToString::to_string),
        tools: definition.tools.iter().map(tool).collect(),
        tool_overrides: definition.overrides.iter().map(tool_override).collect(),
        mcp_servers: definition.servers.iter().map(server).collect(),
        containers: definition.containers.iter().map(container).collect(),
        skills: definition.skills.iter().map(skill).collect(),
        python: python(definition),
        permissions: permissions(definition),
    };
    let value = serde_json::to_value(document).expect("texts, booleans and JSON values always become JSON");
    emit(&value)
}

/// What is true unless somebody says otherwise is not written.
fn unless_true(enabled: bool) -> Option<bool> {
    if enabled { None } else { Some(false) }
}

fn tool(tool: &PythonTool) -> Tool {
    Tool {
        id: tool.id.to_string(),
        entrypoint: tool.entrypoint.to_string(),
        name: tool.name.as_ref().map(ToString::to_string),
        description: tool.description.as_ref().map(ToString::to_string),
        input_schema: tool.input_schema.clone(),
        requires_confirmation: tool.requires_confirmation,
        enabled: unless_true(tool.enabled),
        renderer: None,
    }
}

fn tool_override((key, value): &(OverrideKey, Override)) -> ToolOverride {
    let rendering = value.rendering.as_ref();
    ToolOverride {
        tool_id: key.to_string(),
        renderer: rendering.map(|rendering| rendering.renderer().to_string()),
        renderer_config: rendering.map(|rendering| rendering.config().clone()).filter(|config| !config.is_empty()),
        name_override: value.name.clone(),
        description_override: value.description.clone(),
        requires_confirmation: value.requires_confirmation,
        enabled: value.enabled,
    }
}

fn server(server: &McpServer) -> Server {
    let text = |template: &Template| template.to_string();
    let mut written = Server {
        id: server.id.to_string(),
        r#type: Some(server.launch.server_type().to_string()),
        enabled: unless_true(server.enabled),
        requires_confirmation: server.requires_confirmation,
        description: server.description.as_ref().map(ToString::to_string),
        ..Server::default()
    };
    match &server.launch {
        Launch::Stdio { command, args, cwd, env } => {
            written.command = Some(command.clone());
            written.args = args.iter().map(text).collect();
            written.cwd = cwd.as_ref().map(text);
            written.env = env.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        }
        Launch::Remote { url, headers, .. } => {
            written.url = Some(text(url));
            written.headers = headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        }
    }
    written
}

fn container(container: &Container) -> document::Container {
    let mut written = document::Container {
        id: container.id.to_string(),
        command: container.command.clone(),
        env: container.env.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        permissions: container.network.then_some(document::ContainerPermissions { network: Some(true) }),
        limits: limits(&container.limits),
        tools: container.tools.iter().map(container_tool).collect(),
        enabled: unless_true(container.enabled),
        ..document::Container::default()
    };
    match &container.source {
        ImageSource::Image(name) => written.image = Some(name.to_string()),
        ImageSource::Build(folder) => written.build = Some(folder.to_string()),
    }
    written
}

fn limits(limits: &ContainerLimits) -> Option<document::Limits> {
    (*limits != ContainerLimits::default()).then(|| document::Limits {
        memory: limits.memory.map(memory),
        cpus: limits.milli_cpus.map(|thousandths| match thousandths % 1000 {
            0 => (thousandths / 1000).into(),
            _ => (thousandths as f64 / 1000.0).into(),
        }),
        pids: limits.pids,
        seconds: limits.seconds,
    })
}

/// As people write it, where it is a round number.
fn memory(bytes: u64) -> serde_json::Value {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("{}g", bytes >> 30).into(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20).into(),
        _ => bytes.into(),
    }
}

fn container_tool(tool: &ContainerTool) -> document::ContainerTool {
    document::ContainerTool {
        id: tool.id.to_string(),
        name: tool.name.as_ref().map(ToString::to_string),
        description: tool.description.as_ref().map(ToString::to_string),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
        command: tool.command.clone(),
        requires_confirmation: tool.requires_confirmation,
        enabled: unless_true(tool.enabled),
        renderer: None,
    }
}

fn skill(skill: &SkillRef) -> Skill {
    let path = (skill.path != SkillRef::default_path(&skill.id)).then(|| skill.path.to_string());
    Skill { id: skill.id.to_string(), path, enabled: unless_true(skill.enabled) }
}

fn python(definition: &Definition) -> Option<Python> {
    let needs = &definition.python;
    let dependencies: Vec<String> = needs.dependencies.iter().map(ToString::to_string).collect();
    let version = needs.version.as_ref().map(ToString::to_string);
    (version.is_some() || !dependencies.is_empty()).then_some(Python { version, dependencies })
}

fn permissions(definition: &Definition) -> Option<Permissions> {
    let said = definition.permissions;
    let granted = |granted: bool| granted.then_some(true);
    (said.network || said.listen).then(|| Permissions { network: granted(said.network), listen: granted(said.listen) })
}
