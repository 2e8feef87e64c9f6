//! What the gallery tells of a published toolset: enough to decide whether one wants it, and nothing that is its organisation's own.
//! Of variables and headers there are the names, of an address the host.

use serde::{Deserialize, Serialize};

use crate::hash::ContentHash;
use crate::launch::Launch;
use crate::name::ToolsetId;
use crate::published::PublicSlug;
use crate::time::Timestamp;
use crate::toolset::{McpServer, Permissions};

/// What is to be published.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// As what.
    pub slug: PublicSlug,
    /// Which toolset of the organisation.
    pub toolset: ToolsetId,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its version.
    pub version: String,
    /// What is in it.
    pub summary: GallerySummary,
    /// The bundle that a copy is made from.
    pub bundle: ContentHash,
    /// How many bytes that has.
    pub bundle_size: u64,
}

/// What a list of published toolsets shows of one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GalleryCard {
    /// What it is published as.
    pub slug: PublicSlug,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its version.
    pub version: String,
    /// Since when it is published.
    pub published_at: Timestamp,
    /// How many Python tools it has.
    pub tool_count: u64,
    /// How many MCP servers it declares.
    pub server_count: u64,
    /// How many skills it has.
    pub skill_count: u64,
}

/// A published toolset.
#[derive(Clone, Debug, PartialEq)]
pub struct GalleryEntry {
    /// What a list shows of it.
    pub card: GalleryCard,
    /// Its id where it was published.
    pub toolset: ToolsetId,
    /// What is in it.
    pub summary: GallerySummary,
    /// The bundle that a copy is made from.
    pub bundle: ContentHash,
}

/// What is in a published toolset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GallerySummary {
    /// Its tools of Python and of containers.
    pub tools: Vec<GalleryTool>,
    /// The MCP servers it declares.
    pub servers: Vec<GalleryServer>,
    /// Its skills.
    pub skills: Vec<GallerySkill>,
    /// Its first files, by path.
    pub files: Vec<GalleryFile>,
    /// How many files it has.
    pub file_count: u64,
    /// What its tools may do, once whoever adopts it trusts it.
    pub permissions: Permissions,
}

/// A tool of Python or of a container of a published toolset.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct GalleryTool {
    /// Its id inside the toolset.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What a model reads about it.
    pub description: Option<String>,
}

/// An MCP server that a published toolset declares.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct GalleryServer {
    /// Its id inside the toolset.
    pub id: String,
    /// `stdio`, `sse` or `streamable-http`.
    pub server_type: String,
    /// What would be started, with references where values would stand.
    pub command_line: Option<String>,
    /// Of the address that would be dialled, the host.
    pub url_host: Option<String>,
    /// The variables that its process gets.
    pub env_names: Vec<String>,
    /// The headers that are sent to it.
    pub header_names: Vec<String>,
    /// What it is for.
    pub description: Option<String>,
}

/// A skill of a published toolset.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct GallerySkill {
    /// Its id inside the toolset.
    pub id: String,
    /// What it calls itself.
    pub name: String,
    /// When it is to be used.
    pub description: Option<String>,
}

/// A file of a published toolset.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct GalleryFile {
    /// Where it is, below the toolset's folder.
    pub path: String,
    /// How many bytes it has.
    pub size: u64,
}

impl GallerySummary {
    /// The names of its tools and skills, a line each.
    pub fn words(&self) -> String {
        let tools = self.tools.iter().flat_map(|tool| [&tool.id, &tool.name]);
        let skills = self.skills.iter().flat_map(|skill| [&skill.id, &skill.name]);
        let mut lines: Vec<&str> = tools.chain(skills).map(String::as_str).collect();
        // An id and a name are mostly the same word.
        lines.dedup();
        // A name that comes from code may hold anything, and PostgreSQL keeps no NUL.
        lines.join("\n").replace(|c: char| c.is_control() && c != '\n', " ")
    }
}

impl From<&McpServer> for GalleryServer {
    fn from(server: &McpServer) -> Self {
        let (command_line, url_host, env_names, header_names) = match &server.launch {
            launch @ Launch::Stdio { env, .. } => {
                (Some(launch.command_line()), None, env.keys().cloned().collect(), Vec::new())
            }
            Launch::Remote { url, headers, .. } => {
                (None, Some(host_of(url.as_str()).to_owned()), Vec::new(), headers.keys().cloned().collect())
            }
        };
        Self {
            id: server.id.to_string(),
            server_type: server.launch.server_type().to_string(),
            command_line,
            url_host,
            env_names,
            header_names,
            description: server.description.as_ref().map(ToString::to_string),
        }
    }
}

/// The host of an address, with its port and without who is to sign in there. It may be a reference.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::RawLaunch;

    #[test]
    fn hosts() {
        for (url, host) in [
            ("https://mcp.example.org/v1/sse?tenant=7", "mcp.example.org"),
            ("https://mcp.example.org:8443", "mcp.example.org:8443"),
            ("https://ada@mcp.example.org/x", "mcp.example.org"),
            ("https://mcp.example.org?a@b", "mcp.example.org"),
            ("https://[::1]:80/x", "[::1]:80"),
            ("${BASE}/mcp", "${BASE}"),
            ("https://${ENV:HOST}/mcp#x", "${ENV:HOST}"),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }

    #[test]
    fn of_a_server_there_are_names() {
        let pairs = |name: &str| [(name.to_owned(), "${ENV:SECRET_NAME}".to_owned())].into();
        let of = |launch: RawLaunch| {
            let launch = launch.check().unwrap();
            let id = "srv".parse().unwrap();
            let server = McpServer { id, launch, enabled: true, requires_confirmation: None, description: None };
            serde_json::to_string(&GalleryServer::from(&server)).unwrap()
        };
        let stdio = of(RawLaunch {
            command: Some("npx".to_owned()),
            args: vec!["-y".to_owned(), "${PACKAGE}".to_owned()],
            cwd: Some("/home/ada".to_owned()),
            env: pairs("API_KEY"),
            ..RawLaunch::default()
        });
        assert!(stdio.contains("npx -y '${PACKAGE}'") && stdio.contains("[\"API_KEY\"]"), "{stdio}");
        assert!(!stdio.contains("SECRET_NAME") && !stdio.contains("ada"), "{stdio}");
        let url = Some("https://mcp.example.org/of/acme".to_owned());
        let remote = of(RawLaunch { url, headers: pairs("X-Key"), ..RawLaunch::default() });
        assert!(remote.contains("\"mcp.example.org\"") && remote.contains("[\"X-Key\"]"), "{remote}");
        assert!(!remote.contains("SECRET_NAME") && !remote.contains("acme"), "{remote}");
    }
}
