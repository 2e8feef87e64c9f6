//! Access tokens that clients bring (RFC 9068): whose they are, and what they may do.

use kitbag_model::{Scope, Scopes};

use crate::claims::Claims;
use crate::error::IssuerError;
use crate::issuer::Issuer;
use crate::keys::opened;

/// Who brings a token, by the issuer's word.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bearer {
    /// What the issuer calls the person whose token it is.
    pub subject: String,
    /// What the token may do. What the person may is another question.
    pub scopes: Scopes,
    /// The client that it was given to.
    pub client: Option<String>,
}

impl Issuer {
    /// Whose an access token is, if it is for one of `audiences`. Where the operator named audiences, those count instead.
    pub async fn bearer(&self, token: &str, audiences: &[String]) -> Result<Bearer, IssuerError> {
        let settings = self.settings();
        let (kind, claims) = opened::<Claims>(self.keys(), token).await?;
        if !is_access_token(kind.as_deref(), settings.plain_tokens) {
            return Err(IssuerError::invalid("it does not say that it is an access token"));
        }
        // An ID token is for a client's eyes and says nothing of what may be done.
        if claims.nonce.is_some() || claims.at_hash.is_some() {
            return Err(IssuerError::invalid("it is an ID token"));
        }
        // Whoever bound it to a key wants that proven, which cannot be done here: as a mere text it would be worth more than it was made.
        if claims.cnf.is_some() {
            return Err(IssuerError::invalid("it is bound to a key, and only bearer tokens are taken"));
        }
        claims.check(settings.issuer.as_str())?;
        let wanted = if settings.audiences.is_empty() { audiences } else { &settings.audiences };
        if !claims.aud.iter().any(|audience| wanted.contains(audience)) {
            return Err(IssuerError::invalid("it is for another audience"));
        }
        let scopes = claims.scope.iter().chain(&claims.scp).filter_map(|word| self.scope(word)).collect();
        Ok(Bearer { subject: claims.sub, scopes, client: claims.client_id.or(claims.azp) })
    }

    /// What a word of a token stands for.
    fn scope(&self, word: &str) -> Option<Scope> {
        let settings = self.settings();
        match word {
            word if word == settings.use_scope => Some(Scope::Use),
            word if word == settings.manage_scope => Some(Scope::Manage),
            word => word.parse().ok(),
        }
    }
}

fn is_access_token(kind: Option<&str>, plain: bool) -> bool {
    let kind = kind.map(str::to_ascii_lowercase);
    match kind.as_deref() {
        Some("at+jwt" | "application/at+jwt") => true,
        None | Some("jwt") => plain,
        Some(_) => false,
    }
}
