//! API tokens. Only hashes of their secrets are kept.

use kitbag_model::{NewToken, SecretHash, Timestamp, Token, TokenId, UserId};

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(TokenRow {
    id: String,
    name: String,
    secret_sha256: String,
    scopes: String,
    created_at: At,
    expires_at: Option<At>,
    last_used_at: Option<At>,
    user_id: Option<String>,
    role: Option<String>,
});

/// A token with what its owner is now: a membership that ended took its tokens along.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT t.id, t.name, t.secret_sha256, t.scopes, t.created_at, t.expires_at, t.last_used_at, t.user_id, m.role
             FROM api_tokens t LEFT JOIN memberships m ON m.organization_id = t.organization_id AND m.user_id = t.user_id
             WHERE t.organization_id = $1 ",
            $rest
        )
    };
}

impl TryFrom<TokenRow> for Token {
    type Error = StoreError;

    fn try_from(row: TokenRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let owner = match (row.user_id, row.role) {
            (None, _) => None,
            (Some(user), role) => Some((
                user.parse().map_err(|_| corrupt("api_tokens.user_id"))?,
                role.and_then(|role| role.parse().ok()).ok_or_else(|| corrupt("memberships.role"))?,
            )),
        };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("api_tokens.id"))?,
            name: row.name,
            hash: SecretHash::from_hex(&row.secret_sha256).ok_or_else(|| corrupt("api_tokens.secret_sha256"))?,
            scopes: row.scopes.parse().map_err(|_| corrupt("api_tokens.scopes"))?,
            created_at: row.created_at.0,
            expires_at: row.expires_at.map(|at| at.0),
            last_used_at: row.last_used_at.map(|at| at.0),
            owner,
        })
    }
}

impl WriteTx {
    /// Keeps a new token.
    pub async fn create_token(&mut self, new: &NewToken) -> Result<Token, StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO api_tokens (organization_id, id, user_id, name, secret_sha256, scopes, created_at, expires_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
            )
            .bind(self.org.as_str())
            .bind(new.id.to_string())
            .bind(new.user.map(|user| user.to_string()))
            .bind(new.name.as_str())
            .bind(new.hash.to_string())
            .bind(new.scopes.to_string())
            .bind(At(Timestamp::now()))
            .bind(new.expires_at.map(At))
        )?;
        self.token(new.id).await?.ok_or(StoreError::Corrupt { column: "api_tokens.id" })
    }

    /// Notes that a token is used. Whether it was not yet in this hour: of all who note it at once, one is told so.
    pub async fn token_used(&mut self, id: TokenId, now: Timestamp) -> Result<bool, StoreError> {
        let anew = execute!(
            self,
            sqlx::query(
                "UPDATE api_tokens SET last_used_at = $1
                 WHERE organization_id = $2 AND id = $3 AND (last_used_at IS NULL OR last_used_at < $4)"
            )
            .bind(At(now))
            .bind(self.org.as_str())
            .bind(id.to_string())
            .bind(At(now.hour()))
        )?;
        if anew > 0 {
            return Ok(true);
        }
        execute!(
            self,
            sqlx::query("UPDATE api_tokens SET last_used_at = $1 WHERE organization_id = $2 AND id = $3")
                .bind(At(now))
                .bind(self.org.as_str())
                .bind(id.to_string())
        )?;
        Ok(false)
    }

    /// Ends a token at once. Whether there was one.
    pub async fn revoke_token(&mut self, id: TokenId) -> Result<bool, StoreError> {
        let deleted = execute!(
            self,
            sqlx::query("DELETE FROM api_tokens WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(id.to_string())
        )?;
        Ok(deleted > 0)
    }
}

impl<Mode> Tx<Mode> {
    /// One token.
    pub async fn token(&mut self, id: TokenId) -> Result<Option<Token>, StoreError> {
        let row: Option<TokenRow> = on!(self, c => sqlx::query_as(select!("AND t.id = $2"))
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Token::try_from).transpose()
    }

    /// Tokens, oldest first; of one member, or of everybody.
    pub async fn tokens(
        &mut self,
        of: Option<UserId>,
        after: Option<TokenId>,
        limit: u32,
    ) -> Result<Page<Token>, StoreError> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        let rows: Vec<TokenRow> = on!(self, c => sqlx::query_as(
            select!("AND t.id > $2 AND (CAST($3 AS TEXT) IS NULL OR t.user_id = $3) ORDER BY t.id LIMIT $4"))
            .bind(self.org.as_str()).bind(after).bind(of.map(|user| user.to_string())).bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }
}
