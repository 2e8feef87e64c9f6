//! Reading the parts of toolsets: files, tools, servers, skills.

use std::collections::BTreeMap;

use kitbag_model::{
    AgreedRevision, InstalledServer, InstalledSkill, McpServer, Permissions, PythonNeeds, PythonTool, RawLaunch, Skill,
    SkillRef, ToolId, ToolsetFile, ToolsetId, WorkPath,
};
use serde::de::DeserializeOwned;

use super::whole::{ByToolset, Span, by_toolset};
use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, on};

row!(NeedsRow { id: String, python: Option<String>, permissions: Option<String> });

row!(FileRow { path: String, kind: String, sha256: String, size: i64, executable: bool });
row!(ToolRow {
    toolset_id: String,
    tool_id: String,
    name: Option<String>,
    description: Option<String>,
    input_schema: Option<String>,
    requires_confirmation: Option<bool>,
    enabled: bool,
    entrypoint: Option<String>,
});
row!(ServerRow {
    toolset_id: String,
    id: String,
    server_type: String,
    enabled: bool,
    user_enabled: Option<bool>,
    command: Option<String>,
    args: Option<String>,
    cwd: Option<String>,
    url: Option<String>,
    headers: Option<String>,
    env: Option<String>,
    requires_confirmation: Option<bool>,
    description: Option<String>,
    created_at: At,
    pin_policy: Option<String>,
    strict_records: bool,
    tools_seen_at: Option<At>,
    agreed_revision: Option<String>,
    agreed_launch_sha256: Option<String>,
    agreed_at: Option<At>,
    agreed_offers: Option<String>,
    sandbox: bool,
    config_sha256: Option<String>,
});
row!(SkillRow {
    toolset_id: String,
    id: String,
    listed: bool,
    name: String,
    description: Option<String>,
    path: String,
    enabled: bool,
    user_enabled: Option<bool>,
});

/// A value that is kept as JSON.
fn json<T: DeserializeOwned>(text: Option<String>, column: &'static str) -> Result<Option<T>, StoreError> {
    text.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| StoreError::Corrupt { column })
}

/// A checked text that may be absent.
fn text<T: std::str::FromStr>(text: Option<String>, column: &'static str) -> Result<Option<T>, StoreError> {
    text.map(|text| text.parse()).transpose().map_err(|_| StoreError::Corrupt { column })
}

impl TryFrom<FileRow> for ToolsetFile {
    type Error = StoreError;

    fn try_from(row: FileRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        Ok(Self {
            path: row.path.parse().map_err(|_| corrupt("toolset_files.path"))?,
            kind: row.kind.parse().map_err(|_| corrupt("toolset_files.kind"))?,
            sha256: row.sha256.parse().map_err(|_| corrupt("toolset_files.sha256"))?,
            size: u64::try_from(row.size).map_err(|_| corrupt("toolset_files.size"))?,
            executable: row.executable,
        })
    }
}

impl TryFrom<ToolRow> for PythonTool {
    type Error = StoreError;

    fn try_from(row: ToolRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let Ok(ToolId::Toolset { tool, .. }) = row.tool_id.parse() else { return Err(corrupt("tools.tool_id")) };
        let entrypoint = text(row.entrypoint, "tools.entrypoint")?;
        Ok(Self {
            id: tool,
            entrypoint: entrypoint.ok_or_else(|| corrupt("tools.entrypoint"))?,
            name: text(row.name, "tools.name")?,
            description: text(row.description, "tools.description")?,
            input_schema: json(row.input_schema, "tools.input_schema")?,
            requires_confirmation: row.requires_confirmation,
            enabled: row.enabled,
        })
    }
}

impl TryFrom<ServerRow> for InstalledServer {
    type Error = StoreError;

    fn try_from(row: ServerRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let map = |text, column| json::<BTreeMap<String, String>>(text, column).map(Option::unwrap_or_default);
        let launch = RawLaunch {
            server_type: Some(row.server_type),
            command: row.command,
            args: json(row.args, "toolset_mcp_servers.args")?.unwrap_or_default(),
            cwd: row.cwd,
            env: map(row.env, "toolset_mcp_servers.env")?,
            url: row.url,
            headers: map(row.headers, "toolset_mcp_servers.headers")?,
        };
        let agreed_launch = text(row.agreed_launch_sha256, "toolset_mcp_servers.agreed_launch_sha256")?;
        Ok(Self {
            server: McpServer {
                id: row.id.parse().map_err(|_| corrupt("toolset_mcp_servers.id"))?,
                launch: launch.check().map_err(|_| corrupt("toolset_mcp_servers"))?,
                enabled: row.enabled,
                requires_confirmation: row.requires_confirmation,
                description: text(row.description, "toolset_mcp_servers.description")?,
            },
            user_enabled: row.user_enabled,
            created_at: row.created_at.0,
            trusted: text(row.config_sha256, "trust_records.config_sha256")?,
            pin_policy: text(row.pin_policy, "toolset_mcp_servers.pin_policy")?,
            strict_records: row.strict_records,
            tools_seen_at: row.tools_seen_at.map(|at| at.0),
            agreed: match (row.agreed_revision, agreed_launch, row.agreed_at) {
                (Some(revision), Some(launch), Some(At(at))) => {
                    // What cannot be read is found out again.
                    let offers = row.agreed_offers.and_then(|text| serde_json::from_str(&text).ok());
                    Some(AgreedRevision { revision, launch, at, offers })
                }
                _ => None,
            },
            sandbox: row.sandbox,
        })
    }
}

impl TryFrom<SkillRow> for InstalledSkill {
    type Error = StoreError;

