//! Access tokens of issuers: a client acts for a person, as far as the token says and the person's role allows now.

use axum::http::HeaderMap;
use kitbag_identity::{Issuer, IssuerError};
use kitbag_model::{ContentHash, Hasher, Identity, Scopes, UserId};

use super::{base_url, resource};
use crate::access::caller::unauthorized;
use crate::api::error::{ApiError, Code};
use crate::app::App;

/// How long a client waits until an issuer that does not answer is asked again.
const RETRY_SECONDS: u32 = 10;

/// The most letters of a client's name that records show.
const LONGEST_CLIENT: usize = 100;

/// Where somebody knocks. Access tokens of issuers are for the MCP endpoints, unless the operator says otherwise.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    Api,
    /// An MCP endpoint, by its path.
    Mcp(String),
}

/// What a client was lent: somebody's rights, or a part of them.
#[derive(Clone, Debug)]
pub(crate) struct Lent {
    pub(crate) user: UserId,
    pub(crate) scopes: Scopes,
    /// The client that it was lent to.
    pub(crate) client: String,
    /// The issuer that did.
    pub(crate) issuer: String,
    /// Who it is, as records tell it.
    pub(crate) who: String,
}

/// Whether a text may be a token of an issuer. Ours begin otherwise.
pub(crate) fn may_be_one(token: &str) -> bool {
    token.starts_with("ey") && token.matches('.').count() == 2
}

/// Proves an access token at a door.
pub(crate) async fn prove(app: &App, door: &Door, headers: &HeaderMap, token: &str) -> Result<Lent, ApiError> {
    let named = Issuer::named_by(token).ok_or_else(unauthorized)?;
    let takes = |issuer: &&Issuer| {
        let settings = issuer.settings();
        settings.issuer.as_str() == named && settings.mcp && (settings.api || matches!(door, Door::Mcp(_)))
    };
    let issuer = app.issuers().for_clients().find(takes).ok_or_else(unauthorized)?;
    let audiences = resource::audiences(&base_url(app, headers), door);
    let bearer = issuer.bearer(token, &audiences).await.map_err(|error| refused(issuer, &error))?;
    let identity = Identity::of_issuer(&named, &bearer.subject);
    let user = app.known_by(&identity).await?.ok_or_else(|| unknown(issuer))?;
    let client = bearer.client.map_or_else(|| "an unnamed client".to_owned(), |client| shown(&client));
    let issuer = issuer.settings().id.to_string();
    let who = format!("user {user} by {client} of issuer {issuer}");
    Ok(Lent { user, scopes: bearer.scopes, client, issuer, who })
}

/// The token was good, but nobody here is that person. To bring another token does not help, so it is not a 401.
fn unknown(issuer: &Issuer) -> ApiError {
    let name = &issuer.settings().name;
    let message =
        format!("nobody has signed in here as this person of {name} yet: sign in with a browser once, or link it");
    ApiError::new(Code::Forbidden, message)
}

fn refused(issuer: &Issuer, error: &IssuerError) -> ApiError {
    let id = issuer.settings().id.as_str();
    match error {
        // Which way a token is wrong is nobody's business but the operator's.
        IssuerError::Invalid(_) | IssuerError::Refused(_) => {
            tracing::info!(issuer = id, %error, "an access token is not taken");
            unauthorized()
        }
        IssuerError::Unreachable(_) | IssuerError::Description(_) | IssuerError::Settings(_) => {
            tracing::warn!(issuer = id, %error, "an access token cannot be checked");
            let message =
                format!("the keys of {} cannot be had, so that the token cannot be checked", issuer.settings().name);
            ApiError::new(Code::Unavailable, message).retry_after(RETRY_SECONDS)
        }
    }
}

/// A client's name for records. Two that are long and alike are told apart.
fn shown(client: &str) -> String {
    let plain: String = client.chars().filter(|c| !c.is_control()).collect();
    if plain == client && client.chars().count() <= LONGEST_CLIENT {
        return client.to_owned();
    }
    let mut hasher = Hasher::default();
    hasher.update(client.as_bytes());
    let hash: ContentHash = hasher.finish();
    let short: String = plain.chars().take(LONGEST_CLIENT).collect();
    format!("{short}…{}", hash.to_string().get(..12).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart() {
        assert_eq!(shown("https://client.example/c.json"), "https://client.example/c.json");
        let long = "x".repeat(200);
        assert!(shown(&long).chars().count() < 120 && shown(&long) != shown(&format!("{long}y")));
        assert!(shown("a\nb") != shown("ab") && !shown("a\nb").contains('\n'));
    }

    #[test]
    fn ours_begin_otherwise() {
        assert!(may_be_one("eyJhbGciOiJub25lIn0.e30."));
        for other in ["", "ey", "ey.a", "kitbag_ey.a.b", "kitbag_local.x.y"] {
            assert!(!may_be_one(other), "{other}");
        }
    }
}
