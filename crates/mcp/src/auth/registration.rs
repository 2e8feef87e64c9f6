//! Who we are at an authorization server: a client that was given by hand, the document at our own address, or one that is registered
//! on the way. In that order, and each only where it belongs.

use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::authorizer::{Authorizer, Server};
use super::client::{ClientSettings, Proof, RegisteredClient};
use super::error::{AuthError, tame};
use super::http::Http;
use super::issuer::AuthServer;
use super::judge;
use super::keeper::Kind;
use super::records::{ClientRecord, Identity, Method, Registration, SigningKey};
use super::token::Complaint;

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    client_secret_expires_at: Option<u64>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

impl Authorizer {
    /// Who we are at `issuer` when a person signs in.
    pub(super) async fn identity(
        &self,
        http: &Http,
        server: &Server,
        issuer: &AuthServer,
        settings: &ClientSettings,
        redirect_uri: &str,
    ) -> Result<Identity, AuthError> {
        let mut record: ClientRecord = self.load(server, Kind::Client).await?.unwrap_or_default();
        if let Some(client) = &settings.registered {
            return self.given(server, issuer, client, &mut record).await;
        }
        if let (true, Some(url)) = (issuer.takes_documents, &settings.metadata_url) {
            if url.scheme() != "https" || matches!(url.path(), "" | "/") {
                return Err(AuthError::Settings("the client's metadata address must be https and have a path"));
            }
            return Ok(Identity { id: url.to_string(), secret: None, key: None, method: Method::None });
        }
        let now = self.now();
        let usable =
            |found: &&Registration| found.redirect_uri == redirect_uri && found.expires_at.is_none_or(|at| at > now);
        if let Some(found) = record.registered.get(&issuer.issuer).filter(usable) {
            return Ok(found.identity.clone());
        }
        let Some(endpoint) = &issuer.registration_endpoint else {
            return Err(AuthError::NoClient { issuer: issuer.issuer.clone() });
        };
        let new = register(http, issuer, endpoint, settings, redirect_uri).await?;
        let identity = new.identity.clone();
        record.registered.insert(issuer.issuer.clone(), new);
        self.save(server, Kind::Client, &record).await?;
        Ok(identity)
    }

    /// A client that was given by hand, if it belongs here. The first authorization server that it is used at is remembered, so that a
    /// server cannot have its secret sent to one that it names later.
    pub(super) async fn given(
        &self,
        server: &Server,
        issuer: &AuthServer,
        client: &RegisteredClient,
        record: &mut ClientRecord,
    ) -> Result<Identity, AuthError> {
        let expected = client.issuer.as_ref().or(record.bound.get(&client.id));
        match expected {
            Some(expected) if *expected != issuer.issuer => {
                return Err(AuthError::ClientOfOtherIssuer { expected: tame(expected), found: tame(&issuer.issuer) });
            }
            Some(_) => {}
            None => {
                record.bound.insert(client.id.clone(), issuer.issuer.clone());
                self.save(server, Kind::Client, record).await?;
            }
        }
        let nothing = Identity { id: client.id.clone(), secret: None, key: None, method: Method::None };
        Ok(match &client.proof {
            Proof::None => nothing,
            Proof::Secret(secret) => {
                Identity { secret: Some(secret.expose().to_owned()), method: with_secret(issuer), ..nothing }
            }
            Proof::Key { pem, algorithm } => {
                let key = SigningKey { pem: pem.expose().to_owned(), algorithm: *algorithm };
                Identity { key: Some(key), method: Method::PrivateKeyJwt, ..nothing }
            }
        })
    }

    /// Forgets a client that its authorization server does not know any more, so that the next sign-in registers a new one.
    pub(super) async fn forget_client(&self, server: &Server, issuer: &str) -> Result<(), AuthError> {
        let Some(mut record): Option<ClientRecord> = self.load(server, Kind::Client).await? else { return Ok(()) };
        if record.registered.remove(issuer).is_some() {
            self.save(server, Kind::Client, &record).await?;
        }
        Ok(())
    }
}

/// How a client with a secret shows it. Without a list the header is what everybody understands (RFC 8414).
fn with_secret(issuer: &AuthServer) -> Method {
    let offers = |name| issuer.methods.as_ref().is_some_and(|all| all.iter().any(|method| method == name));
    if !offers("client_secret_basic") && offers("client_secret_post") {
        Method::ClientSecretPost
    } else {
        Method::ClientSecretBasic
    }
}

async fn register(
    http: &Http,
    issuer: &AuthServer,
    endpoint: &Url,
    settings: &ClientSettings,
    redirect_uri: &str,
) -> Result<Registration, AuthError> {
    let refused = |reason| AuthError::Registration { issuer: issuer.issuer.clone(), reason };
    let only_public = issuer
        .methods
        .as_ref()
        .is_some_and(|all| !all.iter().any(|method| method == "client_secret_basic" || method == "client_secret_post"));
    let asked = if only_public { Method::None } else { with_secret(issuer) };
    let mut grants = vec!["authorization_code"];
    if issuer.grants.as_ref().is_none_or(|all| all.iter().any(|grant| grant == "refresh_token")) {
        grants.push("refresh_token");
    }
    let here = Url::parse(redirect_uri).is_ok_and(|url| judge::is_loopback(&url));
    let answer = http
        .post_json(
            endpoint,
            &json!({
                "client_name": settings.name,
                "redirect_uris": [redirect_uri],
                "grant_types": grants,
                "response_types": ["code"],
                "token_endpoint_auth_method": asked,
                "application_type": if here { "native" } else { "web" },
            }),
        )
        .await?;
    if !answer.is_success() {
        return Err(refused(Complaint::of(&answer).to_string()));
    }
    let new: Registered = answer.json().map_err(refused)?;
    if new.client_id.is_empty() || new.client_id.chars().any(char::is_control) {
        return Err(refused("its client id cannot be used".to_owned()));
    }
    let method = match (new.token_endpoint_auth_method.as_deref(), &new.client_secret) {
        (_, None) | (Some("none"), _) => Method::None,
        (Some("client_secret_basic"), _) => Method::ClientSecretBasic,
        (Some("client_secret_post"), _) => Method::ClientSecretPost,
        (Some(other), _) => {
            return Err(refused(format!("it wants clients to prove themselves by `{}`", tame(other))));
        }
        (None, Some(_)) => asked,
    };
    // 0 means never (RFC 7591, 3.2.1).
    let expires_at = new.client_secret_expires_at.filter(|at| *at != 0);
    let identity = Identity { id: new.client_id, secret: new.client_secret, key: None, method };
    Ok(Registration { identity, redirect_uri: redirect_uri.to_owned(), expires_at })
}
