//! Sessions of people who signed in.

use kitbag_model::{PersonCookie, PersonSession, SecretHash, SessionId, Timestamp};

use super::PersonTx;
use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{execute, on};

row!(SessionRow {
    id: String,
    secret_sha256: String,
    user_agent: Option<String>,
    created_at: At,
    last_seen_at: At,
    expires_at: At,
});

impl TryFrom<SessionRow> for PersonSession {
    type Error = StoreError;

    fn try_from(row: SessionRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("user_sessions.id"))?,
            hash: SecretHash::from_hex(&row.secret_sha256).ok_or_else(|| corrupt("user_sessions.secret_sha256"))?,
            user_agent: row.user_agent,
            created_at: row.created_at.0,
            last_seen_at: row.last_seen_at.0,
            expires_at: row.expires_at.0,
        })
    }
}

impl PersonTx {
    /// Keeps a new session, and forgets those that have ended.
    pub async fn create_session(
        &mut self,
        cookie: &PersonCookie,
        user_agent: Option<&str>,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        let now = At(Timestamp::now());
        execute!(
            self,
            sqlx::query("DELETE FROM user_sessions WHERE user_id = $1 AND expires_at <= $2")
                .bind(self.user.to_string())
                .bind(now)
        )?;
        execute!(
            self,
            sqlx::query(
                "INSERT INTO user_sessions (user_id, id, secret_sha256, user_agent, created_at, last_seen_at, expires_at)
                 VALUES ($1, $2, $3, $4, $5, $5, $6)"
            )
            .bind(self.user.to_string())
            .bind(cookie.id.to_string())
            .bind(cookie.secret.hash().to_string())
            .bind(user_agent)
            .bind(now)
            .bind(At(expires_at))
        )?;
        Ok(())
    }

    /// One session.
    pub async fn session(&mut self, id: SessionId) -> Result<Option<PersonSession>, StoreError> {
        let row: Option<SessionRow> = on!(self, c => sqlx::query_as(
            "SELECT id, secret_sha256, user_agent, created_at, last_seen_at, expires_at FROM user_sessions
             WHERE user_id = $1 AND id = $2")
            .bind(self.user.to_string()).bind(id.to_string()).fetch_optional(c))?;
        row.map(PersonSession::try_from).transpose()
    }

    /// All that have not ended, newest first.
    pub async fn sessions(&mut self) -> Result<Vec<PersonSession>, StoreError> {
        let rows: Vec<SessionRow> = on!(self, c => sqlx::query_as(
            "SELECT id, secret_sha256, user_agent, created_at, last_seen_at, expires_at FROM user_sessions
             WHERE user_id = $1 AND expires_at > $2 ORDER BY id DESC")
            .bind(self.user.to_string()).bind(At(Timestamp::now())).fetch_all(c))?;
        rows.into_iter().map(PersonSession::try_from).collect()
    }

    /// Notes that a session is used.
    pub async fn session_seen(&mut self, id: SessionId) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query("UPDATE user_sessions SET last_seen_at = $1 WHERE user_id = $2 AND id = $3")
                .bind(At(Timestamp::now()))
                .bind(self.user.to_string())
                .bind(id.to_string())
        )?;
        Ok(())
    }

    /// Ends a session at once. Whether there was one.
    pub async fn end_session(&mut self, id: SessionId) -> Result<bool, StoreError> {
        let ended = execute!(
            self,
            sqlx::query("DELETE FROM user_sessions WHERE user_id = $1 AND id = $2")
                .bind(self.user.to_string())
                .bind(id.to_string())
        )?;
        Ok(ended > 0)
    }

    /// Ends all sessions but one: whoever changes a password wants the others out.
    pub async fn end_other_sessions(&mut self, kept: Option<SessionId>) -> Result<u64, StoreError> {
        Ok(execute!(
            self,
            sqlx::query("DELETE FROM user_sessions WHERE user_id = $1 AND id <> $2")
                .bind(self.user.to_string())
                .bind(kept.map_or_else(String::new, |id| id.to_string()))
        )?)
    }
}
