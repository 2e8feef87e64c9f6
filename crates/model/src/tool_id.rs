//! The ids of tools, whatever provides them. A tool's id says where it is; what a model reads is another name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{IdError, text_serde};
use crate::name::{LocalToolId, ServerId, ServerKey, ToolsetId};

/// How many bytes the name of an MCP server's tool may have.
pub const LONGEST_MCP_NAME: usize = 1024;

/// The name that an MCP server gave a tool. It is the server's own and may hold anything, `:` too.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct McpToolName(String);

impl McpToolName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for McpToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for McpToolName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let good = !text.is_empty() && text.len() <= LONGEST_MCP_NAME && !text.contains('\0');
        if good { Ok(Self(text.to_owned())) } else { Err(IdError::NotMcpName) }
    }
}

text_serde!(McpToolName);

/// A tool's id.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ToolId {
    /// A tool that is compiled in: `{name}`.
    Builtin(LocalToolId),
    /// A Python or container tool: `{toolset}:{tool}`.
    Toolset {
        /// The toolset that brings it.
        toolset: ToolsetId,
        /// Its id there.
        tool: LocalToolId,
    },
    /// A tool of an MCP server: `mcp:{toolset}~{server}:{name}`.
    Mcp {
        /// The server.
        server: ServerKey,
        /// The tool's name there.
        tool: McpToolName,
    },
    /// The old form of the latter, `mcp:{server}:{name}`. It names a tool only while one server alone has that id.
    LegacyMcp {
        /// The server's id inside whichever toolset declares it.
        server: ServerId,
        /// The tool's name there.
        tool: McpToolName,
    },
}

impl ToolId {
    /// The two parts that override keys are compared with: the server's id or the toolset's, and the tool's name.
    pub fn override_parts(&self) -> (&str, &str) {
        match self {
            Self::Builtin(tool) => ("builtin", tool.as_str()),
            Self::Toolset { toolset, tool } => (toolset.as_str(), tool.as_str()),
            Self::Mcp { server, tool } => (server.server.as_str(), tool.as_str()),
            Self::LegacyMcp { server, tool } => (server.as_str(), tool.as_str()),
        }
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(tool) => f.write_str(tool.as_str()),
            Self::Toolset { toolset, tool } => {
                [toolset.as_str(), ":", tool.as_str()].into_iter().try_for_each(|part| f.write_str(part))
            }
            Self::Mcp { server, tool } => {
                ["mcp:", server.toolset.as_str(), "~", server.server.as_str(), ":", tool.as_str()]
                    .into_iter()
                    .try_for_each(|part| f.write_str(part))
            }
            Self::LegacyMcp { server, tool } => {
                ["mcp:", server.as_str(), ":", tool.as_str()].into_iter().try_for_each(|part| f.write_str(part))
            }
        }
    }
}

impl FromStr for ToolId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if let Some(rest) = text.strip_prefix("mcp:") {
            let (server, tool) = rest.split_once(':').ok_or(IdError::NotTool)?;
            let tool = tool.parse()?;
            return if server.contains('~') {
                Ok(Self::Mcp { server: server.parse()?, tool })
            } else {
                Ok(Self::LegacyMcp { server: server.parse()?, tool })
            };
        }
        match text.split_once(':') {
            Some((toolset, tool)) => Ok(Self::Toolset { toolset: toolset.parse()?, tool: tool.parse()? }),
            None => text.parse().map(Self::Builtin).map_err(|_| IdError::NotTool),
        }
    }
}

text_serde!(ToolId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_ids() {
        let long = format!("mcp:ts~srv:{}", "x".repeat(LONGEST_MCP_NAME));
        for (text, form, parts) in [
            ("write_file", "builtin", ("builtin", "write_file")),
            ("mytools:analyze", "toolset", ("mytools", "analyze")),
            ("mcp:ts~srv:tool", "mcp", ("srv", "tool")),
            ("mcp:ts~srv:a:b", "mcp", ("srv", "a:b")),
            ("mcp:ts~srv: a/ü~b*", "mcp", ("srv", " a/ü~b*")),
            ("mcp:srv:a:b", "legacy", ("srv", "a:b")),
            ("mcp:mcp:x", "legacy", ("mcp", "x")),
            (&long, "mcp", ("srv", &long[11..])),
        ] {
            let id: ToolId = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let found = match id {
                ToolId::Builtin(_) => "builtin",
                ToolId::Toolset { .. } => "toolset",
                ToolId::Mcp { .. } => "mcp",
                ToolId::LegacyMcp { .. } => "legacy",
            };
            assert_eq!((found, id.override_parts(), id.to_string().as_str()), (form, parts, text));
        }
    }

    #[test]
    fn what_is_no_tool_id() {
        let long = format!("mcp:ts~srv:{}", "x".repeat(LONGEST_MCP_NAME + 1));
        for (text, reason) in [
            ("", IdError::NotTool),
            ("a b", IdError::NotTool),
            ("-write_file", IdError::NotTool),
            ("mcp:ts~srv", IdError::NotTool),
            ("mcp:ts~srv:", IdError::NotMcpName),
            ("mcp:ts~srv:a\0", IdError::NotMcpName),
            (&long, IdError::NotMcpName),
            ("mcp:ts~a~b:x", IdError::NotName { kind: "server" }),
            ("mcp:mcp~srv:x", IdError::Reserved { kind: "toolset", id: "mcp".to_owned() }),
            ("mcp::x", IdError::NotName { kind: "server" }),
            ("toolset:app", IdError::Reserved { kind: "toolset", id: "toolset".to_owned() }),
            ("builtin:write_file", IdError::Reserved { kind: "toolset", id: "builtin".to_owned() }),
            ("app:", IdError::NotLocalTool),
            ("app:a:b", IdError::NotLocalTool),
            ("App:a", IdError::NotName { kind: "toolset" }),
        ] {
            assert_eq!(text.parse::<ToolId>(), Err(reason), "{text:?}");
        }
    }
}
