//! The renderers: which there are, what each takes, and which one fits a tool by its name alone.
//!
//! They are a table. What a renderer looks like is known to the page, and how expressions in a configuration
//! (`$args.path`) get their values to whoever makes the plan.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::text_serde;
use crate::path::{PathError, WorkPath};

/// What a key of a configuration holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyType {
    /// A text, which may have expressions.
    Text,
    /// A path below the toolset's folder; a text, which may have expressions.
    Path,
    /// True or false.
    Bool,
    /// A number, or a text that has an expression or digits.
    Port,
    /// Anything.
    Any,
}

/// One row of the table.
#[derive(Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// Other names that mean it.
    pub aliases: &'static [&'static str],
    /// What its configuration may have.
    pub keys: &'static [(&'static str, KeyType)],
    /// The names of tools whose results it shows when nothing else is said; compared without case.
    pub tool_names: &'static [&'static str],
}

const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    keys: &'static [(&'static str, KeyType)],
    tool_names: &'static [&'static str],
) -> Spec {
    Spec { name, aliases, keys, tool_names }
}

/// All of them. Where two would fit a tool's name, the first does.
pub static RENDERERS: [Spec; 14] = [
    row("default", &[], &[], &[]),
    row(
        "code",
        &[],
        &[
            ("file", KeyType::Text),
            ("content", KeyType::Text),
            ("language", KeyType::Text),
            ("editable", KeyType::Bool),
        ],
        &[],
    ),
    row(
        "document",
        &["markdown"],
        &[("file", KeyType::Text), ("content", KeyType::Text), ("editable", KeyType::Bool)],
        &[],
    ),
    row("html", &[], &[("content", KeyType::Text), ("artifact", KeyType::Path), ("data", KeyType::Any)], &[]),
    row("frame", &[], &[("url", KeyType::Text), ("port", KeyType::Port)], &[]),
    row("editor", &[], &[("path", KeyType::Text), ("editable", KeyType::Bool)], &[]),
    row("terminal", &[], &[], &["bash", "execute", "shell", "run_command", "exec"]),
    row("file-diff", &[], &[], &["edit", "edit_file", "str_replace", "replace_in_file", "update_file", "write_file"]),
    row("patch-diff", &[], &[], &["apply_patch", "applypatch", "patch"]),
    row("web-search", &[], &[], &["websearch", "web_search", "search_web", "google_search", "search"]),
    row("todo-list", &[], &[], &["todowrite", "todo_write", "update_todos", "todo_list"]),
    row("task", &[], &[], &["task"]),
    row("file-read", &[], &[], &["read", "read_file", "view", "view_file", "cat"]),
    row("key-value", &[], &[], &[]),
];

/// Why a renderer or its configuration was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RendererError {
    /// No renderer has this name.
    #[error("renderer '{name}' is unsupported (allowed: {allowed})", allowed = names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// A configuration for no renderer.
    #[error("renderer_config requires renderer")]
    ConfigAlone,
    /// A configuration that is a list, a text…
    #[error("renderer_config must be an object")]
    NotAnObject,
    /// A key that this renderer does not have.
    #[error("renderer_config has unknown key(s) for renderer '{renderer}': {keys} (allowed: {allowed})",
        keys = keys.join(", "), allowed = keys_of(*renderer))]
    UnknownKeys {
        /// The renderer.
        renderer: Renderer,
        /// The keys.
        keys: Vec<String>,
    },
    /// A value of another type than the key has.
    #[error("renderer_config.{key} must be {wanted}")]
    Type {
        /// The key.
        key: &'static str,
        /// What it must be.
        wanted: &'static str,
    },
    /// A path that could lead out of the toolset's folder.
    #[error("renderer_config.{key} must be a path inside the toolset: {reason}")]
    Path {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        reason: PathError,
    },
}

/// A renderer that there is, under its own name.
#[derive(Clone, Copy)]
pub struct Renderer(&'static Spec);

impl Renderer {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Its row in the table.
    pub fn spec(self) -> &'static Spec {
        self.0
    }

    /// The one for a tool that says nothing itself.
    pub fn by_tool_name(tool: &str) -> Option<Self> {
        let fits = |spec: &&Spec| spec.tool_names.iter().any(|name| name.eq_ignore_ascii_case(tool));
        RENDERERS.iter().find(fits).map(Self)
    }
}

impl FromStr for Renderer {
    type Err = RendererError;

    fn from_str(text: &str) -> Result<Self, RendererError> {
        RENDERERS
            .iter()
            .find(|spec| spec.name == text || spec.aliases.contains(&text))
            .map(Self)
            .ok_or_else(|| RendererError::Unknown { name: text.to_owned() })
    }
}

