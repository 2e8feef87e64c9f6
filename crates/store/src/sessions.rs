//! Sessions of browsers. Each ends with the token that it was swapped for.

use kitbag_model::{SecretHash, Session, SessionCookie, SessionId, Timestamp, TokenId};

use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(SessionRow { token_id: String, secret_sha256: String, scopes: String, expires_at: At });

impl TryFrom<SessionRow> for Session {
    type Error = StoreError;

    fn try_from(row: SessionRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        Ok(Self {
            token_id: row.token_id.parse().map_err(|_| corrupt("sessions.token_id"))?,
            hash: SecretHash::from_hex(&row.secret_sha256).ok_or_else(|| corrupt("sessions.secret_sha256"))?,
            scopes: row.scopes.parse().map_err(|_| corrupt("api_tokens.scopes"))?,
            expires_at: row.expires_at.0,
        })
    }
}

impl WriteTx {
    /// Keeps a new session of `token`, and forgets those that have ended.
    pub async fn create_session(
        &mut self,
        cookie: &SessionCookie,
        token: TokenId,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        let now = At(Timestamp::now());
        execute!(
            self,
            sqlx::query("DELETE FROM sessions WHERE organization_id = $1 AND expires_at <= $2")
                .bind(self.org.as_str())
                .bind(now)
        )?;
        execute!(
            self,
            sqlx::query(
                "INSERT INTO sessions (organization_id, id, token_id, secret_sha256, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6)"
            )
            .bind(self.org.as_str())
            .bind(cookie.id.to_string())
            .bind(token.to_string())
            .bind(cookie.secret.hash().to_string())
            .bind(now)
            .bind(At(expires_at))
        )?;
        Ok(())
    }
}

impl<Mode> Tx<Mode> {
    /// One session, with the rights of its token.
    pub async fn session(&mut self, id: SessionId) -> Result<Option<Session>, StoreError> {
        let row: Option<SessionRow> = on!(self, c => sqlx::query_as(
            "SELECT s.token_id, s.secret_sha256, t.scopes, s.expires_at FROM sessions s
             JOIN api_tokens t ON t.organization_id = s.organization_id AND t.id = s.token_id
             WHERE s.organization_id = $1 AND s.id = $2")
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Session::try_from).transpose()
    }
}
