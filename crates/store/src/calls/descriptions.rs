//! What was found in a toolset's code. The text is the finder's; here it is only kept.

use kitbag_model::{Timestamp, ToolsetId};

use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(DescriptionRow { toolset_id: String, generation: String, description: String });

/// What is kept of one toolset: which one, of which code, and the text.
pub type KeptDescription = (ToolsetId, String, String);

impl TryFrom<DescriptionRow> for KeptDescription {
    type Error = StoreError;

    fn try_from(row: DescriptionRow) -> Result<Self, StoreError> {
        let corrupt = |_| StoreError::Corrupt { column: "tool_descriptions.toolset_id" };
        Ok((row.toolset_id.parse().map_err(corrupt)?, row.generation, row.description))
    }
}

impl<Mode> Tx<Mode> {
    /// What was found in the code of each toolset.
    pub async fn tool_descriptions(&mut self) -> Result<Vec<KeptDescription>, StoreError> {
        let rows: Vec<DescriptionRow> = on!(self, c => sqlx::query_as(
            "SELECT toolset_id, generation, description FROM tool_descriptions WHERE organization_id = $1")
            .bind(self.org.as_str()).fetch_all(c))?;
        rows.into_iter().map(KeptDescription::try_from).collect()
    }

    /// What was found in the code of one toolset, if it is of this code.
    pub async fn tool_description(&mut self, id: &ToolsetId, generation: &str) -> Result<Option<String>, StoreError> {
        Ok(on!(self, c => sqlx::query_scalar(
            "SELECT description FROM tool_descriptions WHERE organization_id = $1 AND toolset_id = $2 AND generation = $3")
            .bind(self.org.as_str()).bind(id.as_str()).bind(generation).fetch_optional(c))?)
    }
}

impl WriteTx {
    /// Keeps what was found in the code of a toolset, in place of what was.
    pub async fn set_tool_description(
        &mut self,
        id: &ToolsetId,
        generation: &str,
        description: &str,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO tool_descriptions (organization_id, toolset_id, generation, description, made_at)
                 VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (organization_id, toolset_id) DO UPDATE SET generation = excluded.generation,
                     description = excluded.description, made_at = excluded.made_at"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(generation)
            .bind(description)
            .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }
}
