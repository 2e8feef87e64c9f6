//! The first half of a sign-in: find out who signs people in, become known there, remember what was asked, send the person.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_model::{Secret, ServerKey};
use url::Url;

use super::authorizer::{Authorizer, Server, Started};
use super::challenge::Challenge;
use super::client::{ClientSettings, Grant};
use super::error::AuthError;
use super::http::host;
use super::issuer::AuthServer;
use super::keeper::Kind;
use super::records::{ClientRecord, Issuer, SignInRecord, seconds};
use super::resource::Resource;
use super::{issuer, judge, pkce, resource, scopes};

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// What we put into the address that a browser opens. An address that has one of these already would speak in our name.
const OURS: [&str; 9] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "scope",
    "request_uri",
];

impl Authorizer {
    /// Begins a sign-in of `person` at `server`. `challenge` is the `WWW-Authenticate` header that the server refused with, if it sent one;
    /// `redirect_uri` is where the answer comes to, exactly. A sign-in at the same server that was begun before is forgotten.
    pub async fn begin(
        &self,
        server: &Server,
        person: &str,
        challenge: Option<&str>,
        redirect_uri: &str,
        settings: &ClientSettings,
    ) -> Result<Started, AuthError> {
        if settings.grant == Grant::Machine {
            return Err(AuthError::Settings("this server signs in with a client's own credentials; nobody has to"));
        }
        check_redirect(redirect_uri)?;
        let http = self.http(&server.org);
        let challenge = challenge.map(Challenge::parse).unwrap_or_default();
        let (resource, issuer) = self.who_signs_in(server, &challenge).await?;
        // Before anything is registered: an authorization server without it is of no use.
        if !issuer.has_s256 {
            return Err(AuthError::NoPkce { issuer: issuer.issuer });
        }
        let Some(page) = issuer.authorization_endpoint.clone() else {
            return Err(AuthError::NoIssuerMetadata { issuer: issuer.issuer });
        };
        if page.query_pairs().any(|(name, _)| OURS.contains(&name.as_ref())) {
            let reason = "it has parameters that are ours to set";
            return Err(AuthError::Hostile { what: "authorization endpoint", host: host(&server.url), reason });
        }
        let identity = self.identity(&http, server, &issuer, settings, redirect_uri).await?;
        let scopes = self.scopes(server, &challenge, &resource, &issuer, settings).await?;
        let (verifier, state) = (pkce::random(), state_for(&server.key));
        let expires_at = self.time() + PATIENCE;
        let record = SignInRecord {
            state: state.hash().to_string(),
            person: person.to_owned(),
            server: server.url.to_string(),
            resource: resource.name.clone(),
            issuer: Issuer {
                name: issuer.issuer.clone(),
                token_endpoint: issuer.token_endpoint.to_string(),
                revocation_endpoint: issuer.revocation_endpoint.as_ref().map(Url::to_string),
            },
            iss_required: issuer.says_iss,
            identity,
            verifier: verifier.expose().to_owned(),
            redirect_uri: redirect_uri.to_owned(),
            scopes: scopes.clone(),
            expires_at: seconds(expires_at),
        };
        // The issuer is on record before anybody is sent there.
        self.save(server, Kind::SignIn, &record).await?;
        let authorize_url = address(page, &record, &state, &verifier);
        let state = state.expose().to_owned();
        Ok(Started { authorize_url, state, issuer: issuer.issuer, scopes, expires_at })
    }

    /// Who signs in for a server, both halves of it checked.
    pub(super) async fn who_signs_in(
        &self,
        server: &Server,
        challenge: &Challenge,
    ) -> Result<(Resource, AuthServer), AuthError> {
        let http = self.http(&server.org);
        let known: ClientRecord = self.load(server, Kind::Client).await?.unwrap_or_default();
        let known: Vec<String> = known.registered.into_keys().chain(known.bound.into_values()).collect();
        let resource = resource::discover(&http, &server.url, challenge, &known).await?;
        match issuer::discover(&http, &server.url, &resource.issuer).await {
            Ok(issuer) => Ok((resource, issuer)),
            // Nobody said that there is an authorization server.
            Err(AuthError::NoIssuerMetadata { .. }) if resource.guessed => {
                Err(AuthError::NoResourceMetadata { host: host(&server.url) })
            }
            Err(error) => Err(error),
        }
    }

    /// What to ask for: what the server just said it wants, or what we were told, or all that it supports, or whatever the authorization
    /// server thinks; never less than what was asked for before, so that one step up is not a step down elsewhere.
    async fn scopes(
        &self,
        server: &Server,
        challenge: &Challenge,
        resource: &Resource,
        issuer: &AuthServer,
        settings: &ClientSettings,
    ) -> Result<Vec<String>, AuthError> {
        let before = self.load_tokens(server).await?.filter(|tokens| tokens.issuer == issuer.issuer);
        let (asked, missing) = before.map(|tokens| (tokens.asked.clone(), tokens.missing.clone())).unwrap_or_default();
        let wanted = scopes::union(&challenge.scopes, &missing);
        let chosen = if !wanted.is_empty() {
            wanted
        } else if !settings.scopes.is_empty() {
            scopes::clean(settings.scopes.clone())
        } else {
            resource.scopes.clone()
        };
        let mut all = scopes::union(&asked, &chosen);
        // The scope that asks for a refresh token, where it is known. Alone it would take the place of the defaults.
        let offline = "offline_access".to_owned();
        if !all.is_empty() && issuer.scopes.contains(&offline) {
            all = scopes::union(&all, &[offline]);
        }
        Ok(all)
    }
}

/// A new state: random, and naming the server whose sign-in it belongs to, which is how the answer finds its way back.
fn state_for(key: &ServerKey) -> Secret {
    Secret::new(format!("{}.{}", pkce::random().expose(), URL_SAFE_NO_PAD.encode(key.to_string())))
}

/// The server that a state belongs to, if it is one of ours at all.
pub(super) fn server_of(state: &str) -> Option<ServerKey> {
    let (_, key) = state.split_once('.')?;
    std::str::from_utf8(&URL_SAFE_NO_PAD.decode(key).ok()?).ok()?.parse().ok()
}

fn check_redirect(text: &str) -> Result<(), AuthError> {
    let url = Url::parse(text).map_err(|_| AuthError::Settings("the redirect address is not an address"))?;
    let encrypted = url.scheme() == "https" || (url.scheme() == "http" && judge::is_loopback(&url));
    if !encrypted || url.fragment().is_some() {
        return Err(AuthError::Settings(
            "the redirect address must be https, or on this machine, and have no fragment",
        ));
    }
    Ok(())
}

fn address(mut page: Url, record: &SignInRecord, state: &Secret, verifier: &Secret) -> Url {
    let mut query = page.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &record.identity.id)
        .append_pair("redirect_uri", &record.redirect_uri)
        .append_pair("state", state.expose())
        .append_pair("code_challenge", &pkce::challenge(verifier))
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &record.resource);
    if !record.scopes.is_empty() {
        query.append_pair("scope", &record.scopes.join(" "));
        // OpenID Connect gives refresh tokens only to who asks the person (Core, 11).
        if record.scopes.iter().any(|scope| scope == "offline_access") {
            query.append_pair("prompt", "consent");
        }
    }
    drop(query);
    page
}

/// When a sign-in that was kept is over.
pub(super) fn is_over(record: &SignInRecord, now: SystemTime) -> bool {
    record.expires_at <= seconds(now)
}
