//! The caller of a request: proven by a token or a session, of one organisation, with scopes.
//!
//! A handler names the scope it needs in its signature ([`MayUse`], [`MayManage`]) and has no other way to learn the
//! organisation, so it cannot forget the check.

use std::collections::HashMap;
use std::marker::PhantomData;

use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use kitbag_model::{Audience, BearerToken, OrgId, OrgRole, Scope, Scopes, Timestamp, Token, UserId};

use super::issuers::lent::{self, Door, Lent};
use super::origin::only;
use super::people::{self, SignedIn};
use super::session;
use crate::api::error::{ApiError, Code};
use crate::api::input::PathOf;
use crate::app::App;

/// A caller with the scope `use`.
pub(crate) type MayUse = Caller<UseScope>;
/// Somebody who may say yes to a call: a person at the page, or the scope `manage`. An agent's token is neither.
pub(crate) type MayDecide = Caller<DecideScope>;
/// A caller with the scope `manage`.
pub(crate) type MayManage = Caller<ManageScope>;

/// A right as a type.
pub(crate) trait Needs {
    /// Whether somebody has it.
    fn admits(principal: &Principal) -> bool;
    /// What it takes, for who has it not.
    const TAKES: &str;
}

pub(crate) struct UseScope;
pub(crate) struct DecideScope;
pub(crate) struct ManageScope;

impl Needs for UseScope {
    fn admits(principal: &Principal) -> bool {
        principal.scopes.contains(Scope::Use)
    }
    const TAKES: &str = "a token with the scope \"use\"";
}

impl Needs for DecideScope {
    fn admits(principal: &Principal) -> bool {
        principal.at_page || principal.scopes.contains(Scope::Manage)
    }
    const TAKES: &str = "a person at the page, or a token with the scope \"manage\"";
}

impl Needs for ManageScope {
    fn admits(principal: &Principal) -> bool {
        principal.scopes.contains(Scope::Manage)
    }
    const TAKES: &str = "an owner or admin of the organisation, or their token with the scope \"manage\"";
}

/// Somebody who may do what needs the right `S` in the organisation of the request's path.
pub(crate) struct Caller<S> {
    pub(crate) org: OrgId,
    /// Whether it also has the scope `manage`.
    pub(crate) manages: bool,
    /// What it is in the organisation. A token of nobody is what its scopes make it.
    pub(crate) role: OrgRole,
    /// The person that it is, or whose token it has.
    pub(crate) user: Option<UserId>,
    /// Whether it is that person, and not a program with a token.
    pub(crate) at_page: bool,
    /// Who it is, as records tell it.
    pub(crate) who: String,
    right: PhantomData<S>,
}

/// Whoever changes something, for the rows that remember it and for the audit.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    /// The person, or whose token it was.
    pub(crate) user: Option<UserId>,
    /// Who it was, as records tell it.
    pub(crate) who: String,
}

impl<S> Caller<S> {
    /// Whose eyes look at the organisation's toolsets.
    pub(crate) fn audience(&self) -> Audience {
        Audience::of(&self.org, self.role, self.user)
    }

    /// Who changes what this request changes.
    pub(crate) fn author(&self) -> Author {
        Author { user: self.user, who: self.who.clone() }
    }
}

/// Who proved to be whom, in one organisation.
#[derive(Clone)]
pub(crate) struct Principal {
    pub(crate) org: OrgId,
    pub(crate) scopes: Scopes,
    pub(crate) role: OrgRole,
    pub(crate) user: Option<UserId>,
    /// Whether it is a person who signed in, and not a program with a token.
    pub(crate) at_page: bool,
    /// By what it proved who it is.
    pub(crate) who: String,
}

/// Who proved to be whom. A token of ours is of one organisation; a person may be a member of several.
pub(crate) enum Proven {
    Token(Principal),
    Person(SignedIn),
    /// A client with a person's access token of an issuer.
    Lent(Lent),
}

impl<S: Needs> FromRequestParts<App> for Caller<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let known = parts.extensions.get::<Principal>().cloned();
        let principal = match known {
            // It was asked before, on the way here ([`crate::nodes`]).
            Some(principal) => principal,
            None => {
                let proven = authenticate(app, &parts.method, &parts.headers).await?;
                let PathOf(mut path) = PathOf::<HashMap<String, String>>::from_request_parts(parts, app).await?;
                proven.of(app, &path.remove("org").unwrap_or_default()).await?
            }
        };
        if !S::admits(&principal) {
            let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
            app.refused(&principal, &parts.method, route, S::TAKES);
            let has = principal.has();
            return Err(ApiError::new(Code::Forbidden, format!("this needs {}; {has}", S::TAKES)));
        }
        let manages = principal.scopes.contains(Scope::Manage);
        let Principal { org, role, user, at_page, who, .. } = principal;
        Ok(Self { org, manages, role, user, at_page, who, right: PhantomData })
    }
}

/// Somebody who may look at what is published: a person who signed in, of whatever organisation or none, or a token with the scope
/// `use`. What they are makes no difference to what they see.
pub(crate) struct MayBrowse;

impl FromRequestParts<App> for MayBrowse {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let scopes = match authenticate(app, &parts.method, &parts.headers).await? {
            Proven::Person(_) => return Ok(Self),
            Proven::Token(principal) => principal.scopes,
            Proven::Lent(lent) => lent.scopes,
        };
        if scopes.contains(Scope::Use) {
            return Ok(Self);
        }
        let message = format!("this needs {}; this one has {:?}", UseScope::TAKES, scopes.to_string());
        Err(ApiError::new(Code::Forbidden, message))
    }
}

