//! Overrides of toolsets: those that a bundle brought and those that a person set, kept apart.

use kitbag_model::{Override, OverrideKey, ToolsetId, overrides, renderer};
use uuid::Uuid;

use super::install::to_json;
use super::whole::{ByToolset, Span, by_toolset};
use crate::error::StoreError;
use crate::row::row;
use crate::tx::{Tx, WriteTx, execute, on};

row!(OverrideRow {
    tool_id: String,
    renderer: Option<String>,
    renderer_config: Option<String>,
    name_override: Option<String>,
    description_override: Option<String>,
    requires_confirmation: Option<bool>,
    enabled: Option<bool>,
});

row!(OwnedRow {
    toolset_id: String,
    origin: String,
    tool_id: String,
    renderer: Option<String>,
    renderer_config: Option<String>,
    name_override: Option<String>,
    description_override: Option<String>,
    requires_confirmation: Option<bool>,
    enabled: Option<bool>,
});

/// What is said about tools, by toolset.
pub(super) type Said = ByToolset<(OverrideKey, Override)>;

impl OwnedRow {
    fn read(self) -> Result<(String, (OverrideKey, Override)), StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let id: ToolsetId = self.toolset_id.parse().map_err(|_| corrupt("tool_overrides.toolset_id"))?;
        let row = OverrideRow {
            tool_id: self.tool_id,
            renderer: self.renderer,
            renderer_config: self.renderer_config,
            name_override: self.name_override,
            description_override: self.description_override,
            requires_confirmation: self.requires_confirmation,
            enabled: self.enabled,
        };
        let (key, over) = row.read()?;
        let key = OverrideKey::parse(&key, &id).map_err(|_| corrupt("tool_overrides.tool_id"))?;
        Ok((self.toolset_id, (key, over)))
    }
}

impl OverrideRow {
    pub(super) fn read(self) -> Result<(String, Override), StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let config = self.renderer_config.map(|text| serde_json::from_str(&text)).transpose();
        let config = config.map_err(|_| corrupt("tool_overrides.renderer_config"))?;
        let rendering = renderer::check(self.renderer.as_deref(), config.as_ref());
        let over = Override {
            rendering: rendering.map_err(|_| corrupt("tool_overrides.renderer"))?,
            name: self.name_override,
            description: self.description_override,
            requires_confirmation: self.requires_confirmation,
            enabled: self.enabled,
        };
        Ok((self.tool_id, over))
    }
}

/// An override in the form that columns have.
pub(super) struct Stored<'a> {
    pub(super) renderer: Option<&'static str>,
    pub(super) config: Option<String>,
    pub(super) over: &'a Override,
}

impl<'a> Stored<'a> {
    pub(super) fn new(over: &'a Override) -> Self {
        let (renderer, config) = overrides::flat_rendering(over.rendering.as_ref());
        Self { renderer: renderer.map(|renderer| renderer.name()), config: config.map(to_json), over }
    }
}

impl<Mode> Tx<Mode> {
    /// What bundles say, and what people say.
    pub(super) async fn overrides_of(&mut self, span: Span<'_>) -> Result<(Said, Said), StoreError> {
        let rows: Vec<OwnedRow> = on!(self, c => sqlx::query_as(
            "SELECT toolset_id, origin, tool_id, renderer, renderer_config, name_override, description_override,
                    requires_confirmation, enabled
             FROM tool_overrides WHERE organization_id = $1 AND toolset_id >= $2 AND toolset_id <= $3
             ORDER BY toolset_id, position, tool_id")
            .bind(self.org.as_str()).bind(span.from).bind(span.to).fetch_all(c))?;
        let (bundles, people) = rows.into_iter().partition(|row| row.origin == "bundle");
        Ok((by_toolset(bundles, OwnedRow::read)?, by_toolset(people, OwnedRow::read)?))
    }
}

impl WriteTx {
    /// Sets what a person says about some tools of a toolset, in place of what that person said before.
    pub async fn set_override(&mut self, id: &ToolsetId, key: &OverrideKey, over: &Override) -> Result<(), StoreError> {
        self.insert_override(id, key, &Stored::new(over), "user", 0).await
    }

    /// Takes back what a person said. Whether there was anything.
    pub async fn clear_override(&mut self, id: &ToolsetId, key: &OverrideKey) -> Result<bool, StoreError> {
        let deleted = execute!(
            self,
            sqlx::query(
                "DELETE FROM tool_overrides
                 WHERE organization_id = $1 AND toolset_id = $2 AND tool_id = $3 AND origin = 'user'"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(key.as_str())
        )?;
        Ok(deleted > 0)
    }

    pub(super) async fn insert_override(
        &mut self,
        id: &ToolsetId,
        key: &OverrideKey,
        stored: &Stored<'_>,
        origin: &str,
        position: usize,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO tool_overrides (organization_id, id, toolset_id, tool_id, origin, position, renderer,
                     renderer_config, name_override, description_override, requires_confirmation, enabled)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
                 ON CONFLICT (organization_id, toolset_id, tool_id, origin) DO UPDATE SET renderer = excluded.renderer,
                     renderer_config = excluded.renderer_config, name_override = excluded.name_override,
                     description_override = excluded.description_override,
                     requires_confirmation = excluded.requires_confirmation, enabled = excluded.enabled"
            )
            .bind(self.org.as_str())
            .bind(Uuid::now_v7().to_string())
            .bind(id.as_str())
            .bind(key.as_str())
            .bind(origin)
            .bind(position as i64)
            .bind(stored.renderer)
            .bind(stored.config.as_deref())
            .bind(stored.over.name.as_deref())
            .bind(stored.over.description.as_deref())
            .bind(stored.over.requires_confirmation)
            .bind(stored.over.enabled)
        )?;
        Ok(())
    }
}
