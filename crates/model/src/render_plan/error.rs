//! Why there is no plan. The texts are shown with the call, as a warning.

use crate::path::PathError;
use crate::renderer::Renderer;

/// Why a configuration made no plan.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// An expression leads to nothing.
    #[error("renderer_config.{key}: {expression} leads to nothing: {reason}")]
    Unresolved {
        /// Where it stands.
        key: String,
        /// The expression, up to the part that was not found.
        expression: String,
        /// What is there instead.
        reason: String,
    },
    /// A value that would be written into a path or an address, and is none that can be.
    #[error(
        "renderer_config.{key}: {expression} is {found}, and only a text, a number or a boolean can be a part of it"
    )]
    NotPlain {
        /// Where it stands.
        key: String,
        /// The expression.
        expression: String,
        /// What it is.
        found: &'static str,
    },
    /// A value of another type than the key has.
    #[error("renderer_config.{key} must be {wanted}, and it became {found}")]
    Type {
        /// The key.
        key: &'static str,
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
    /// A path that is not in its folder.
    #[error("renderer_config.{key} became {path:?}, which is not a path inside the {folder}: {reason}")]
    Path {
        /// The key.
        key: &'static str,
        /// The path.
        path: String,
        /// Which folder.
        folder: &'static str,
        /// What is wrong with it.
        reason: PathError,
    },
    /// An address that a frame cannot show.
    #[error("renderer_config.url became {url:?}: {reason}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The configuration lacks what the renderer shows.
    #[error("the renderer {renderer} needs {wanted}")]
    Incomplete {
        /// The renderer.
        renderer: Renderer,
        /// What it needs.
        wanted: &'static str,
    },
    /// An artifact for a tool of no toolset.
    #[error("renderer_config.artifact: the tool belongs to no toolset, and an artifact is a file of one")]
    NoToolset,
    /// A plan that is too large.
    #[error("the render plan would have more than {most} bytes")]
    TooLarge {
        /// The most there may be.
        most: usize,
    },
}

/// The beginning of a text that somebody else made: a message must stay short.
pub(super) fn clip(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
