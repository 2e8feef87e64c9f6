//! Signing out: the authorization server is told (RFC 7009), and what is kept goes in any case.

use url::Url;

use super::authorizer::{Authorizer, Server};
use super::error::AuthError;
use super::keeper::Kind;
use super::records::TokenRecord;
use super::token::{self, Proven};

impl Authorizer {
    /// Signs out of a server. The answer says whether its authorization server has taken the tokens back; if it could not be told, they are
    /// forgotten all the same, and end when their time is up.
    pub async fn revoke(&self, server: &Server) -> Result<bool, AuthError> {
        let flight = self.flight(server);
        let _held = flight.lock.lock().await;
        // Whatever address they were had for: this is about all that is kept.
        let tokens: Option<TokenRecord> = self.load(server, Kind::Tokens).await?;
        // First here: after a crash in between nobody uses them any more.
        self.delete(server, Kind::Tokens).await?;
        self.delete(server, Kind::SignIn).await?;
        flight.learn(server, None);
        match tokens {
            Some(tokens) => Ok(self.give_back(server, &tokens).await),
            None => Ok(true),
        }
    }

    /// Signs out and forgets how we were known as well: for a server that is removed, or whose authorization server is another one now.
    /// Where the server was does not matter.
    pub async fn forget(&self, server: &Server) -> Result<bool, AuthError> {
        let told = self.revoke(server).await?;
        self.delete(server, Kind::Client).await?;
        self.delete(server, Kind::Settings).await?;
        self.forget_flight(server);
        Ok(told)
    }

    async fn give_back(&self, server: &Server, tokens: &TokenRecord) -> bool {
        let Some(endpoint) = tokens.revocation_endpoint.as_deref().and_then(|text| Url::parse(text).ok()) else {
            return false;
        };
        let http = self.http(&server.org);
        // The refresh token first: its end is often that of all that came from it.
        let all = [("refresh_token", tokens.refresh.as_deref()), ("access_token", Some(tokens.access.as_str()))];
        let mut told = true;
        for (kind, token) in all {
            let Some(token) = token else { continue };
            let form = [("token", token), ("token_type_hint", kind)];
            told &= match Proven::new(&tokens.identity, &tokens.issuer, self.now()) {
                Ok(proven) => {
                    token::post(&http, &endpoint, proven, &form).await.is_ok_and(|answer| answer.is_success())
                }
                Err(_) => false,
            };
        }
        told
    }
}
