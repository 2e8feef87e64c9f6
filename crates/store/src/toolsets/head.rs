//! The rows of toolsets themselves.

use std::str::FromStr;

use kitbag_model::{Audience, SkillId, Timestamp, Toolset, ToolsetId, UserId, Visibility};

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Inner, Tx, WriteTx, execute, on};

row!(ToolsetRow {
    id: String,
    name: String,
    version: String,
    description: Option<String>,
    enabled: bool,
    user_mcp: bool,
    installed_at: At,
    updated_at: At,
    source_type: String,
    source_ref: Option<String>,
    visibility: String,
    public_slug: Option<String>,
    published_at: Option<At>,
    adopted_from: Option<String>,
    created_by_user_id: Option<String>,
    updated_by_user_id: Option<String>,
    generation: Option<String>,
});

impl TryFrom<ToolsetRow> for Toolset {
    type Error = StoreError;

    fn try_from(row: ToolsetRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let description = row.description.map(|text| text.parse()).transpose();
        let adopted_from = row.adopted_from.map(|text| serde_json::from_str(&text)).transpose();
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("toolsets.id"))?,
            name: row.name.parse().map_err(|_| corrupt("toolsets.name"))?,
            version: row.version.parse().map_err(|_| corrupt("toolsets.version"))?,
            description: description.map_err(|_| corrupt("toolsets.description"))?,
            enabled: row.enabled,
            user_mcp: row.user_mcp,
            installed_at: row.installed_at.0,
            updated_at: row.updated_at.0,
            source_type: row.source_type.parse().map_err(|_| corrupt("toolsets.source_type"))?,
            source_ref: row.source_ref,
            visibility: row.visibility.parse().map_err(|_| corrupt("toolsets.visibility"))?,
            public_slug: read(row.public_slug).map_err(|()| corrupt("toolsets.public_slug"))?,
            published_at: row.published_at.map(|at| at.0),
            adopted_from: adopted_from.map_err(|_| corrupt("toolsets.adopted_from"))?,
            created_by: read(row.created_by_user_id).map_err(|()| corrupt("toolsets.created_by_user_id"))?,
            updated_by: read(row.updated_by_user_id).map_err(|()| corrupt("toolsets.updated_by_user_id"))?,
            generation: row.generation,
        })
    }
}

/// A text that may be missing.
fn read<T: FromStr>(text: Option<String>) -> Result<Option<T>, ()> {
    text.map(|text| text.parse()).transpose().map_err(drop)
}

