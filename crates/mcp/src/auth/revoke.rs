//! Signing out: the authorization server is told (RFC 7009), and what is kept goes in any case.

use url::Url;

use super::authorizer::{Authorizer, Server};
use super::error::AuthError;
use super::keeper::Kind;
use super::records::TokenRecord;
use super::token::{self, Proven};

/// What an authorization server has yet to be told: tokens that are forgotten here, and still good there.
#[must_use]
pub struct Farewell {
    server: Server,
    tokens: Option<TokenRecord>,
}

impl Authorizer {
    /// Signs out of a server. The answer says whether its authorization server has taken the tokens back; if it could not be told, they are
    /// forgotten all the same, and end when their time is up.
    pub async fn revoke(&self, server: &Server) -> Result<bool, AuthError> {
        let farewell = self.sign_out_here(server).await?;
        Ok(self.tell(farewell).await)
    }

    /// The half of [`revoke`](Self::revoke) that waits for nobody else.
    async fn sign_out_here(&self, server: &Server) -> Result<Farewell, AuthError> {
        let flight = self.flight(server);
        let _held = flight.lock.lock().await;
        // Whatever address they were had for: this is about all that is kept.
        let tokens: Option<TokenRecord> = self.load(server, Kind::Tokens).await?;
        // First here: after a crash in between nobody uses them any more.
        self.delete(server, Kind::Tokens).await?;
        self.delete(server, Kind::SignIn).await?;
        flight.learn(server, None);
        Ok(Farewell { server: server.clone(), tokens })
    }

    /// Signs out and forgets how we were known as well: for a server that is removed, or whose authorization server is another one now.
    /// Where the server was does not matter.
    pub async fn forget(&self, server: &Server) -> Result<bool, AuthError> {
        let farewell = self.forget_here(server).await?;
        Ok(self.tell(farewell).await)
    }

    /// The half of [`forget`](Self::forget) that waits for nobody else. What it leaves to be [told](Self::tell) may be told at any time,
    /// or never: then the tokens end when their time is up.
    pub async fn forget_here(&self, server: &Server) -> Result<Farewell, AuthError> {
        let farewell = self.sign_out_here(server).await?;
        self.delete(server, Kind::Client).await?;
        self.delete(server, Kind::Settings).await?;
        self.forget_flight(server);
        Ok(farewell)
    }

    /// Tells an authorization server that it can take its tokens back. Whether it has.
    pub async fn tell(&self, farewell: Farewell) -> bool {
        match &farewell.tokens {
            Some(tokens) => self.give_back(&farewell.server, tokens).await,
            None => true,
        }
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
