//! Overrides: what a toolset, and then a person, changes about how a tool appears and behaves.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::override_key::OverrideKey;
use crate::renderer::{self, Renderer, RendererError, Rendering};
use crate::tool_id::ToolId;

/// What one key overrides. A property that is none is not overridden.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Flat", try_from = "Flat")]
pub struct Override {
    /// How results are shown.
    pub rendering: Option<Rendering>,
    /// A title; the id and what a model calls the tool stay. An empty one overrides nothing.
    pub name: Option<String>,
    /// What a model reads about the tool. An empty one overrides nothing.
    pub description: Option<String>,
    /// Whether a person is asked before each call.
    pub requires_confirmation: Option<bool>,
    /// Whether the tool is there at all.
    pub enabled: Option<bool>,
}

impl Override {
    /// Whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes over what another one overrides. A renderer brings its own configuration along.
    pub fn put_on_top(&mut self, over: &Self) {
        fn take<T: Clone>(under: &mut Option<T>, over: &Option<T>) {
            if over.is_some() {
                under.clone_from(over);
            }
        }
        take(&mut self.rendering, &over.rendering);
        take(&mut self.name, &over.name);
        take(&mut self.description, &over.description);
        take(&mut self.requires_confirmation, &over.requires_confirmation);
        take(&mut self.enabled, &over.enabled);
    }
}

/// An override as it is written in JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Flat {
    renderer: Option<String>,
    renderer_config: Option<Value>,
    name_override: Option<String>,
    description_override: Option<String>,
    requires_confirmation: Option<bool>,
    enabled: Option<bool>,
}

impl From<Override> for Flat {
    fn from(value: Override) -> Self {
        let config = |rendering: &Rendering| Value::from(rendering.config().clone());
        Self {
            renderer: value.rendering.as_ref().map(|rendering| rendering.renderer().to_string()),
            renderer_config: value.rendering.as_ref().filter(|r| !r.config().is_empty()).map(config),
            name_override: value.name,
            description_override: value.description,
            requires_confirmation: value.requires_confirmation,
            enabled: value.enabled,
        }
    }
}

impl TryFrom<Flat> for Override {
    type Error = RendererError;

    fn try_from(flat: Flat) -> Result<Self, RendererError> {
        Ok(Self {
            rendering: renderer::check(flat.renderer.as_deref(), flat.renderer_config.as_ref())?,
            name: flat.name_override,
            description: flat.description_override,
            requires_confirmation: flat.requires_confirmation,
            enabled: flat.enabled,
        })
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "camelCase")]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The tool itself: its manifest or decorator, or what its server tells about it.
    Tool,
    /// The configuration of its MCP server.
    Server,
    /// An override that the toolset brought.
    Bundle {
        /// Under which key.
        key: OverrideKey,
    },
    /// An override that a person set.
    User {
        /// Under which key.
        key: OverrideKey,
    },
}

impl Origin {
    /// Whether somebody said it about the tool, and not the tool itself.
    pub fn is_override(&self) -> bool {
        matches!(self, Self::Bundle { .. } | Self::User { .. })
    }
}

/// A value, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chosen<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

impl<T> Chosen<T> {
    /// A value with its origin.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}

/// What holds for a tool: before the overrides, and after them.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// Its title.
    pub name: Chosen<String>,
    /// What a model reads about it.
    pub description: Chosen<Option<String>>,
    /// How its results are shown.
    pub rendering: Chosen<Option<Rendering>>,
    /// Whether a person is asked before each call.
    pub requires_confirmation: Chosen<bool>,
    /// Whether it is there at all.
    pub enabled: Chosen<bool>,
}

/// Whether a call needs a yes before any override: the strictest of what was said, or the default of its provider.
pub fn confirmation(default: bool, said: &[(Option<bool>, Origin)]) -> Chosen<bool> {
    let first = |wanted: bool| said.iter().find(|(value, _)| *value == Some(wanted));
    match first(true).or_else(|| first(false)) {
        Some((Some(value), origin)) => Chosen::new(*value, origin.clone()),
        _ => Chosen::new(default, Origin::Default),
    }
}

