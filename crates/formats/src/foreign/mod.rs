//! Other people's formats, turned into toolsets: MCP server lists, MCP bundles, registry entries, plugins, skills.
//!
//! These rooms know what the formats say and how it is said here. They run nothing, and take nothing that grants a right:
//! what is left behind is named in a warning. A secret that stands in a file is refused or forgotten; no message and no
//! value that comes out of here repeats it. Which format a file has is decided by [`crate::import`].

mod builder;
pub(crate) mod json;
mod lower;
pub(crate) mod mcpb;
mod name;
mod notes;
pub(crate) mod plugin;
pub(crate) mod registry;
pub(crate) mod servers;
pub(crate) mod skill;
mod toolset;

pub(crate) use name::variable;
pub(crate) use notes::{Notes, shown};
