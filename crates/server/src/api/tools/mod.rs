//! Tools: all that there are, whoever provides them.

pub(crate) mod available;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod resolve;
mod view;

pub(crate) use view::{ToolDetail, ToolView};