/// The overrides of one toolset, by who made them.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// Those that the toolset brought.
    pub bundle: &'a [(OverrideKey, Override)],
    /// Those that a person set. They win, property by property.
    pub user: &'a [(OverrideKey, Override)],
    /// Whether a person trusts the toolset. Until then its overrides take away no question before a call: a bundle
    /// must not vouch for itself.
    pub trusted: bool,
}

impl Layers<'_> {
    /// What holds for a tool that has `base` without overrides.
    pub fn apply(&self, tool: &ToolId, base: Effective) -> Effective {
        let bundle = matching(self.bundle, tool);
        let user = matching(self.user, tool);
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let name = |o: &Override| text(&o.name);
        let description = |o: &Override| text(&o.description).map(Some);
        let confirmed = |o: &Override| o.requires_confirmation;
        let enabled = |o: &Override| o.enabled;
        let lowers = |chosen: &Chosen<bool>| base.requires_confirmation.value && !chosen.value;
        let allowed = |chosen: &Chosen<bool>| self.trusted || !lowers(chosen);
        Effective {
            name: first(&user, from_user, name).or_else(|| first(&bundle, from_bundle, name)).unwrap_or(base.name),
            description: first(&user, from_user, description)
                .or_else(|| first(&bundle, from_bundle, description))
                .unwrap_or(base.description),
            rendering: rendering(&user, &bundle)
                .map(|chosen| Chosen::new(Some(chosen.value), chosen.origin))
                .unwrap_or(base.rendering),
            requires_confirmation: first(&user, from_user, confirmed)
                .or_else(|| first(&bundle, from_bundle, confirmed).filter(allowed))
                .unwrap_or(base.requires_confirmation.clone()),
            enabled: first(&user, from_user, enabled)
                .or_else(|| first(&bundle, from_bundle, enabled))
                .unwrap_or(base.enabled),
        }
    }

    /// How a tool's results are shown, if an override says so.
    pub fn rendering(&self, tool: &ToolId) -> Option<Chosen<Rendering>> {
        rendering(&matching(self.user, tool), &matching(self.bundle, tool))
    }
}

type Matching<'a> = [(&'a OverrideKey, &'a Override)];

fn rendering(user: &Matching<'_>, bundle: &Matching<'_>) -> Option<Chosen<Rendering>> {
    let said = |o: &Override| o.rendering.clone();
    first(user, from_user, said).or_else(|| first(bundle, from_bundle, said))
}

fn from_bundle(key: &OverrideKey) -> Origin {
    Origin::Bundle { key: key.clone() }
}

fn from_user(key: &OverrideKey) -> Origin {
    Origin::User { key: key.clone() }
}

/// What the first of these overrides says that says anything.
fn first<T>(
    found: &Matching<'_>,
    origin: impl Fn(&OverrideKey) -> Origin,
    get: impl Fn(&Override) -> Option<T>,
) -> Option<Chosen<T>> {
    found.iter().find_map(|(key, value)| get(value).map(|value| Chosen::new(value, origin(key))))
}

/// The overrides that mean a tool, those that mean it most precisely first.
fn matching<'a>(layer: &'a [(OverrideKey, Override)], tool: &ToolId) -> Vec<(&'a OverrideKey, &'a Override)> {
    let mut found: Vec<_> =
        layer.iter().filter(|(key, _)| key.matches(tool)).map(|(key, value)| (key, value)).collect();
    found.sort_by(|(a, _), (b, _)| a.by_precision(b));
    found
}

/// The renderer and configuration in the form that the API and the database have them.
pub fn flat_rendering(rendering: Option<&Rendering>) -> (Option<Renderer>, Option<&Map<String, Value>>) {
    (rendering.map(Rendering::renderer), rendering.map(Rendering::config).filter(|config| !config.is_empty()))
}

#[cfg(test)]
mod tests;