    fn try_from(row: SkillRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        Ok(Self {
            skill: Skill {
                reference: SkillRef {
                    id: row.id.parse().map_err(|_| corrupt("toolset_skills.id"))?,
                    path: row.path.parse().map_err(|_| corrupt("toolset_skills.path"))?,
                    enabled: row.enabled,
                },
                listed: row.listed,
                name: row.name,
                description: row.description,
            },
            user_enabled: row.user_enabled,
        })
    }
}

impl<Mode> Tx<Mode> {
    /// Files of a toolset by path, behind `after`.
    pub async fn toolset_files(
        &mut self,
        id: &ToolsetId,
        after: Option<&WorkPath>,
        limit: u32,
    ) -> Result<Page<ToolsetFile>, StoreError> {
        let rows: Vec<FileRow> = on!(self, c => sqlx::query_as(
            "SELECT path, kind, sha256, size, executable FROM toolset_files
             WHERE organization_id = $1 AND toolset_id = $2 AND path > $3 ORDER BY path LIMIT $4")
            .bind(self.org.as_str()).bind(id.as_str()).bind(after.map_or("", WorkPath::as_str))
            .bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }

    /// All files of a toolset below one of its folders, by path, but no more than so many.
    pub async fn toolset_files_below(
        &mut self,
        id: &ToolsetId,
        folder: &WorkPath,
        limit: u32,
    ) -> Result<Vec<ToolsetFile>, StoreError> {
        // `0` is the character behind `/`: paths are compared by their bytes on both databases.
        let rows: Vec<FileRow> = on!(self, c => sqlx::query_as(
            "SELECT path, kind, sha256, size, executable FROM toolset_files
             WHERE organization_id = $1 AND toolset_id = $2 AND path > $3 AND path < $4 ORDER BY path LIMIT $5")
            .bind(self.org.as_str()).bind(id.as_str()).bind(format!("{folder}/")).bind(format!("{folder}0"))
            .bind(i64::from(limit)).fetch_all(c))?;
        rows.into_iter().map(ToolsetFile::try_from).collect()
    }

    /// One file of a toolset.
    pub async fn toolset_file(&mut self, id: &ToolsetId, path: &WorkPath) -> Result<Option<ToolsetFile>, StoreError> {
        let row: Option<FileRow> = on!(self, c => sqlx::query_as(
            "SELECT path, kind, sha256, size, executable FROM toolset_files
             WHERE organization_id = $1 AND toolset_id = $2 AND path = $3")
            .bind(self.org.as_str()).bind(id.as_str()).bind(path.as_str()).fetch_optional(c))?;
        row.map(ToolsetFile::try_from).transpose()
    }

    pub(super) async fn needs_of(
        &mut self,
        span: Span<'_>,
    ) -> Result<ByToolset<(PythonNeeds, Permissions)>, StoreError> {
        let rows: Vec<NeedsRow> = on!(self, c => sqlx::query_as(
            "SELECT id, python, permissions FROM toolsets WHERE organization_id = $1 AND id >= $2 AND id <= $3")
            .bind(self.org.as_str()).bind(span.from).bind(span.to).fetch_all(c))?;
        by_toolset(rows, |row| {
            let python = json(row.python, "toolsets.python")?.unwrap_or_default();
            Ok((row.id, (python, json(row.permissions, "toolsets.permissions")?.unwrap_or_default())))
        })
    }

    pub(super) async fn tools_of(&mut self, span: Span<'_>) -> Result<ByToolset<PythonTool>, StoreError> {
        let rows: Vec<ToolRow> = on!(self, c => sqlx::query_as(
            "SELECT toolset_id, tool_id, name, description, input_schema, requires_confirmation, enabled, entrypoint
             FROM tools WHERE organization_id = $1 AND toolset_id >= $2 AND toolset_id <= $3
             ORDER BY toolset_id, position")
            .bind(self.org.as_str()).bind(span.from).bind(span.to).fetch_all(c))?;
        by_toolset(rows, |row| Ok((row.toolset_id.clone(), row.try_into()?)))
    }

    pub(super) async fn servers_of(&mut self, span: Span<'_>) -> Result<ByToolset<InstalledServer>, StoreError> {
        let rows: Vec<ServerRow> = on!(self, c => sqlx::query_as(
            "SELECT s.toolset_id, s.id, s.server_type, s.enabled, s.user_enabled, s.command, s.args, s.cwd, s.url,
                    s.headers, s.env, s.requires_confirmation, s.description, s.created_at, s.pin_policy,
                    s.strict_records, s.tools_seen_at, s.agreed_revision, s.agreed_launch_sha256, s.agreed_at,
                    s.agreed_offers, s.sandbox, t.config_sha256
             FROM toolset_mcp_servers s LEFT JOIN trust_records t
                  ON t.organization_id = s.organization_id AND t.toolset_id = s.toolset_id AND t.server_id = s.id
             WHERE s.organization_id = $1 AND s.toolset_id >= $2 AND s.toolset_id <= $3
             ORDER BY s.toolset_id, s.position")
            .bind(self.org.as_str()).bind(span.from).bind(span.to).fetch_all(c))?;
        by_toolset(rows, |row| Ok((row.toolset_id.clone(), row.try_into()?)))
    }

    pub(super) async fn skills_of(&mut self, span: Span<'_>) -> Result<ByToolset<InstalledSkill>, StoreError> {
        let rows: Vec<SkillRow> = on!(self, c => sqlx::query_as(
            "SELECT toolset_id, id, listed, name, description, path, enabled, user_enabled FROM toolset_skills
             WHERE organization_id = $1 AND toolset_id >= $2 AND toolset_id <= $3 ORDER BY toolset_id, position")
            .bind(self.org.as_str()).bind(span.from).bind(span.to).fetch_all(c))?;
        by_toolset(rows, |row| Ok((row.toolset_id.clone(), row.try_into()?)))
    }
}
