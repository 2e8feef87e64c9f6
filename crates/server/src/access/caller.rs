//! The caller of a request: proven by a token or a session, of one organisation, with scopes.
//!
//! A handler names the scope it needs in its signature ([`MayUse`], [`MayManage`]) and has no other way to learn the
//! organisation, so it cannot forget the check.

use std::collections::HashMap;
use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use kitbag_model::{BearerToken, OrgId, Scope, Scopes, Timestamp};

use super::origin::only;
use super::session;
use crate::api::error::{ApiError, Code};
use crate::api::input::PathOf;
use crate::app::App;

/// A caller with the scope `use`.
pub(crate) type MayUse = Caller<UseScope>;
/// A caller with the scope `manage`.
pub(crate) type MayManage = Caller<ManageScope>;

/// A scope as a type.
pub(crate) trait Needs {
    const SCOPE: Scope;
}

pub(crate) struct UseScope;
pub(crate) struct ManageScope;

impl Needs for UseScope {
    const SCOPE: Scope = Scope::Use;
}

impl Needs for ManageScope {
    const SCOPE: Scope = Scope::Manage;
}

/// Somebody who may do what needs the scope `S` in the organisation of the request's path.
pub(crate) struct Caller<S> {
    pub(crate) org: OrgId,
    /// Whether it also has the scope `manage`.
    pub(crate) manages: bool,
    /// Who it is, as records tell it.
    pub(crate) who: String,
    scope: PhantomData<S>,
}

/// Who proved to be whom.
pub(crate) struct Principal {
    pub(crate) org: OrgId,
    pub(crate) scopes: Scopes,
    /// By what it proved who it is.
    pub(crate) who: String,
}

impl<S: Needs> FromRequestParts<App> for Caller<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let principal = authenticate(app, &parts.method, &parts.headers).await?;
        let PathOf(mut path) = PathOf::<HashMap<String, String>>::from_request_parts(parts, app).await?;
        let org = path.remove("org").unwrap_or_default();
        // An organisation of somebody else and one that does not exist are the same to the caller.
        if org != principal.org.as_str() {
            return Err(ApiError::new(Code::NotFound, format!("there is no organisation {org:?}")));
        }
        if !principal.scopes.contains(S::SCOPE) {
            return Err(ApiError::new(
                Code::Forbidden,
                format!(
                    "this needs a token with the scope {:?}; this one has {:?}",
                    S::SCOPE.as_str(),
                    principal.scopes.to_string()
                ),
            ));
        }
        let manages = principal.scopes.contains(Scope::Manage);
        Ok(Self { org: principal.org, manages, who: principal.who, scope: PhantomData })
    }
}

/// Proves a request's token, or the session of its cookie.
pub(crate) async fn authenticate(app: &App, method: &Method, headers: &HeaderMap) -> Result<Principal, ApiError> {
    if app.settings().no_auth {
        return Ok(Principal { org: OrgId::local(), scopes: Scopes::ALL, who: "owner".to_owned() });
    }
    match headers.contains_key(header::AUTHORIZATION) {
        true => {
            let text = only(headers, &header::AUTHORIZATION).and_then(|text| text.split_once(' '));
            let (_, token) =
                text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).ok_or_else(unauthorized)?;
            let (token, scopes) = prove(app, token.trim()).await?;
            Ok(Principal { who: format!("token {}", token.id), org: token.org, scopes })
        }
        false => session::authenticate(app, method, headers).await?.ok_or_else(unauthorized),
    }
}

/// Proves the text of a token.
pub(crate) async fn prove(app: &App, text: &str) -> Result<(BearerToken, Scopes), ApiError> {
    let token: BearerToken = text.parse().map_err(|_| unauthorized())?;
    let kept = app.token(&token.org, token.id).await?;
    let kept = kept.filter(|kept| kept.admits(&token.secret, Timestamp::now())).ok_or_else(unauthorized)?;
    Ok((token, kept.scopes))
}

/// One answer for every way in which a token can be wrong: which way is nobody's business.
pub(crate) fn unauthorized() -> ApiError {
    ApiError::new(
        Code::Unauthorized,
        "a valid token is needed: send it as `Authorization: Bearer <token>`, or open the address that `kitbag serve` \
         printed in a browser",
    )
}
