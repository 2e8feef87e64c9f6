//! API tokens. Only hashes of their secrets are kept.

use kitbag_model::{NewToken, SecretHash, Timestamp, Token, TokenId};

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
});

impl TryFrom<TokenRow> for Token {
    type Error = StoreError;

    fn try_from(row: TokenRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("api_tokens.id"))?,
            name: row.name,
            hash: SecretHash::from_hex(&row.secret_sha256).ok_or_else(|| corrupt("api_tokens.secret_sha256"))?,
            scopes: row.scopes.parse().map_err(|_| corrupt("api_tokens.scopes"))?,
            created_at: row.created_at.0,
            expires_at: row.expires_at.map(|at| at.0),
        })
    }
}

impl WriteTx {
    /// Keeps a new token.
    pub async fn create_token(&mut self, new: &NewToken) -> Result<Token, StoreError> {
        let row: TokenRow = on!(self, c => sqlx::query_as(
            "INSERT INTO api_tokens (organization_id, id, name, secret_sha256, scopes, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             RETURNING id, name, secret_sha256, scopes, created_at, expires_at")
            .bind(self.org.as_str()).bind(new.id.to_string()).bind(new.name.as_str()).bind(new.hash.to_string())
            .bind(new.scopes.to_string()).bind(At(Timestamp::now())).bind(new.expires_at.map(At)).fetch_one(c))?;
        row.try_into()
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
        let row: Option<TokenRow> = on!(self, c => sqlx::query_as(
            "SELECT id, name, secret_sha256, scopes, created_at, expires_at FROM api_tokens
             WHERE organization_id = $1 AND id = $2")
            .bind(self.org.as_str()).bind(id.to_string()).fetch_optional(c))?;
        row.map(Token::try_from).transpose()
    }

    /// Tokens, oldest first.
    pub async fn tokens(&mut self, after: Option<TokenId>, limit: u32) -> Result<Page<Token>, StoreError> {
        let after = after.map_or_else(String::new, |id| id.to_string());
        let rows: Vec<TokenRow> = on!(self, c => sqlx::query_as(
            "SELECT id, name, secret_sha256, scopes, created_at, expires_at FROM api_tokens
             WHERE organization_id = $1 AND id > $2 ORDER BY id LIMIT $3")
            .bind(self.org.as_str()).bind(after).bind(i64::from(limit) + 1).fetch_all(c))?;
        Page::from_rows(rows, limit)
    }
}
