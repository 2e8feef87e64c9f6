//! A person's own row, the names they sign in with, and where they are a member.

use kitbag_model::{
    Email, Identity, LinkedIdentity, NewLinkedIdentity, NewPerson, OrgId, OrgRole, Person, PersonName, Secret,
    Timestamp,
};

use super::PersonTx;
use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Inner, execute, on};

row!(PersonRow {
    email: String,
    display_name: Option<String>,
    password_hash: Option<String>,
    created_at: At,
});

row!(MembershipRow { organization_id: String, role: String });

row!(LinkedRow {
    id: String,
    issuer: String,
    label: Option<String>,
    created_at: At,
});

/// Why a name that an issuer has for somebody stays.
#[derive(Debug, thiserror::Error)]
pub enum UnlinkError {
    /// There is no such name of theirs.
    #[error("there is no such identity")]
    Missing,
    /// They could not sign in any more.
    #[error("it is the only way in that is left")]
    LastWay,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

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

    /// Another name of theirs, which an issuer has for them. [`StoreError::Exists`] if it is somebody's.
    pub async fn link_identity(&mut self, link: &NewLinkedIdentity) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("INSERT INTO identities (id, user_id, issuer, label, created_at) VALUES ($1, $2, $3, $4, $5)")
                .bind(link.identity.as_str())
                .bind(self.user.to_string())
                .bind(&link.issuer)
                .bind(link.label.as_deref())
                .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }

    /// The names that issuers have for them, oldest first.
    pub async fn linked_identities(&mut self) -> Result<Vec<LinkedIdentity>, StoreError> {
        let rows: Vec<LinkedRow> = on!(self, c => sqlx::query_as(
            "SELECT id, issuer, label, created_at FROM identities
             WHERE user_id = $1 AND issuer IS NOT NULL ORDER BY created_at, id")
            .bind(self.user.to_string()).fetch_all(c))?;
        let read = |row: LinkedRow| LinkedIdentity {
            id: row.id,
            issuer: row.issuer,
            label: row.label,
            created_at: row.created_at.0,
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// Takes a name of an issuer away, unless nothing else would let them in again. Two that go at once wait for each other.
    pub async fn unlink_identity(&mut self, id: &str) -> Result<(), UnlinkError> {
        if let Inner::Postgres(tx) = &mut self.inner {
            let lock = "SELECT id FROM users WHERE id = $1 FOR UPDATE";
            sqlx::query(lock).bind(self.user.to_string()).execute(&mut **tx).await.map_err(StoreError::from)?;
        }
        let links = self.linked_identities().await?;
        if !links.iter().any(|link| link.id == id) {
            return Err(UnlinkError::Missing);
        }
        let has_password = self.found().await?.is_some_and(|person| person.password_hash.is_some());
        if links.len() == 1 && !has_password {
            return Err(UnlinkError::LastWay);
        }
        execute!(
            self,
            sqlx::query("DELETE FROM identities WHERE user_id = $1 AND id = $2 AND issuer IS NOT NULL")
                .bind(self.user.to_string())
                .bind(id)
        )
        .map_err(StoreError::from)?;
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
