//! The members of an organisation. There is always an owner: who else could let somebody in again?

use kitbag_model::{Member, OrgRole, UserId};
use kitbag_model::{Person, Timestamp};

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Inner, Tx, WriteTx, execute, on};

row!(MemberRow {
    user_id: String,
    role: String,
    email: String,
    display_name: Option<String>,
    created_at: At,
});

impl TryFrom<MemberRow> for Member {
    type Error = StoreError;

    fn try_from(row: MemberRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        Ok(Self {
            user: row.user_id.parse().map_err(|_| corrupt("memberships.user_id"))?,
            role: row.role.parse().map_err(|_| corrupt("memberships.role"))?,
            email: row.email,
            display_name: row.display_name,
            created_at: row.created_at.0,
        })
    }
}

/// Why a member's role cannot change.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// There is no such member.
    #[error("there is no such member")]
    Missing,
    /// Nobody would be left who could let an owner in.
    #[error("an organisation needs an owner, and this is the only one")]
    LastOwner,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<Mode> Tx<Mode> {
    /// One member.
    pub async fn member(&mut self, user: UserId) -> Result<Option<Member>, StoreError> {
        let row: Option<MemberRow> = on!(self, c => sqlx::query_as(
            "SELECT user_id, role, email, display_name, created_at FROM memberships
             WHERE organization_id = $1 AND user_id = $2")
            .bind(self.org.as_str()).bind(user.to_string()).fetch_optional(c))?;
        row.map(Member::try_from).transpose()
    }

    /// Members, by id: the order in which they became known.
    pub async fn members(&mut self, after: Option<UserId>, limit: u32) -> Result<Page<Member>, StoreError> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        let rows: Vec<MemberRow> = on!(self, c => sqlx::query_as(
            "SELECT user_id, role, email, display_name, created_at FROM memberships
             WHERE organization_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3")
            .bind(self.org.as_str()).bind(after).bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }
}

impl WriteTx {
    /// Makes somebody a member. [`StoreError::Exists`] if they are one.
    pub async fn add_member(&mut self, person: &Person, role: OrgRole) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO memberships (organization_id, user_id, role, email, display_name, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6)"
            )
            .bind(self.org.as_str())
            .bind(person.id.to_string())
            .bind(role.as_str())
            .bind(person.email.as_str())
            .bind(person.display_name.as_deref())
            .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }

    /// Gives a member another role.
    pub async fn set_role(&mut self, user: UserId, role: OrgRole) -> Result<Member, RoleError> {
        let mut member = self.leaving(user, role != OrgRole::Owner).await?;
        execute!(
            self,
            sqlx::query("UPDATE memberships SET role = $1 WHERE organization_id = $2 AND user_id = $3")
                .bind(role.as_str())
                .bind(self.org.as_str())
                .bind(user.to_string())
        )
        .map_err(StoreError::from)?;
        member.role = role;
        Ok(member)
    }

    /// Takes a member out, with their tokens here.
    pub async fn remove_member(&mut self, user: UserId) -> Result<Member, RoleError> {
        let member = self.leaving(user, true).await?;
        execute!(
            self,
            sqlx::query("DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2")
                .bind(self.org.as_str())
                .bind(user.to_string())
        )
        .map_err(StoreError::from)?;
        Ok(member)
    }

    /// The member, if it is not the last owner who leaves. Two who leave at once wait for each other.
    async fn leaving(&mut self, user: UserId, leaves: bool) -> Result<Member, RoleError> {
        if let Inner::Postgres(tx) = &mut self.inner {
            sqlx::query("SELECT id FROM organizations WHERE id = $1 FOR UPDATE")
                .bind(self.org.as_str())
                .execute(&mut **tx)
                .await
                .map_err(StoreError::from)?;
        }
        let member = self.member(user).await?.ok_or(RoleError::Missing)?;
        if leaves && member.role == OrgRole::Owner {
            let others: i64 = on!(self, c => sqlx::query_scalar(
                "SELECT count(*) FROM memberships WHERE organization_id = $1 AND role = 'owner' AND user_id <> $2")
                .bind(self.org.as_str()).bind(user.to_string()).fetch_one(c))
            .map_err(StoreError::from)?;
            if others == 0 {
                return Err(RoleError::LastOwner);
            }
        }
        Ok(member)
    }
}
