//! A token as the API shows it: never its secret.

use kitbag_model::Token;
use serde::Serialize;
use utoipa::ToSchema;

/// What a token may do: `use` (list, read, call), `manage` (decide, trust, install, override, settings).
#[derive(ToSchema)]
#[schema(as = Scope, rename_all = "lowercase")]
#[allow(dead_code, reason = "it is there to be documented; the values are the model's")]
pub(crate) enum ScopeName {
    Use,
    Manage,
}

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub(crate) struct TokenView {
    id: String,
    name: String,
    #[schema(value_type = Vec<ScopeName>)]
    scopes: Vec<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(required, format = DateTime)]
    expires_at: Option<String>,
    /// Give or take a few minutes; null if it never was.
    #[schema(required, format = DateTime)]
    last_used_at: Option<String>,
    /// The member whose it is; null if it is nobody's.
    #[schema(required)]
    user_id: Option<String>,
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        Self {
            id: token.id.to_string(),
            name: token.name,
            scopes: token.scopes.iter().map(|scope| scope.to_string()).collect(),
            created_at: token.created_at.to_string(),
            expires_at: token.expires_at.map(|at| at.to_string()),
            last_used_at: token.last_used_at.map(|at| at.to_string()),
            user_id: token.owner.map(|(user, _)| user.to_string()),
        }
    }
}
