//! The keys that each part of a manifest may have. A test holds them against the JSON Schema.

use crate::yaml::Key;

pub(super) const TOP: &[Key] = &[
    Key::new("manifest_version"),
    Key::new("id"),
    Key::new("name"),
    Key::new("version"),
    Key::new("description"),
    Key::new("tools"),
    Key::new("tool_overrides"),
    Key::new("mcp_servers"),
    Key::new("containers"),
    Key::new("skills"),
    Key::new("python"),
    Key::new("permissions"),
];

pub(super) const TOOL: &[Key] = &[
    Key::new("id"),
    Key::new("entrypoint"),
    Key::new("name"),
    Key::new("description"),
    Key::new("input_schema"),
    Key::new("requires_confirmation"),
    Key::new("enabled"),
    Key::new("renderer"),
];

pub(super) const OVERRIDE: &[Key] = &[
    Key::or("tool_id", &["toolId"]),
    Key::new("renderer"),
    Key::or("renderer_config", &["rendererConfig"]),
    Key::or("name_override", &["nameOverride"]),
    Key::or("description_override", &["descriptionOverride"]),
    Key::or("requires_confirmation", &["requiresConfirmation"]),
    Key::new("enabled"),
];

pub(super) const SERVER: &[Key] = &[
    Key::new("id"),
    Key::or("type", &["server_type", "transport"]),
    Key::new("command"),
    Key::new("args"),
    Key::new("cwd"),
    Key::new("env"),
    Key::new("url"),
    Key::new("headers"),
    Key::new("enabled"),
    Key::new("requires_confirmation"),
    Key::new("description"),
];

pub(super) const CONTAINER: &[Key] = &[
    Key::new("id"),
    Key::new("image"),
    Key::new("build"),
    Key::new("command"),
    Key::new("env"),
    Key::new("permissions"),
    Key::new("limits"),
    Key::new("tools"),
    Key::new("enabled"),
];

pub(super) const CONTAINER_TOOL: &[Key] = &[
    Key::new("id"),
    Key::new("name"),
    Key::new("description"),
    Key::new("input_schema"),
    Key::new("output_schema"),
    Key::new("command"),
    Key::new("requires_confirmation"),
    Key::new("enabled"),
    Key::new("renderer"),
];

pub(super) const CONTAINER_PERMISSIONS: &[Key] = &[Key::new("network")];

pub(super) const LIMITS: &[Key] = &[Key::new("memory"), Key::new("cpus"), Key::new("pids"), Key::new("seconds")];

pub(super) const SKILL: &[Key] = &[Key::new("id"), Key::new("path"), Key::new("enabled")];

pub(super) const PYTHON: &[Key] = &[Key::new("version"), Key::new("dependencies")];

pub(super) const PERMISSIONS: &[Key] = &[Key::new("network"), Key::new("listen")];
