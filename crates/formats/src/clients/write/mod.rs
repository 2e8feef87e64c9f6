//! The other direction: what a program must have in its configuration to use a server of ours, as text to paste and as an edit
//! of its file. An edit changes one entry and not a byte beside it; a file in which that cannot be done is refused.
//!
//! Where the files are is for whoever has a file system.

mod json;
mod toml;

use serde_json::{Map, Value, json};

use super::Client;

/// How a program reaches a server of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Way {
    /// By its address, with these headers in every request.
    Http {
        /// The address.
        url: String,
        /// Names and values.
        headers: Vec<(String, String)>,
    },
    /// By starting a process.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
}

/// Why a file is left as it is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotWritten {
    /// It has what rewriting would lose.
    #[error("it has comments or commas that plain JSON does not have, and they would be lost")]
    Comments,
    /// It is not what the program reads. The text around the mistake is not repeated: it may be a secret.
    #[error("it is not {kind} (line {line}), and what cannot be read is not written over")]
    Unreadable {
        /// JSON or TOML.
        kind: &'static str,
        /// Where the reader stumbled.
        line: usize,
    },
    /// Something else stands where servers belong.
    #[error("{0} is not an object there")]
    NotAnObject(String),
    /// The entry is there in a form that cannot be replaced by itself.
    #[error("{0} is written in a way there that cannot be changed without touching what is beside it")]
    Entangled(String),
}

impl Client {
    /// Those whose configuration can be written.
    pub const WRITABLE: [Self; 6] =
        [Self::ClaudeCode, Self::ClaudeDesktop, Self::Cursor, Self::VsCode, Self::Codex, Self::OpenCode];

    /// Whether it reaches servers by address. Others start a process.
    pub fn dials(self) -> bool {
        self != Self::ClaudeDesktop
    }

    /// Under which key its servers stand.
    fn servers(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::OpenCode => "mcp",
            Self::Codex => "mcp_servers",
            _ => "mcpServers",
        }
    }

    /// A whole configuration with nothing but this server.
    pub fn configuration(self, name: &str, way: &Way) -> String {
        let entry = self.entry(way);
        match self {
            Self::Codex => toml::section(self.servers(), name, &entry),
            _ => json::pretty(&json!({ self.servers(): { name: entry } })) + "\n",
        }
    }

    /// The program's file with this server in it, instead of what had its name before.
    pub fn with_server(self, text: &str, name: &str, way: &Way) -> Result<String, NotWritten> {
        if text.trim().is_empty() {
            return Ok(self.configuration(name, way));
        }
        let entry = self.entry(way);
        match self {
            Self::Codex => toml::with_entry(text, self.servers(), name, &entry),
            _ => json::with_entry(text, self.servers(), name, &entry),
        }
    }

    /// What stands in the program's file under that name.
    pub fn server_in(self, text: &str, name: &str) -> Option<Value> {
        let top: Value = match self {
            Self::Codex => ::toml::from_str(text).ok()?,
            _ => serde_json::from_str(text).ok()?,
        };
        top.get(self.servers())?.get(name).cloned()
    }

    /// The server as this program writes it down.
    fn entry(self, way: &Way) -> Map<String, Value> {
        let kind = match (self, way) {
            (Self::ClaudeCode | Self::VsCode, Way::Http { .. }) => Some("http"),
            (Self::ClaudeCode | Self::VsCode, Way::Stdio { .. }) => Some("stdio"),
            (Self::OpenCode, Way::Http { .. }) => Some("remote"),
            (Self::OpenCode, Way::Stdio { .. }) => Some("local"),
            _ => None,
        };
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| drop(entry.insert(key.to_owned(), value));
        if let Some(kind) = kind {
            put("type", json!(kind));
        }
        match way {
            Way::Http { url, headers } => {
                put("url", json!(url));
                let headers: Map<String, Value> =
                    headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
                let key = if self == Self::Codex { "http_headers" } else { "headers" };
                if !headers.is_empty() {
                    put(key, Value::Object(headers));
                }
            }
            Way::Stdio { command, args } if self == Self::OpenCode => {
                put("command", std::iter::once(command).chain(args).cloned().collect());
            }
            Way::Stdio { command, args } => {
                put("command", json!(command));
                put("args", json!(args));
            }
        }
        if self == Self::OpenCode {
            put("enabled", json!(true));
            if matches!(way, Way::Http { .. }) {
                // The header is the sign-in: a refusal must not send people to a browser.
                put("oauth", json!(false));
            }
        }
        entry
    }
}

#[cfg(test)]
mod tests;
