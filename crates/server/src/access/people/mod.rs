//! People who sign in: proven once by a password or an issuer, then by a cookie that is theirs in every organisation.

pub(crate) mod admit;
pub(crate) mod password;
pub(crate) mod return_to;
mod tries;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use kitbag_model::{Email, Member, OrgId, PersonCookie, SessionId, Timestamp, UserId};
use kitbag_store::StoreError;

use super::caller::{Proven, authenticate, unauthorized};
use super::session::{LIFETIME_SECONDS, set_cookie};
use crate::api::error::{ApiError, Code};
use crate::app::App;

pub(crate) use tries::Tries;

/// How often it is written down that a session is used.
const SEEN_EVERY_SECONDS: u32 = 5 * 60;

/// What a browser calls itself is shown in a list; the rest of a long one tells nobody more.
const LONGEST_AGENT: usize = 200;

/// Somebody who signed in.
pub(crate) struct SignedIn {
    pub(crate) user: UserId,
    pub(crate) session: SessionId,
    pub(crate) email: Email,
    pub(crate) display_name: Option<String>,
}

impl SignedIn {
    /// Who it is, as records tell it.
    pub(crate) fn who(&self) -> String {
        format!("{} (user {})", self.email, self.user)
    }
}

/// Proves a cookie.
pub(super) async fn prove(app: &App, cookie: &PersonCookie) -> Result<SignedIn, ApiError> {
    let mut tx = app.store().read_person(cookie.user).await?;
    let session = tx.session(cookie.id).await?;
    let now = Timestamp::now();
    let session = session.filter(|session| session.admits(&cookie.secret, now)).ok_or_else(unauthorized)?;
    let person = tx.found().await?.ok_or_else(unauthorized)?;
    drop(tx);
    if session.last_seen_at.plus_seconds(SEEN_EVERY_SECONDS) < now {
        let mut tx = app.store().person(cookie.user).await?;
        tx.session_seen(cookie.id).await?;
        tx.commit().await?;
    }
    Ok(SignedIn { user: person.id, session: cookie.id, email: person.email, display_name: person.display_name })
}

/// Whether people sign in here, or one person has the server to themselves. An operator who said where people reach it, or made an
/// organisation, or invited somebody, has decided that; nothing decides it back.
pub(crate) async fn are_here(app: &App) -> bool {
    if app.settings().public_url.is_some() || app.issuers().for_people().next().is_some() || app.people_seen() {
        return true;
    }
    let looked = async {
        let local = OrgId::local();
        let organizations = app.store().system().await?.organization_ids().await?;
        Ok::<_, StoreError>(
            organizations.iter().any(|org| *org != local)
                || !app.store().read_beside(&local).await?.members(None, 1).await?.items.is_empty(),
        )
    };
    match looked.await {
        Ok(found) => {
            if found {
                app.see_people();
            }
            found
        }
        Err(error) => {
            tracing::warn!(%error, "whether people sign in here could not be found out");
            false
        }
    }
}

/// What somebody is in an organisation, if anything.
pub(crate) async fn member(app: &App, org: &OrgId, user: UserId) -> Result<Option<Member>, StoreError> {
    app.store().read_beside(org).await?.member(user).await
}

/// Lets a person in who has been proven. What to set as the cookie: always a new one, so that nobody knows it from before.
pub(crate) async fn let_in(app: &App, user: UserId, headers: &HeaderMap) -> Result<HeaderValue, ApiError> {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let agent: Option<String> = agent.map(|agent| agent.chars().take(LONGEST_AGENT).collect());
    let cookie = PersonCookie::generate(user);
    let mut tx = app.store().person(user).await?;
    tx.create_session(&cookie, agent.as_deref(), Timestamp::now().plus_seconds(LIFETIME_SECONDS)).await?;
    tx.commit().await?;
    set_cookie(app, Some(&cookie.to_secret()))
}

/// A person who signed in, as a handler asks for one. A token is nobody's session.
pub(crate) struct Person(pub(crate) SignedIn);

impl FromRequestParts<App> for Person {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match authenticate(app, &parts.method, &parts.headers).await? {
            Proven::Person(person) => Ok(Self(person)),
            Proven::Token(_) | Proven::Lent(_) => {
                Err(ApiError::new(Code::Forbidden, "this is for people who signed in; a token is no person"))
            }
        }
    }
}
