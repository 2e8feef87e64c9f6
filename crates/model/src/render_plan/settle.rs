//! What a renderer needs to be true of its values, once they are there: paths lie in their folder, a port is one, an address
//! is of the web.

use serde_json::{Map, Value};
use url::Url;

use super::error::clip;
use super::expression::kind;
use super::{PlanError, Scene, language_of};
use crate::path::{PathError, WorkPath};
use crate::renderer::Renderer;

/// Checks the values and brings each to its one spelling.
pub(super) fn settle(
    renderer: Renderer,
    mut config: Map<String, Value>,
    scene: &Scene<'_>,
) -> Result<Map<String, Value>, PlanError> {
    for key in ["file", "path"] {
        if let Some(value) = config.get_mut(key) {
            let path = inside(key, text(key, value)?, "workspace", scene.workspace)?;
            *value = Value::String(path.to_string());
        }
    }
    if let Some(value) = config.get_mut("artifact") {
        let toolset = scene.toolset.ok_or(PlanError::NoToolset)?;
        let path = inside("artifact", text("artifact", value)?, "toolset", toolset)?;
        *value = Value::String(path.to_string());
    }
    if let Some(value) = config.get_mut("port") {
        *value = Value::from(port(value)?);
    }
    if let Some(value) = config.get("url") {
        check_url(text("url", value)?)?;
    }
    if let Some(value) = config.get("language")
        && text("language", value)?.eq_ignore_ascii_case("auto")
    {
        let file = config.get("file").and_then(Value::as_str).unwrap_or_default();
        let language = language_of(file);
        config.insert("language".to_owned(), Value::String(language));
    }
    let has = |keys: &[&str]| keys.iter().any(|key| config.contains_key(*key));
    let wanted = match renderer.name() {
        "html" if !has(&["artifact", "content"]) => "an artifact or a content",
        "frame" if !has(&["url", "port"]) => "a url or a port",
        "editor" if !has(&["path"]) => "a path",
        _ => return Ok(config),
    };
    Err(PlanError::Incomplete { renderer, wanted })
}

fn text<'v>(key: &'static str, value: &'v Value) -> Result<&'v str, PlanError> {
    value.as_str().ok_or_else(|| PlanError::Type { key, wanted: "a text", found: kind(value).to_owned() })
}

/// The path inside a folder that a text means: relative to it, or absolute and below it. Parts that say nothing (`./a`,
/// `a//b`) are left out; `..` is refused, for where it leads depends on links.
fn inside(key: &'static str, path: &str, folder: &'static str, place: &str) -> Result<WorkPath, PlanError> {
    let refused = |reason| PlanError::Path { key, path: clip(path), folder, reason };
    let place = place.trim_end_matches('/');
    let relative = match path.strip_prefix(place).filter(|_| !place.is_empty()) {
        Some(below) if below.is_empty() || below.starts_with('/') => below.trim_start_matches('/'),
        _ if path.starts_with('/') => return Err(refused(PathError::Absolute)),
        _ => path,
    };
    let parts: Vec<&str> = relative.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/").parse().map_err(refused)
}

fn port(value: &Value) -> Result<u16, PlanError> {
    let number = match value {
        Value::String(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        value => value.as_u64().and_then(|number| u16::try_from(number).ok()),
    };
    number.filter(|number| *number != 0).ok_or_else(|| {
        let found = match value {
            Value::Number(number) => number.to_string(),
            Value::String(text) => format!("{:?}", clip(text)),
            value => kind(value).to_owned(),
        };
        PlanError::Type { key: "port", wanted: "a number from 1 to 65535", found }
    })
}

fn check_url(text: &str) -> Result<(), PlanError> {
    let refused = |reason: &str| Err(PlanError::Url { url: clip(text), reason: reason.to_owned() });
    match Url::parse(text) {
        Err(error) => refused(&error.to_string()),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => refused("only http and https can be shown in a frame"),
        // A name and a password before the host are how one host is made to look like another.
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            refused("an address with a user name or a password is not shown")
        }
        Ok(_) => Ok(()),
    }
}
