//! A person's own row, the names they sign in with, and where they are a member.

use kitbag_model::{Email, Identity, NewPerson, OrgId, OrgRole, Person, PersonName, Secret, Timestamp};

use super::PersonTx;
use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{execute, on};

row!(PersonRow {
    email: String,
    display_name: Option<String>,
    password_hash: Option<String>,
    created_at: At,
});

row!(MembershipRow { organization_id: String, role: String });

impl PersonTx {
    /// The person that this transaction is bound to, if they exist.
    pub async fn found(&mut self) -> Result<Option<Person>, StoreError> {
        let row: Option<PersonRow> = on!(self, c => sqlx::query_as(
            "SELECT email, display_name, password_hash, created_at FROM users WHERE id = $1")
            .bind(self.user.to_string()).fetch_optional(c))?;
        let Some(row) = row else { return Ok(None) };
        let email: Email = row.email.parse().map_err(|_| StoreError::Corrupt { column: "users.email" })?;
        Ok(Some(Person {
            id: self.user,
            email,
            display_name: row.display_name,
            password_hash: row.password_hash.map(Secret::new),
            created_at: row.created_at.0,
        }))
    }

    /// Keeps a new person, known by these names. [`StoreError::Exists`] if somebody has the address or a name already.
    pub async fn create(&mut self, new: &NewPerson, names: &[Identity]) -> Result<(), StoreError> {
        let now = At(Timestamp::now());
        execute!(
            self,
            sqlx::query(
                "INSERT INTO users (id, email, display_name, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)"
            )
            .bind(new.id.to_string())
            .bind(new.email.as_str())
            .bind(new.display_name.as_ref().map(PersonName::as_str))
            .bind(new.password_hash.as_ref().map(Secret::expose))
            .bind(now)
        )?;
        for name in names {
            self.add_identity(name).await?;
        }
        Ok(())
    }

    /// Another name of theirs.
    pub async fn add_identity(&mut self, identity: &Identity) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("INSERT INTO identities (id, user_id, created_at) VALUES ($1, $2, $3)")
                .bind(identity.as_str())
                .bind(self.user.to_string())
                .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }

    /// Another password, by its slow hash.
    pub async fn set_password(&mut self, hash: &Secret) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("UPDATE users SET password_hash = $1 WHERE id = $2")
                .bind(hash.expose())
                .bind(self.user.to_string())
        )?;
        Ok(())
    }

    /// Where they are a member, and as what, by organisation.
    pub async fn memberships(&mut self) -> Result<Vec<(OrgId, OrgRole)>, StoreError> {
        let rows: Vec<MembershipRow> = on!(self, c => sqlx::query_as(
            "SELECT organization_id, role FROM memberships WHERE user_id = $1 ORDER BY organization_id")
            .bind(self.user.to_string()).fetch_all(c))?;
        let read = |row: MembershipRow| {
            let org = row
                .organization_id
                .parse()
                .map_err(|_| StoreError::Corrupt { column: "memberships.organization_id" })?;
            let role = row.role.parse().map_err(|_| StoreError::Corrupt { column: "memberships.role" })?;
            Ok((org, role))
        };
        rows.into_iter().map(read).collect()
    }
}
