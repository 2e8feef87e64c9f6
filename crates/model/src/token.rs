//! API tokens. A token's text is `kitbag_<organisation>.<token id>.<secret>`: it carries its organisation, so that
//! the tenant is known before the first row is read and no lookup ever crosses tenants.

use std::fmt;
use std::str::FromStr;

use crate::access::{OrgRole, Scopes};
use crate::credential;
use crate::id::{OrgId, TokenId, UserId};
use crate::secret::{Secret, SecretHash};
use crate::text::line_type;
use crate::time::Timestamp;

const PREFIX: &str = "kitbag_";

/// The text that a client sends.
#[derive(Clone, Debug)]
pub struct BearerToken {
    /// Whose rows it opens.
    pub org: OrgId,
    /// Which row of the token table holds its hash.
    pub id: TokenId,
    /// What proves it.
    pub secret: Secret,
}

impl BearerToken {
    /// A new one for `org`.
    pub fn generate(org: OrgId) -> Self {
        Self { org, id: TokenId::generate(), secret: Secret::generate() }
    }

    /// The whole text, which is itself a secret.
    pub fn to_secret(&self) -> Secret {
        Secret::new(format!("{PREFIX}{}", credential::join(&self.org, &self.id, &self.secret)))
    }
}

/// A text that is not a token. It says no more, since the text may be a token with a typing error.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a Kitbag token: tokens look like {PREFIX}<organisation>.<id>.<secret>")]
pub struct MalformedToken;

impl FromStr for BearerToken {
    type Err = MalformedToken;

    fn from_str(text: &str) -> Result<Self, MalformedToken> {
        let parts = text.strip_prefix(PREFIX).and_then(credential::split);
        parts.map(|(org, id, secret)| Self { org, id, secret }).ok_or(MalformedToken)
    }
}

line_type!(
    /// What a person calls a token, to know later which to revoke.
    TokenName,
    120
);

/// A token about to be kept.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Its public id.
    pub id: TokenId,
    /// Its name.
    pub name: TokenName,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// What it may do.
    pub scopes: Scopes,
    /// When it stops working; never, if absent.
    pub expires_at: Option<Timestamp>,
    /// The member whose it is; it ends with the membership. Nobody's, if absent.
    pub user: Option<UserId>,
}

/// A token as it is kept: everything but the secret.
#[derive(Clone)]
pub struct Token {
    /// Its public id.
    pub id: TokenId,
    /// Its name.
    pub name: String,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working; never, if absent.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, give or take a few minutes; never, if absent.
    pub last_used_at: Option<Timestamp>,
    /// The member whose it is, and what that member is now. Nobody's, if absent.
    pub owner: Option<(UserId, OrgRole)>,
}

impl Token {
    /// What it may do now: no more than its owner may, whatever that was when it was made.
    pub fn rights(&self) -> Scopes {
        self.owner.map_or(self.scopes, |(_, role)| self.scopes.and(role.scopes()))
    }

    /// Whether `secret` proves this token at the time `now`.
    pub fn admits(&self, secret: &Secret, now: Timestamp) -> bool {
        self.hash == secret.hash() && self.expires_at.is_none_or(|end| now < end)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() {
        let token = BearerToken::generate("acme-2".parse().expect("a valid id"));
        let text = token.to_secret();
        let read: BearerToken = text.expose().parse().expect("what was written is read");
        assert_eq!((read.org, read.id), (token.org, token.id));
        assert_eq!(read.secret.expose(), token.secret.expose());
    }

    #[test]
    fn everything_else_is_refused() {
        let good = BearerToken::generate(OrgId::local()).to_secret().expose().to_owned();
        let cut = &good[..good.len() - 1];
        for bad in
            ["", "kitbag_", "kitbag_local", cut, &good[1..], &format!("{good}.x"), &good.replace("local", "../x")]
        {
            assert!(bad.parse::<BearerToken>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_token_ends() {
        let secret = Secret::generate();
        let now = Timestamp::now();
        let mut token = Token {
            id: TokenId::generate(),
            name: "t".to_owned(),
            hash: secret.hash(),
            scopes: Scopes::ALL,
            created_at: now,
            expires_at: None,
            last_used_at: None,
            owner: None,
        };
        assert!(token.admits(&secret, now));
        assert!(!token.admits(&Secret::generate(), now));
        token.expires_at = Some(now);
        assert!(!token.admits(&secret, now), "the end itself is outside");
    }
}