/// Whoever runs the server: the holder of the token in its data folder, which is nobody's and of the organisation `local`.
pub(crate) struct Operator {
    pub(crate) who: String,
}

impl FromRequestParts<App> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match authenticate(app, &parts.method, &parts.headers).await? {
            Proven::Token(Principal { org, user: None, role: OrgRole::Owner, who, .. }) if org == OrgId::local() => {
                Ok(Self { who })
            }
            _ => Err(ApiError::new(
                Code::Forbidden,
                "this is for whoever runs the server, with the token of its data folder",
            )),
        }
    }
}

impl Proven {
    /// Who it is in the organisation `org`. One of somebody else and one that does not exist are the same to the caller.
    pub(crate) async fn of(self, app: &App, org: &str) -> Result<Principal, ApiError> {
        let missing = || ApiError::new(Code::NotFound, format!("there is no organisation {org:?}"));
        match self {
            Self::Token(principal) if principal.org.as_str() == org => Ok(principal),
            Self::Token(_) => Err(missing()),
            Self::Person(person) => {
                let org: OrgId = org.parse().map_err(|_| missing())?;
                let member = Box::pin(people::member(app, &org, person.user)).await?.ok_or_else(missing)?;
                let (scopes, role, user) = (member.role.scopes(), member.role, Some(person.user));
                Ok(Principal { org, scopes, role, user, at_page: true, who: person.who() })
            }
            Self::Lent(lent) => {
                let org: OrgId = org.parse().map_err(|_| missing())?;
                let role = app.role(&org, lent.user).await?.ok_or_else(missing)?;
                app.lent_used(&org, &lent);
                let scopes = lent.scopes.and(role.scopes());
                Ok(Principal { org, scopes, role, user: Some(lent.user), at_page: false, who: lent.who })
            }
        }
    }

    /// Who it is in the organisation that it belongs to, where the address names none: a person's only one.
    pub(crate) async fn only(self, app: &App) -> Result<Principal, ApiError> {
        let user = match &self {
            Self::Token(_) => None,
            Self::Person(person) => Some(person.user),
            Self::Lent(lent) => Some(lent.user),
        };
        match (self, user) {
            (Self::Token(principal), _) => Ok(principal),
            (_, None) => Err(unauthorized()),
            (proven, Some(user)) => {
                let orgs = app.store().read_person(user).await?.memberships().await?;
                match orgs.as_slice() {
                    [(org, _)] => proven.of(app, org.as_str()).await,
                    [] => Err(ApiError::new(Code::Forbidden, "you are a member of no organisation yet")),
                    _ => {
                        let message = "you are a member of several organisations: use /v1/orgs/{org}/mcp";
                        Err(ApiError::new(Code::BadRequest, message))
                    }
                }
            }
        }
    }
}

impl Principal {
    pub(super) fn of_token(org: &OrgId, token: &Token) -> Self {
        let scopes = token.rights();
        let id = token.id;
        let (user, role, who) = match token.owner {
            Some((user, role)) => (Some(user), role, format!("token {id} of user {user}")),
            None if scopes.contains(Scope::Manage) => (None, OrgRole::Owner, format!("token {id}")),
            None => (None, OrgRole::Member, format!("token {id}")),
        };
        Self { org: org.clone(), scopes, role, user, at_page: false, who }
    }

    /// What it has, to be told beside what it lacks.
    fn has(&self) -> String {
        match self.at_page {
            true => format!("you are here as {}", self.role),
            false => format!("this one has {:?}", self.scopes.to_string()),
        }
    }
}

/// Proves a request's token, or the session of its cookie, at the API.
pub(crate) async fn authenticate(app: &App, method: &Method, headers: &HeaderMap) -> Result<Proven, ApiError> {
    authenticate_at(app, &Door::Api, method, headers).await
}

/// The same, at any door.
pub(crate) async fn authenticate_at(
    app: &App,
    door: &Door,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Proven, ApiError> {
    if app.settings().no_auth {
        let (org, who) = (OrgId::local(), "owner".to_owned());
        let (scopes, role) = (Scopes::ALL, OrgRole::Owner);
        return Ok(Proven::Token(Principal { org, scopes, role, user: None, at_page: false, who }));
    }
    match headers.contains_key(header::AUTHORIZATION) {
        true => {
            let text = only(headers, &header::AUTHORIZATION).and_then(|text| text.split_once(' '));
            let (_, token) =
                text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).ok_or_else(unauthorized)?;
            let token = token.trim();
            if lent::may_be_one(token) {
                return Ok(Proven::Lent(lent::prove(app, door, headers, token).await?));
            }
            let (token, kept) = prove(app, token).await?;
            app.token_used(&token.org, &kept, Some(headers));
            Ok(Proven::Token(Principal::of_token(&token.org, &kept)))
        }
        // Boxed, for most that comes has a token.
        false => Box::pin(session::authenticate(app, method, headers)).await?.ok_or_else(unauthorized),
    }
}

/// Proves the text of a token.
pub(crate) async fn prove(app: &App, text: &str) -> Result<(BearerToken, Token), ApiError> {
    let token: BearerToken = text.parse().map_err(|_| unauthorized())?;
    let kept = app.token(&token.org, token.id).await?;
    let kept = kept.filter(|kept| kept.admits(&token.secret, Timestamp::now())).ok_or_else(unauthorized)?;
    Ok((token, kept))
}

/// One answer for every way in which a token can be wrong: which way is nobody's business.
pub(crate) fn unauthorized() -> ApiError {
    ApiError::new(
        Code::Unauthorized,
        "a valid token is needed: send it as `Authorization: Bearer <token>`, or sign in with a browser",
    )
}
