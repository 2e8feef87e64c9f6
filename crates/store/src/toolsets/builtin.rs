//! What an organisation changed about the tools that are compiled in.

use kitbag_model::{Override, OverrideKey, ToolsetId};

use super::overrides::{OverrideRow, Stored};
use crate::error::StoreError;
use crate::tx::{Tx, WriteTx, execute, on};

impl<Mode> Tx<Mode> {
    /// What is overridden of the built-in tools.
    pub async fn builtin_overrides(&mut self) -> Result<Vec<(OverrideKey, Override)>, StoreError> {
        let rows: Vec<OverrideRow> = on!(self, c => sqlx::query_as(
            "SELECT tool_id, renderer, renderer_config, name_override, description_override, requires_confirmation, enabled
             FROM builtin_overrides WHERE organization_id = $1 ORDER BY tool_id")
            .bind(self.org.as_str()).fetch_all(c))?;
        let builtin = ToolsetId::builtin();
        let read = |row: OverrideRow| {
            let (key, over) = row.read()?;
            let key = OverrideKey::parse(&key, &builtin);
            Ok((key.map_err(|_| StoreError::Corrupt { column: "builtin_overrides.tool_id" })?, over))
        };
        rows.into_iter().map(read).collect()
    }
}

impl WriteTx {
    /// Sets what is overridden of some built-in tools, in place of what was.
    pub async fn set_builtin_override(&mut self, key: &OverrideKey, over: &Override) -> Result<(), StoreError> {
        let stored = Stored::new(over);
        execute!(
            self,
            sqlx::query(
                "INSERT INTO builtin_overrides (organization_id, tool_id, renderer, renderer_config, name_override,
                     description_override, requires_confirmation, enabled)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT (organization_id, tool_id) DO UPDATE SET renderer = excluded.renderer,
                     renderer_config = excluded.renderer_config, name_override = excluded.name_override,
                     description_override = excluded.description_override,
                     requires_confirmation = excluded.requires_confirmation, enabled = excluded.enabled"
            )
            .bind(self.org.as_str())
            .bind(key.as_str())
            .bind(stored.renderer)
            .bind(stored.config.as_deref())
            .bind(over.name.as_deref())
            .bind(over.description.as_deref())
            .bind(over.requires_confirmation)
            .bind(over.enabled)
        )?;
        Ok(())
    }

    /// Takes back what is overridden of some built-in tools. Whether there was anything.
    pub async fn clear_builtin_override(&mut self, key: &OverrideKey) -> Result<bool, StoreError> {
        let deleted = execute!(
            self,
            sqlx::query("DELETE FROM builtin_overrides WHERE organization_id = $1 AND tool_id = $2")
                .bind(self.org.as_str())
                .bind(key.as_str())
        )?;
        Ok(deleted > 0)
    }
}