impl fmt::Display for Renderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Renderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Renderer {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Renderer {}

text_serde!(Renderer);

/// A renderer with a configuration that it takes. The two are one value: a configuration means nothing to another
/// renderer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Said", into = "Said")]
pub struct Rendering {
    renderer: Renderer,
    config: Map<String, Value>,
}

/// A renderer and a configuration as they are written down, which nobody has checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    renderer: String,
    #[serde(default)]
    config: Map<String, Value>,
}

impl From<Rendering> for Said {
    fn from(one: Rendering) -> Self {
        Self { renderer: one.renderer.to_string(), config: one.config }
    }
}

impl TryFrom<Said> for Rendering {
    type Error = RendererError;

    fn try_from(said: Said) -> Result<Self, RendererError> {
        check(Some(&said.renderer), Some(&Value::Object(said.config)))?.ok_or(RendererError::ConfigAlone)
    }
}

impl Rendering {
    /// The renderer.
    pub fn renderer(&self) -> Renderer {
        self.renderer
    }

    /// Its configuration, with the expressions as they were written.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// The one for a tool of which nobody says anything.
    pub fn by_tool_name(tool: &str) -> Option<Self> {
        Renderer::by_tool_name(tool).map(|renderer| Self { renderer, config: Map::new() })
    }

    /// The files of the toolset that the configuration names. A path with an expression is known only after the call.
    pub fn files(&self) -> Vec<WorkPath> {
        self.paths().filter_map(|text| toolset_path(text)?.ok()).collect()
    }

    /// Whether only a call says which file of the toolset is shown.
    pub fn shows_any_file(&self) -> bool {
        self.paths().any(|text| toolset_path(text).is_none())
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        let keys = self.renderer.0.keys.iter().filter(|(_, key_type)| *key_type == KeyType::Path);
        keys.filter_map(|(key, _)| self.config.get(*key)?.as_str())
    }
}

/// Checks a renderer and a configuration that were given apart, either of which may be missing.
pub fn check(renderer: Option<&str>, config: Option<&Value>) -> Result<Option<Rendering>, RendererError> {
    let config = config.filter(|config| !config.is_null());
    let Some(name) = renderer else {
        return if config.is_some() { Err(RendererError::ConfigAlone) } else { Ok(None) };
    };
    let renderer: Renderer = name.parse()?;
    let config = match config {
        None => Map::new(),
        Some(Value::Object(config)) => config.clone(),
        Some(_) => return Err(RendererError::NotAnObject),
    };
    let known = renderer.0.keys;
    let unknown: Vec<String> = config.keys().filter(|key| known.iter().all(|(name, _)| name != key)).cloned().collect();
    if !unknown.is_empty() {
        return Err(RendererError::UnknownKeys { renderer, keys: unknown });
    }
    for (key, key_type) in known {
        if let Some(value) = config.get(*key).filter(|value| !value.is_null()) {
            check_value(key, *key_type, value)?;
        }
    }
    Ok(Some(Rendering { renderer, config }))
}

fn check_value(key: &'static str, key_type: KeyType, value: &Value) -> Result<(), RendererError> {
    let (good, wanted) = match key_type {
        KeyType::Text | KeyType::Path => (value.is_string(), "a string"),
        KeyType::Bool => (value.is_boolean(), "a boolean"),
        KeyType::Port => (value.is_number() || value.is_string(), "a number or string"),
        KeyType::Any => (true, "anything"),
    };
    if !good {
        return Err(RendererError::Type { key, wanted });
    }
    match value.as_str().filter(|_| key_type == KeyType::Path).and_then(toolset_path) {
        Some(Err(reason)) => Err(RendererError::Path { key, reason }),
        _ => Ok(()),
    }
}

/// The path in a toolset that a text means; none if it has an expression. `./a` and `$toolset/a` are `a`.
pub fn toolset_path(text: &str) -> Option<Result<WorkPath, PathError>> {
    let text = text.strip_prefix("$toolset/").unwrap_or(text);
    let text = text.strip_prefix("./").unwrap_or(text);
    if text.contains('$') { None } else { Some(text.parse()) }
}

fn names() -> String {
    let mut names: Vec<&str> =
        RENDERERS.iter().flat_map(|spec| spec.aliases.iter().copied().chain([spec.name])).collect();
    names.sort_unstable();
    names.join(", ")
}

