//! A current token whenever one is needed: renewed ahead of its end, by one flight, and fetched anew when a server refuses it.

use std::sync::Arc;
use std::time::Duration;

use kitbag_model::Secret;

use super::authorizer::{Authorizer, Flight, Refusal, Server, access};
use super::challenge::Challenge;
use super::client::{ClientSettings, Grant, Proof, RegisteredClient};
use super::error::AuthError;
use super::keeper::Kind;
use super::pkce;
use super::records::{ClientRecord, Issuer, SignInRecord, TokenRecord};
use super::scopes;
use super::token::{self, Proven};

/// After a failure, how long a token that is still good is used without another try.
const PATIENCE: u64 = 30;
/// A token that was had within so many seconds and is refused does not get better by another renewal.
const JUST_NOW: u64 = 30;

impl Authorizer {
    /// The token to send to `server`, renewed if its end is near. None: a person must sign in. It goes to this server and nowhere else.
    pub async fn bearer(&self, server: &Server, settings: &ClientSettings) -> Result<Option<Secret>, AuthError> {
        let flight = self.flight(server);
        let known = flight.known();
        // That there is none is known as well; a server that wants one says so, and then what is kept is looked at again.
        let current = known.server.as_ref() == Some(&server.url);
        if current && known.tokens.is_none() && settings.grant == Grant::Person {
            return Ok(None);
        }
        if let Some(tokens) = known.tokens.as_ref().filter(|_| current) {
            let now = self.now();
            let patient = known.patience.is_some_and(|until| self.time() < until);
            if !tokens.is_due(now) || (patient && !tokens.is_over(now)) {
                return Ok(Some(access(tokens)));
            }
            // Somebody is renewing it. While it is still good nobody else needs to wait.
            if !tokens.is_over(now) && flight.lock.try_lock().is_err() {
                return Ok(Some(access(tokens)));
            }
        }
        let _held = flight.lock.lock().await;
        // Another flight, or another process, may have been faster: what is kept is what counts.
        let tokens = self.load_tokens(server).await?;
        flight.learn(server, tokens.clone());
        match tokens {
            Some(tokens) if !tokens.is_due(self.now()) => Ok(Some(access(&tokens))),
            Some(tokens) => self.renew(server, &flight, &tokens, settings).await,
            None if settings.grant == Grant::Machine => {
                self.machine(server, &flight, &Challenge::default(), settings).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// What to do after `server` refused the token `used` (or the lack of one) with the header `challenge`.
    pub async fn refused(
        &self,
        server: &Server,
        used: Option<&Secret>,
        challenge: Option<&str>,
        settings: &ClientSettings,
    ) -> Result<Refusal, AuthError> {
        let challenge = challenge.map(Challenge::parse).unwrap_or_default();
        let flight = self.flight(server);
        let _held = flight.lock.lock().await;
        let tokens = self.load_tokens(server).await?;
        flight.learn(server, tokens.clone());
        let machine = settings.grant == Grant::Machine;
        let Some(tokens) = tokens else {
            if machine {
                self.machine(server, &flight, &challenge, settings).await?;
                return Ok(Refusal::Renewed);
            }
            return Ok(Refusal::SignIn { scopes: challenge.scopes });
        };
        // It was renewed while the refused request was under way.
        if used.is_none_or(|used| used.expose() != tokens.access) && !tokens.is_over(self.now()) {
            return Ok(Refusal::Renewed);
        }
        if challenge.is_insufficient_scope() {
            return self.step_up(server, &flight, &tokens, challenge, settings).await;
        }
        let fresh = self.now() < tokens.obtained_at + JUST_NOW;
        if machine && !fresh {
            self.machine(server, &flight, &challenge, settings).await?;
            return Ok(Refusal::Renewed);
        }
        if tokens.refresh.is_some() && !fresh {
            // Renewed even if it seems good: the server has just said that it is not.
            let over = TokenRecord { expires_at: Some(0), ..TokenRecord::clone(&tokens) };
            if self.renew(server, &flight, &over, settings).await?.is_some() {
                return Ok(Refusal::Renewed);
            }
        }
        Ok(Refusal::SignIn { scopes: challenge.scopes })
    }

    /// The server wants a token that is good for more.
    async fn step_up(
        &self,
        server: &Server,
        flight: &Flight,
        tokens: &TokenRecord,
        challenge: Challenge,
        settings: &ClientSettings,
    ) -> Result<Refusal, AuthError> {
        // What was asked for and not given will not be given when it is asked for again.
        if challenge.scopes.iter().all(|scope| tokens.asked.contains(scope)) {
            return Ok(Refusal::NotAllowed { scopes: challenge.scopes });
        }
        if settings.grant == Grant::Machine {
            self.machine(server, flight, &challenge, settings).await?;
            return Ok(Refusal::Renewed);
        }
        let missing = scopes::union(&tokens.missing, &challenge.scopes);
        let noted = TokenRecord { missing: missing.clone(), ..tokens.clone() };
        self.save(server, Kind::Tokens, &noted).await?;
        flight.learn(server, Some(Arc::new(noted)));
        Ok(Refusal::SignIn { scopes: missing })
    }

    /// Renews `tokens`; who calls holds the lock. None: a person must sign in.
    async fn renew(
        &self,
        server: &Server,
        flight: &Flight,
        tokens: &TokenRecord,
        settings: &ClientSettings,
    ) -> Result<Option<Secret>, AuthError> {
        let still_good = !tokens.is_over(self.now());
        let renewed = match &tokens.refresh {
            Some(refresh) => self.refresh(server, tokens, refresh, settings).await.map(Some),
            None if settings.grant == Grant::Machine => {
                return self.machine(server, flight, &Challenge::default(), settings).await.map(Some);
            }
            None => Ok(None),
        };
        match renewed {
            Ok(Some(renewed)) => {
                self.save(server, Kind::Tokens, &renewed).await?;
                let secret = access(&renewed);
                flight.learn(server, Some(Arc::new(renewed)));
                Ok(Some(secret))
            }
            Ok(None) => Ok(still_good.then(|| access(tokens))),
            Err(AuthError::Denied { code, .. }) if code == "invalid_grant" || code == "invalid_client" => {
                if code == "invalid_client" {
                    self.forget_client(server, &tokens.issuer).await?;
                }
                self.give_up_renewing(server, flight, tokens).await
            }
            // It does not answer, or not sensibly. A token that is still good is better than none.
            Err(_) if still_good => {
                flight.wait_until(self.time() + Duration::from_secs(PATIENCE + pkce::below(PATIENCE)));
                Ok(Some(access(tokens)))
            }
            Err(error) => Err(error),
        }
    }

    /// The refresh token is good no more; another process may have used it up and kept what it got.
    async fn give_up_renewing(
        &self,
        server: &Server,
        flight: &Flight,
        tokens: &TokenRecord,
    ) -> Result<Option<Secret>, AuthError> {
        if let Some(kept) = self.load_tokens(server).await?.filter(|kept| kept.access != tokens.access) {
            let secret = (!kept.is_over(self.now())).then(|| access(&kept));
            flight.learn(server, Some(kept));
            return Ok(secret);
        }
        if tokens.is_over(self.now()) {
            self.delete(server, Kind::Tokens).await?;
            flight.learn(server, None);
            return Ok(None);
        }
        let last = TokenRecord { refresh: None, renew_at: None, ..tokens.clone() };
        self.save(server, Kind::Tokens, &last).await?;
        let secret = access(&last);
        flight.learn(server, Some(Arc::new(last)));
        Ok(Some(secret))
    }

    async fn refresh(
        &self,
        server: &Server,
        tokens: &TokenRecord,
        refresh: &str,
        settings: &ClientSettings,
    ) -> Result<TokenRecord, AuthError> {
        // Somebody may have given the client a new secret meanwhile.
        let mut identity = tokens.identity.clone();
        if let Some(RegisteredClient { id, proof: Proof::Secret(secret), .. }) = &settings.registered
            && *id == identity.id
        {
            identity.secret = Some(secret.expose().to_owned());
        }
        let proven = Proven::new(&identity, &tokens.issuer, self.now())?;
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("resource", &tokens.resource)];
        let granted = token::ask(&self.http(&server.org), &tokens.token_endpoint, proven, &form).await?;
        let renewed = granted.renew(tokens, self.now());
        Ok(TokenRecord { missing: tokens.missing.clone(), ..renewed })
    }

    /// A token for Kitbag itself; who calls holds the lock.
    async fn machine(
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