impl<Mode> Tx<Mode> {
    /// One toolset without its parts.
    pub async fn toolset(&mut self, id: &ToolsetId) -> Result<Option<Toolset>, StoreError> {
        let row: Option<ToolsetRow> = on!(self, c => sqlx::query_as(
            "SELECT id, name, version, description, enabled, user_mcp, installed_at, updated_at, source_type, source_ref,
                    visibility, public_slug, published_at, adopted_from, created_by_user_id, updated_by_user_id, generation
             FROM toolsets WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(id.as_str()).fetch_optional(c))?;
        row.map(Toolset::try_from).transpose()
    }

    /// Toolsets by id that an audience sees, behind `after`; only those that were made for one MCP server, or only the others, if that is
    /// asked.
    pub async fn toolsets(
        &mut self,
        audience: Audience,
        user_mcp: Option<bool>,
        after: Option<&ToolsetId>,
        limit: u32,
    ) -> Result<Page<Toolset>, StoreError> {
        let rows: Vec<ToolsetRow> = on!(self, c => sqlx::query_as(
            "SELECT id, name, version, description, enabled, user_mcp, installed_at, updated_at, source_type, source_ref,
                    visibility, public_slug, published_at, adopted_from, created_by_user_id, updated_by_user_id, generation
             FROM toolsets WHERE organization_id = $1 AND id > $2 AND (NOT $3 OR user_mcp = $4)
                   AND ($6 OR visibility <> 'private' OR created_by_user_id = $7)
             ORDER BY id LIMIT $5")
            .bind(self.org.as_str()).bind(after.map_or("", ToolsetId::as_str))
            .bind(user_mcp.is_some()).bind(user_mcp.unwrap_or_default()).bind(i64::from(limit) + 1)
            .bind(audience.only().is_none()).bind(audience.only().flatten().map(|user| user.to_string()))
            .fetch_all(c))?;
        Page::from_rows(rows, limit)
    }

    /// All toolsets without their parts, in the order in which they were installed.
    pub(super) async fn all_toolsets(&mut self) -> Result<Vec<Toolset>, StoreError> {
        let rows: Vec<ToolsetRow> = on!(self, c => sqlx::query_as(
            "SELECT id, name, version, description, enabled, user_mcp, installed_at, updated_at, source_type, source_ref,
                    visibility, public_slug, published_at, adopted_from, created_by_user_id, updated_by_user_id, generation
             FROM toolsets WHERE organization_id = $1 ORDER BY installed_at, id")
            .bind(self.org.as_str()).fetch_all(c))?;
        rows.into_iter().map(Toolset::try_from).collect()
    }
}

impl WriteTx {
    /// A toolset, which nobody else changes until the transaction ends.
    pub async fn lock_toolset(&mut self, id: &ToolsetId) -> Result<Option<Toolset>, StoreError> {
        if self.hold_toolset(id).await? { self.toolset(id).await } else { Ok(None) }
    }

    /// Has whoever else wants to change a toolset or what belongs to it wait until this transaction is over. Whether there is one.
    /// Before any of it is changed, and before settings and the gallery: everybody locks in this order. One that is not there is not held,
    /// even if somebody makes it a moment later: who wants to change it must stop.
    pub(crate) async fn hold_toolset(&mut self, id: &ToolsetId) -> Result<bool, StoreError> {
        let lock = match &self.inner {
            // Who writes is alone.
            Inner::Sqlite(_) => "SELECT TRUE FROM toolsets WHERE organization_id = $1 AND id = $2",
            Inner::Postgres(_) => "SELECT TRUE FROM toolsets WHERE organization_id = $1 AND id = $2 FOR UPDATE",
        };
        let found: Option<bool> =
            on!(self, c => sqlx::query_scalar(lock).bind(self.org.as_str()).bind(id.as_str()).fetch_optional(c))?;
        Ok(found.is_some())
    }

    /// Changes who sees a toolset, and notes who did. Whether there is one.
    pub async fn set_toolset_visibility(
        &mut self,
        id: &ToolsetId,
        visibility: Visibility,
        by: Option<UserId>,
    ) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolsets SET visibility = $3, updated_at = $4, updated_by_user_id = $5
                 WHERE organization_id = $1 AND id = $2"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(visibility.as_str())
            .bind(At(Timestamp::now()))
            .bind(by.map(|user| user.to_string()))
        )?;
        Ok(changed > 0)
    }

    /// What a person says about a skill's being used; none: what its toolset says. Whether there is such a skill.
    pub async fn enable_skill(
        &mut self,
        id: &ToolsetId,
        skill: &SkillId,
        enabled: Option<bool>,
    ) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_skills SET user_enabled = $4
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(skill.as_str())
            .bind(enabled)
        )?;
        Ok(changed > 0)
    }

    /// Turns a toolset on or off. Whether there is one.
    pub async fn enable_toolset(&mut self, id: &ToolsetId, enabled: bool) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query("UPDATE toolsets SET enabled = $3, updated_at = $4 WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(id.as_str())
                .bind(enabled)
                .bind(At(Timestamp::now()))
        )?;
        Ok(changed > 0)
    }

    /// Removes a toolset and all its rows; settings name it no longer. Whether there was one. If it is published, it is taken back:
    /// the gallery has nothing that nobody could take back any more.
    pub async fn uninstall_toolset(&mut self, id: &ToolsetId) -> Result<bool, StoreError> {
        if !self.hold_toolset(id).await? {
            return Ok(false);
        }
        self.replace_default_toolset(id, None).await?;
        self.take_back(id).await?;
        let deleted = execute!(
            self,
            sqlx::query("DELETE FROM toolsets WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(id.as_str())
        )?;
        Ok(deleted > 0)
    }
}
