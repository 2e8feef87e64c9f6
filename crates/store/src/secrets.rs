//! Values that were encrypted before they came here. This room cannot read them and does not know the key.

use std::collections::BTreeSet;

use kitbag_model::Timestamp;

use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

/// What may be told of a value: its name, and who gave it when.
#[derive(Clone, Debug)]
pub struct KeptSecret {
    /// Its name.
    pub name: String,
    /// When it was last given.
    pub updated_at: Timestamp,
    /// Who gave it, if that was written down.
    pub updated_by: Option<String>,
}

row!(KeptRow { name: String, updated_at: At, updated_by: Option<String> });

impl<Mode> Tx<Mode> {
    /// What may be told of the values of a kind, by name.
    pub async fn kept_secrets(&mut self, kind: &str) -> Result<Vec<KeptSecret>, StoreError> {
        let rows: Vec<KeptRow> = on!(self, c => sqlx::query_as(
            "SELECT name, updated_at, updated_by FROM secrets WHERE organization_id = $1 AND kind = $2 ORDER BY name")
            .bind(self.org.as_str()).bind(kind).fetch_all(c))?;
        let told =
            |row: KeptRow| KeptSecret { name: row.name, updated_at: row.updated_at.0, updated_by: row.updated_by };
        Ok(rows.into_iter().map(told).collect())
    }

    /// Values of all kinds, in a fixed order, behind the kind and name that `after` has.
    pub async fn secrets_after(
        &mut self,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<(String, String, Vec<u8>)>, StoreError> {
        Ok(on!(self, c => sqlx::query_as(
            "SELECT kind, name, sealed FROM secrets
             WHERE organization_id = $1 AND (kind > $2 OR (kind = $2 AND name > $3)) ORDER BY kind, name LIMIT $4")
            .bind(self.org.as_str()).bind(after.0).bind(after.1).bind(i64::from(limit)).fetch_all(c))?)
    }

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

    /// The same, and who gave it.
    pub async fn give_secret(&mut self, kind: &str, name: &str, sealed: &[u8], who: &str) -> Result<(), StoreError> {
        self.put_secret(kind, name, sealed).await?;
        execute!(
            self,
            sqlx::query("UPDATE secrets SET updated_by = $4 WHERE organization_id = $1 AND kind = $2 AND name = $3")
                .bind(self.org.as_str())
                .bind(kind)
                .bind(name)
                .bind(who)
        )?;
        Ok(())
    }

    /// Puts another sealing of the same value in place of `before`, unless somebody gave another value meanwhile. Whether it did.
    pub async fn reseal_secret(
        &mut self,
        kind: &str,
        name: &str,
        before: &[u8],
        sealed: &[u8],
    ) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE secrets SET sealed = $5
                 WHERE organization_id = $1 AND kind = $2 AND name = $3 AND sealed = $4"
            )
            .bind(self.org.as_str())
            .bind(kind)
            .bind(name)
            .bind(before)
            .bind(sealed)
        )?;
        Ok(changed > 0)
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
