//! Invitations. Each is used up by the one who takes it.

use kitbag_model::{Email, Invitation, InvitationId, NewInvitation, SecretHash, Timestamp};

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(InvitationRow {
    id: String,
    email: String,
    role: String,
    secret_sha256: String,
    invited_by: String,
    created_at: At,
    expires_at: At,
});

impl TryFrom<InvitationRow> for Invitation {
    type Error = StoreError;

    fn try_from(row: InvitationRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let email: Email = row.email.parse().map_err(|_| corrupt("invitations.email"))?;
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("invitations.id"))?,
            email,
            role: row.role.parse().map_err(|_| corrupt("invitations.role"))?,
            hash: SecretHash::from_hex(&row.secret_sha256).ok_or_else(|| corrupt("invitations.secret_sha256"))?,
            invited_by: row.invited_by,
            created_at: row.created_at.0,
            expires_at: row.expires_at.0,
        })
    }
}

impl<Mode> Tx<Mode> {
    /// One invitation.
    pub async fn invitation(&mut self, id: InvitationId) -> Result<Option<Invitation>, StoreError> {
        let row: Option<InvitationRow> = on!(self, c => sqlx::query_as(
            "SELECT id, email, role, secret_sha256, invited_by, created_at, expires_at FROM invitations
             WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Invitation::try_from).transpose()
    }

    /// Invitations, oldest first.
    pub async fn invitations(
        &mut self,
        after: Option<InvitationId>,
        limit: u32,
    ) -> Result<Page<Invitation>, StoreError> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        let rows: Vec<InvitationRow> = on!(self, c => sqlx::query_as(
            "SELECT id, email, role, secret_sha256, invited_by, created_at, expires_at FROM invitations
             WHERE organization_id = $1 AND id > $2 ORDER BY id LIMIT $3")
            .bind(self.org.as_str()).bind(after).bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }
}

impl WriteTx {
    /// Keeps a new invitation, and forgets those that have ended.
    pub async fn create_invitation(&mut self, new: &NewInvitation) -> Result<Invitation, StoreError> {
        let now = Timestamp::now();
        execute!(
            self,
            sqlx::query("DELETE FROM invitations WHERE organization_id = $1 AND expires_at <= $2")
                .bind(self.org.as_str())
                .bind(At(now))
        )?;
        let row: InvitationRow = on!(self, c => sqlx::query_as(
            "INSERT INTO invitations (organization_id, id, email, role, secret_sha256, invited_by, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             RETURNING id, email, role, secret_sha256, invited_by, created_at, expires_at")
            .bind(self.org.as_str()).bind(new.id.to_string()).bind(new.email.as_str()).bind(new.role.as_str())
            .bind(new.hash.to_string()).bind(&new.invited_by).bind(At(now)).bind(At(new.expires_at)).fetch_one(c))?;
        row.try_into()
    }

    /// Takes an invitation away: it was used, or taken back. Whether there was one.
    pub async fn delete_invitation(&mut self, id: InvitationId) -> Result<bool, StoreError> {
        let deleted = execute!(
            self,
            sqlx::query("DELETE FROM invitations WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(id.to_string())
        )?;
        Ok(deleted > 0)
    }
}
