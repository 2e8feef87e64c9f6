//! The settings of an organisation: one text, read into the model's checked value. What they mean is not known here.

use kitbag_model::{OrgSettings, Timestamp, ToolsetId};

use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(SettingsRow { settings: String, updated_at: At });

impl<Mode> Tx<Mode> {
    /// What the organisation says about itself, and since when. None if there is no such organisation.
    pub async fn settings(&mut self) -> Result<Option<(OrgSettings, Timestamp)>, StoreError> {
        let row: Option<SettingsRow> = on!(self, c => sqlx::query_as(
            "SELECT settings, updated_at FROM organization_settings WHERE organization_id = $1")
            .bind(self.org.as_str()).fetch_optional(c))?;
        let corrupt = |_| StoreError::Corrupt { column: "organization_settings.settings" };
        row.map(|row| Ok((serde_json::from_str(&row.settings).map_err(corrupt)?, row.updated_at.0))).transpose()
    }
}

impl WriteTx {
    /// Has whoever else wants to change the settings wait until this transaction is over. Before they are read.
    pub async fn lock_settings(&mut self) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("UPDATE organization_settings SET updated_at = updated_at WHERE organization_id = $1")
                .bind(self.org.as_str())
        )?;
        Ok(())
    }

    /// Says something else. When that was.
    pub async fn put_settings(&mut self, settings: &OrgSettings) -> Result<Timestamp, StoreError> {
        let now = Timestamp::now();
        execute!(
            self,
            sqlx::query("UPDATE organization_settings SET settings = $2, updated_at = $3 WHERE organization_id = $1")
                .bind(self.org.as_str())
                .bind(settings.to_text())
                .bind(At(now))
        )?;
        Ok(now)
    }

    /// A toolset is gone, or has another id: settings that name it follow. Whether they did.
    pub async fn replace_default_toolset(
        &mut self,
        gone: &ToolsetId,
        now: Option<&ToolsetId>,
    ) -> Result<bool, StoreError> {
        self.lock_settings().await?;
        let Some((mut settings, _)) = self.settings().await? else { return Ok(false) };
        if settings.toolsets.default_toolset_id.as_ref() != Some(gone) {
            return Ok(false);
        }
        settings.toolsets.default_toolset_id = now.cloned();
        self.put_settings(&settings).await?;
        Ok(true)
    }
}
