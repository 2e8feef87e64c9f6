//! Organisations. Making one is done from inside: the transaction is bound to the id that is about to exist.

use kitbag_model::{Organization, OrganizationName, Timestamp};

use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

/// The organisation of the embedded mode is there from the start, on both databases.
pub(crate) const INSERT_LOCAL: [&str; 2] = [
    "INSERT INTO organizations (id, created_at) VALUES ('local', $1) ON CONFLICT (id) DO NOTHING",
    "INSERT INTO organization_settings (organization_id, name, settings, updated_at) VALUES ('local', 'Local', '{}', $1)
     ON CONFLICT (organization_id) DO NOTHING",
];

row!(OrganizationRow { name: String, created_at: At });

impl WriteTx {
    /// Makes the organisation that this transaction is bound to.
    pub async fn create_organization(&mut self, name: &OrganizationName) -> Result<Organization, StoreError> {
        let now = Timestamp::now();
        execute!(
            self,
            sqlx::query("INSERT INTO organizations (id, created_at) VALUES ($1, $2)")
                .bind(self.org.as_str())
                .bind(At(now))
        )?;
        execute!(self, sqlx::query(
            "INSERT INTO organization_settings (organization_id, name, settings, updated_at) VALUES ($1, $2, '{}', $3)")
            .bind(self.org.as_str()).bind(name.as_str()).bind(At(now)))?;
        Ok(Organization { id: self.org.clone(), name: name.to_string(), created_at: now })
    }

    /// Gives it another name; its id stays. None if there is no such organisation.
    pub async fn rename_organization(&mut self, name: &OrganizationName) -> Result<Option<Organization>, StoreError> {
        execute!(
            self,
            sqlx::query("UPDATE organization_settings SET name = $1, updated_at = $2 WHERE organization_id = $3")
                .bind(name.as_str())
                .bind(At(Timestamp::now()))
                .bind(self.org.as_str())
        )?;
        self.organization().await
    }
}

impl<Mode> Tx<Mode> {
    /// The organisation that this transaction is bound to, if it exists.
    pub async fn organization(&mut self) -> Result<Option<Organization>, StoreError> {
        let row: Option<OrganizationRow> = on!(self, c => sqlx::query_as(
            "SELECT s.name, o.created_at FROM organizations o
             JOIN organization_settings s ON s.organization_id = o.id WHERE o.id = $1")
            .bind(self.org.as_str()).fetch_optional(c))?;
        Ok(row.map(|row| Organization { id: self.org.clone(), name: row.name, created_at: row.created_at.0 }))
    }
}