fn keys_of(renderer: Renderer) -> String {
    let keys: Vec<&str> = renderer.0.keys.iter().map(|(key, _)| *key).collect();
    if keys.is_empty() { "none".to_owned() } else { keys.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accepted() {
        for (name, config, canonical) in [
            ("code", json!({"file": "$args.path", "language": "auto", "editable": true}), "code"),
            ("code", json!({"content": null, "editable": null}), "code"),
            ("document", json!({"content": "$return.text"}), "document"),
            ("markdown", json!({"file": "a.md", "editable": false}), "document"),
            ("html", json!({"artifact": "./artifacts/viz.html", "data": {"any": ["thing"]}}), "html"),
            ("html", json!({"artifact": "$toolset/artifacts/viz.html"}), "html"),
            ("html", json!({"artifact": "$return.page"}), "html"),
            ("frame", json!({"url": "http://localhost:$return.port"}), "frame"),
            ("frame", json!({"port": 3000}), "frame"),
            ("frame", json!({"port": "$return.port"}), "frame"),
            ("editor", json!({"path": "a", "editable": true}), "editor"),
            ("terminal", json!({}), "terminal"),
            ("default", json!(null), "default"),
        ] {
            let rendering = check(Some(name), Some(&config)).unwrap_or_else(|error| panic!("{name}: {error}")).unwrap();
            assert_eq!(rendering.renderer().name(), canonical);
            assert_eq!(Value::from(rendering.config().clone()), if config.is_null() { json!({}) } else { config });
        }
        assert_eq!(check(None, None), Ok(None));
        assert_eq!(check(None, Some(&json!(null))), Ok(None));
    }

    #[test]
    fn refused() {
        for (name, config, message) in [
            (
                Some("document"),
                json!({"url": "x"}),
                "renderer_config has unknown key(s) for renderer 'document': url (allowed: file, content, editable)",
            ),
            (
                Some("markdown"),
                json!({"url": "x"}),
                "renderer_config has unknown key(s) for renderer 'document': url (allowed: file, content, editable)",
            ),
            (
                Some("frame"),
                json!({"editable": true, "x": 1}),
                "renderer_config has unknown key(s) for renderer 'frame': editable, x (allowed: url, port)",
            ),
            (
                Some("default"),
                json!({"content": "x"}),
                "renderer_config has unknown key(s) for renderer 'default': content (allowed: none)",
            ),
            (Some("code"), json!({"language": 123}), "renderer_config.language must be a string"),
            (Some("code"), json!({"editable": "$args.x"}), "renderer_config.editable must be a boolean"),
            (Some("frame"), json!({"port": true}), "renderer_config.port must be a number or string"),
            (Some("code"), json!([]), "renderer_config must be an object"),
            (None, json!({"file": "x"}), "renderer_config requires renderer"),
            (
                Some("html"),
                json!({"artifact": "../x.html"}),
                "renderer_config.artifact must be a path inside the toolset: the path must not have an empty, \".\" or \"..\" part",
            ),
            (
                Some("html"),
                json!({"artifact": "/etc/passwd"}),
                "renderer_config.artifact must be a path inside the toolset: the path must be relative to the workspace",
            ),
            (
                Some("html"),
                json!({"artifact": "$toolset/../x"}),
                "renderer_config.artifact must be a path inside the toolset: the path must not have an empty, \".\" or \"..\" part",
            ),
            (
                Some("Code"),
                json!({}),
                "renderer 'Code' is unsupported (allowed: code, default, document, editor, file-diff, file-read, frame, html, key-value, markdown, patch-diff, task, terminal, todo-list, web-search)",
            ),
        ] {
            assert_eq!(check(name, Some(&config)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn no_name_twice() {
        let mut names: Vec<_> = RENDERERS.iter().flat_map(|spec| spec.aliases.iter().chain([&spec.name])).collect();
        let mut tools: Vec<_> = RENDERERS.iter().flat_map(|spec| spec.tool_names).collect();
        for list in [&mut names, &mut tools] {
            let before = list.len();
            list.sort();
            list.dedup();
            assert_eq!(list.len(), before);
        }
    }

    #[test]
    fn by_tool_name() {
        for (tool, renderer) in [
            ("BASH", Some("terminal")),
            ("write_file", Some("file-diff")),
            ("Apply_Patch", Some("patch-diff")),
            ("read", Some("file-read")),
            ("task", Some("task")),
            ("totally-unknown", None),
            ("", None),
        ] {
            assert_eq!(Renderer::by_tool_name(tool).map(Renderer::name), renderer, "{tool}");
        }
    }

    #[test]
    fn files_of_a_rendering() {
        let files = |config| check(Some("html"), Some(&config)).unwrap().unwrap().files();
        assert_eq!(files(json!({"artifact": "./artifacts/a.html"})), ["artifacts/a.html".parse().unwrap()]);
        assert_eq!(files(json!({"artifact": "$return.page", "content": "x"})), []);
        let any = |config| check(Some("html"), Some(&config)).unwrap().unwrap().shows_any_file();
        assert!(
            any(json!({"artifact": "pages/$return.page"}))
                && !any(json!({"artifact": "./a.html", "content": "$return"}))
        );
    }
}
