//! Published toolsets as the API shows them: nothing here says whose they are.

use kitbag_model::{GalleryCard, GalleryEntry, GalleryFile, GalleryServer, GallerySkill, GallerySummary, GalleryTool};
use serde::Serialize;
use utoipa::ToSchema;

/// A published toolset.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GalleryCard)]
pub(crate) struct CardView {
    /// What it is published as.
    public_slug: String,
    name: String,
    #[schema(required)]
    description: Option<String>,
    version: String,
    #[schema(format = DateTime)]
    published_at: String,
    /// How many Python tools it has. What its servers offer is known once they run.
    tool_count: u64,
    mcp_server_count: u64,
    agent_skill_count: u64,
}

impl From<GalleryCard> for CardView {
    fn from(card: GalleryCard) -> Self {
        Self {
            public_slug: card.slug.to_string(),
            name: card.name,
            description: card.description,
            version: card.version,
            published_at: card.published_at.to_string(),
            tool_count: card.tool_count,
            mcp_server_count: card.server_count,
            agent_skill_count: card.skill_count,
        }
    }
}

/// A tool, or a skill, of a published toolset.
#[derive(Serialize, ToSchema)]
#[schema(as = GalleryPart)]
pub(crate) struct PartView {
    /// Its id inside the toolset.
    id: String,
    name: String,
    #[schema(required)]
    description: Option<String>,
}

impl From<GalleryTool> for PartView {
    fn from(GalleryTool { id, name, description }: GalleryTool) -> Self {
        Self { id, name, description }
    }
}

impl From<GallerySkill> for PartView {
    fn from(GallerySkill { id, name, description }: GallerySkill) -> Self {
        Self { id, name, description }
    }
}

/// An MCP server that a published toolset declares.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GalleryServer)]
pub(crate) struct ServerView {
    /// Its id inside the toolset.
    id: String,
    /// `stdio`, `sse` or `streamable-http`.
    server_type: String,
    /// What would be started; null for a server that is dialled.
    #[schema(required)]
    command_line: Option<String>,
    /// Of the address that would be dialled, the host; null for a server that is started.
    #[schema(required)]
    url_host: Option<String>,
    /// The variables that its process gets.
    env_names: Vec<String>,
    /// The headers that are sent to it.
    header_names: Vec<String>,
    #[schema(required)]
    description: Option<String>,
}

impl From<GalleryServer> for ServerView {
    fn from(server: GalleryServer) -> Self {
        Self {
            id: server.id,
            server_type: server.server_type,
            command_line: server.command_line,
            url_host: server.url_host,
            env_names: server.env_names,
            header_names: server.header_names,
            description: server.description,
        }
    }
}

/// A file of a published toolset.
#[derive(Serialize, ToSchema)]
#[schema(as = GalleryFile)]
pub(crate) struct FileView {
    path: String,
    size: u64,
}

impl From<GalleryFile> for FileView {
    fn from(GalleryFile { path, size }: GalleryFile) -> Self {
        Self { path, size }
    }
}

/// A published toolset with what is in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GalleryToolset)]
pub(crate) struct EntryView {
    #[serde(flatten)]
    card: CardView,
    tools: Vec<PartView>,
    mcp_servers: Vec<ServerView>,
    agent_skills: Vec<PartView>,
    /// The first 1,000, by path.
    files: Vec<FileView>,
    file_count: u64,
    /// What its tools may do once whoever adopts it trusts it: reach the network, leave processes behind.
    #[schema(value_type = Object)]
    permissions: serde_json::Value,
}

impl From<GalleryEntry> for EntryView {
    fn from(entry: GalleryEntry) -> Self {
        let GallerySummary { tools, servers, skills, files, file_count, permissions } = entry.summary;
        Self {
            card: entry.card.into(),
            tools: tools.into_iter().map(PartView::from).collect(),
            mcp_servers: servers.into_iter().map(ServerView::from).collect(),
            agent_skills: skills.into_iter().map(PartView::from).collect(),
            files: files.into_iter().map(FileView::from).collect(),
            file_count,
            permissions: serde_json::json!(permissions),
        }
    }
}
