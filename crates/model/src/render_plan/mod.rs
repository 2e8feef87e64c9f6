//! The render plan: how the page shows the result of one call. It is made from a renderer's configuration, whose
//! expressions get their values here, and from nothing else: no file is looked at.
//!
//! A plan is whole or there is none. What cannot be found, and a path that could lead out of its folder, is an error with
//! the reason in it, never a plan that shows something else than was meant.

mod error;
mod expression;
mod fill;
mod language;
mod settle;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use error::PlanError;
pub use language::language_of;

use crate::hash::ContentHash;
use crate::id::ChatId;
use crate::path::WorkPath;
use crate::renderer::{Renderer, Rendering};

/// The most bytes that a plan may have, as JSON. It is kept with the call and sent with every answer that has it.
pub const MOST_PLAN_BYTES: usize = 1024 * 1024;

/// How a result is shown.
///
/// Paths in it are relative: `file` and `path` to the workspace, `artifact` to the toolset's folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenderPlan {
    /// By which renderer.
    pub renderer: Renderer,
    /// With what.
    pub config: Map<String, Value>,
}

/// What the expressions of a configuration speak of.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// `$args`: what the tool was given.
    pub args: &'a Map<String, Value>,
    /// `$return`: what it returned.
    pub result: &'a Value,
    /// `$chat_id`.
    pub chat: ChatId,
    /// `$workspace`: the workspace's folder as the tool sees it. A file that the tool names by this folder is in the
    /// workspace.
    pub workspace: &'a str,
    /// `$toolset`: the toolset's folder as the tool sees it; none for a tool of no toolset.
    pub toolset: Option<&'a str>,
}

impl RenderPlan {
    /// The plan for a call that went well.
    ///
    /// # Expressions
    ///
    /// They stand in texts, at any depth: `$args`, `$return`, `$chat_id`, `$workspace`, `$toolset`, the first two with a path
    /// behind them (`$return.items.0.url`: keys of objects, places in lists).
    ///
    /// - A text that is one expression and nothing else becomes the value, whatever its type. Keys may then have any
    ///   character but `.` and `$`.
    /// - Within a longer text the value is written out: a text as it is, anything else as JSON. Keys are then made of letters,
    ///   digits and `_`, and the path goes on as long as a dot and such a character follow. In `file`, `path`, `artifact` and
    ///   `url` only a text, a number or a boolean can be written out.
    /// - `${args.name}.txt` says where an expression ends.
    /// - `$$` is a `$`. Any other `$` is one too: `$5`, `$HOME`, `$returned`.
    /// - A value is never read again: what looks like an expression in it stays what it is.
    /// - A path that leads to nothing is an error.
    pub fn new(rendering: &Rendering, scene: &Scene<'_>) -> Result<Self, PlanError> {
        let renderer = rendering.renderer();
        let config = fill::fill(rendering, scene)?;
        let config = settle::settle(renderer, config, scene)?;
        fill::check_size(&config)?;
        Ok(Self { renderer, config })
    }

    /// The file of the toolset that it shows.
    pub fn artifact(&self) -> Option<WorkPath> {
        self.text("artifact")?.parse().ok()
    }

    /// Notes the content of the artifact, as it was when the call was made: the toolset may change later.
    pub fn keep_artifact(&mut self, hash: ContentHash) {
        self.config.insert("sha256".to_owned(), Value::String(hash.to_string()));
    }

    /// The content of the artifact, if it was noted.
    pub fn artifact_hash(&self) -> Option<ContentHash> {
        self.text("sha256")?.parse().ok()
    }

    /// A text of its configuration.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.config.get(key)?.as_str()
    }
}

#[cfg(test)]
mod tests;
