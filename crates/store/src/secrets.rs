//! Values that were encrypted before they came here. This room cannot read them and does not know the key.

use std::collections::BTreeSet;

use kitbag_model::Timestamp;

use crate::error::StoreError;
use crate::row::At;
use crate::tx::{Tx, WriteTx, execute, on};

impl<Mode> Tx<Mode> {
    /// One value of a kind.
    pub async fn secret(&mut self, kind: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(on!(self, c => sqlx::query_scalar(
            "SELECT sealed FROM secrets WHERE organization_id = $1 AND kind = $2 AND name = $3")
            .bind(self.org.as_str()).bind(kind).bind(name).fetch_optional(c))?)
    }

    /// The names that values of these kinds have, each once.
    pub async fn secret_names(&mut self, kinds: &[&str]) -> Result<BTreeSet<String>, StoreError> {
        let mut names = BTreeSet::new();
        for kind in kinds {
            let found: Vec<String> = on!(self, c => sqlx::query_scalar(
                "SELECT name FROM secrets WHERE organization_id = $1 AND kind = $2")
                .bind(self.org.as_str()).bind(*kind).fetch_all(c))?;
            names.extend(found);
        }
        Ok(names)
    }

    /// All values of a kind with their names, by name.
    pub async fn secrets_of_kind(&mut self, kind: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        Ok(on!(self, c => sqlx::query_as(
            "SELECT name, sealed FROM secrets WHERE organization_id = $1 AND kind = $2 ORDER BY name")
            .bind(self.org.as_str()).bind(kind).fetch_all(c))?)
    }
}

impl WriteTx {
    /// Keeps a value, in place of the one that had its kind and name.
    pub async fn put_secret(&mut self, kind: &str, name: &str, sealed: &[u8]) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO secrets (organization_id, kind, name, sealed, updated_at) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (organization_id, kind, name)
                 DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at"
            )
            .bind(self.org.as_str())
            .bind(kind)
            .bind(name)
            .bind(sealed)
            .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }

    /// Forgets a value. Whether there was one.
    pub async fn delete_secret(&mut self, kind: &str, name: &str) -> Result<bool, StoreError> {
        let deleted = execute!(
            self,
            sqlx::query("DELETE FROM secrets WHERE organization_id = $1 AND kind = $2 AND name = $3")
                .bind(self.org.as_str())
                .bind(kind)
                .bind(name)
        )?;
        Ok(deleted > 0)
    }
}
