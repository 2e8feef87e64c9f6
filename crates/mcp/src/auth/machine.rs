//! Tokens for Kitbag itself: a registered client signs in with its own proof (client credentials), and nobody is asked.

use std::sync::Arc;

use kitbag_model::Secret;

use super::authorizer::{Authorizer, Flight, Server, access};
use super::challenge::Challenge;
use super::client::ClientSettings;
use super::error::AuthError;
use super::keeper::Kind;
use super::records::{ClientRecord, Issuer, SignInRecord, TokenRecord};
use super::scopes;
use super::token::{self, Proven};

impl Authorizer {
    /// A token for Kitbag itself; who calls holds the lock.
    pub(super) async fn machine(
        &self,
        server: &Server,
        flight: &Flight,
        challenge: &Challenge,
        settings: &ClientSettings,
    ) -> Result<Secret, AuthError> {
        let Some(client) = &settings.registered else {
            return Err(AuthError::Settings("to sign in without a person, a registered client is needed"));
        };
        let (resource, issuer) = self.who_signs_in(server, challenge).await?;
        let mut record: ClientRecord = self.load(server, Kind::Client).await?.unwrap_or_default();
        let identity = self.given(server, &issuer, client, &mut record).await?;
        let before = flight.known().tokens.map(|tokens| tokens.asked.clone()).unwrap_or_default();
        let wanted = if !challenge.scopes.is_empty() {
            &challenge.scopes
        } else if !settings.scopes.is_empty() {
            &settings.scopes
        } else {
            &resource.scopes
        };
        let scopes = scopes::union(&before, &scopes::clean(wanted.iter().cloned()));
        let proven = Proven::new(&identity, &issuer.issuer, self.now())?;
        let scope = scopes.join(" ");
        let mut form = vec![("grant_type", "client_credentials"), ("resource", resource.name.as_str())];
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        let granted = token::ask(&self.http(&server.org), issuer.token_endpoint.as_str(), proven, &form).await?;
        let as_if = SignInRecord {
            state: String::new(),
            person: String::new(),
            server: server.url.to_string(),
            resource: resource.name.clone(),
            issuer: Issuer {
                name: issuer.issuer.clone(),
                token_endpoint: issuer.token_endpoint.to_string(),
                revocation_endpoint: issuer.revocation_endpoint.as_ref().map(url::Url::to_string),
            },
            iss_required: false,
            identity,
            verifier: String::new(),
            redirect_uri: String::new(),
            scopes,
            expires_at: 0,
        };
        // A refresh token would be one secret more to lose: the client's own proof is enough (RFC 6749, 4.4.3).
        let tokens = TokenRecord { machine: true, refresh: None, ..granted.into_record(&as_if, self.now()) };
        self.save(server, Kind::Tokens, &tokens).await?;
        let secret = access(&tokens);
        flight.learn(server, Some(Arc::new(tokens)));
        Ok(secret)
    }
}
