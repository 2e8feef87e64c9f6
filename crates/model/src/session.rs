//! Sessions: what a browser gets in exchange for a token, so that the token itself is in no cookie.

use crate::access::Scopes;
use crate::credential;
use crate::id::{OrgId, SessionId, TokenId};
use crate::secret::{Secret, SecretHash};
use crate::time::Timestamp;

/// The value of the cookie.
#[derive(Clone, Debug)]
pub struct SessionCookie {
    /// Whose rows it opens.
    pub org: OrgId,
    /// Which session it is.
    pub id: SessionId,
    /// What proves it.
    pub secret: Secret,
}

impl SessionCookie {
    /// A new one for `org`.
    pub fn generate(org: OrgId) -> Self {
        Self { org, id: SessionId::generate(), secret: Secret::generate() }
    }

    /// The whole text, which is itself a secret.
    pub fn to_secret(&self) -> Secret {
        Secret::new(credential::join(&self.org, &self.id, &self.secret))
    }

    /// Reads a cookie's value.
    pub fn parse(text: &str) -> Option<Self> {
        credential::split(text).map(|(org, id, secret)| Self { org, id, secret })
    }
}

/// A session as it is kept.
#[derive(Clone, Debug)]
pub struct Session {
    /// The token it was swapped for.
    pub token_id: TokenId,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// What that token may do.
    pub scopes: Scopes,
    /// When it ends; no later than its token.
    pub expires_at: Timestamp,
}

impl Session {
    /// Whether `secret` proves this session at the time `now`.
    pub fn admits(&self, secret: &Secret, now: Timestamp) -> bool {
        self.hash == secret.hash() && now < self.expires_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() {
        let cookie = SessionCookie::generate(OrgId::local());
        let read = SessionCookie::parse(cookie.to_secret().expose()).expect("what was written is read");
        assert_eq!((read.org, read.id), (cookie.org, cookie.id));
        assert!(SessionCookie::parse("local.x.y").is_none());
    }
}
