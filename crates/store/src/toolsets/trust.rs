//! What a person trusts: a server, or a toolset itself, as it was when it was shown.

use kitbag_model::{ContentHash, Timestamp, ToolsetId};

use super::whole::{ByToolset, Span, by_toolset};
use crate::error::StoreError;
use crate::row::At;
use crate::tx::{Tx, WriteTx, execute, on};

impl<Mode> Tx<Mode> {
    /// What toolsets themselves were trusted to be; their servers have trust of their own.
    pub(super) async fn trust_in_itself(&mut self, span: Span<'_>) -> Result<ByToolset<ContentHash>, StoreError> {
        let found: Vec<(String, String)> = on!(self, c => sqlx::query_as(
            "SELECT toolset_id, config_sha256 FROM trust_records
             WHERE organization_id = $1 AND toolset_id >= $2 AND toolset_id <= $3 AND server_id = ''")
            .bind(self.org.as_str()).bind(span.from).bind(span.to).fetch_all(c))?;
        by_toolset(found, |(toolset, hash)| {
            let hash = hash.parse().map_err(|_| StoreError::Corrupt { column: "trust_records.config_sha256" })?;
            Ok((toolset, hash))
        })
    }
}

impl WriteTx {
    /// Remembers that a person trusts a server, or a toolset itself (`""`), as it is.
    pub async fn trust(&mut self, id: &ToolsetId, server: &str, as_it_is: &ContentHash) -> Result<(), StoreError> {
        if !self.hold_toolset(id).await? {
            return Err(StoreError::Reference);
        }
        execute!(
            self,
            sqlx::query(
                "INSERT INTO trust_records (organization_id, toolset_id, server_id, config_sha256, trusted_at)
                 VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (organization_id, toolset_id, server_id)
                 DO UPDATE SET config_sha256 = excluded.config_sha256, trusted_at = excluded.trusted_at"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(server)
            .bind(as_it_is.to_string())
            .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }
}
