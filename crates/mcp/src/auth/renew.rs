//! A current token whenever one is needed: renewed ahead of its end, by one flight, and fetched anew when a server refuses it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kitbag_model::Secret;

use super::authorizer::{Authorizer, Flight, Refusal, Server, access};
use super::challenge::Challenge;
use super::client::{ClientSettings, Grant, Proof, RegisteredClient};
use super::error::AuthError;
use super::keeper::Kind;
use super::pkce;
use super::records::TokenRecord;
use super::scopes;
use super::token::{self, Proven};

/// After a failure, how many seconds nobody tries again: a good token is used, and without one the failure is told again.
const PATIENCE: u64 = 30;
/// A token that was had within so many seconds and is refused does not get better by another renewal.
const JUST_NOW: u64 = 30;

impl Authorizer {
    /// The token to send to `server`, renewed if its end is near. None: a person must sign in. It goes to this server and nowhere else.
    pub async fn bearer(
        self: &Arc<Self>,
        server: &Server,
        settings: &ClientSettings,
    ) -> Result<Option<Secret>, AuthError> {
        if let Some(answer) = self.at_once(&self.flight(server), server, settings, false) {
            return answer;
        }
        let (this, server, settings) = (Arc::clone(self), server.clone(), settings.clone());
        see_through(async move { this.after_all(&server, &settings).await }).await
    }

    /// What to do after `server` refused the token `used` (or the lack of one) with the header `challenge`.
    pub async fn refused(
        self: &Arc<Self>,
        server: &Server,
        used: Option<&Secret>,
        challenge: Option<&str>,
        settings: &ClientSettings,
    ) -> Result<Refusal, AuthError> {
        let (this, server, settings) = (Arc::clone(self), server.clone(), settings.clone());
        let (used, challenge) = (used.cloned(), challenge.map(Challenge::parse).unwrap_or_default());
        see_through(async move { this.judge_refusal(&server, used.as_ref(), challenge, &settings).await }).await
    }

    /// The answer that needs nobody. `held`: who asks would be the one to renew it.
    fn at_once(
        &self,
        flight: &Flight,
        server: &Server,
        settings: &ClientSettings,
        held: bool,
    ) -> Option<Result<Option<Secret>, AuthError>> {
        let known = flight.known();
        if known.server.as_ref() != Some(&server.url) {
            return None;
        }
        let failed = known.failed.filter(|(until, _)| self.time() < *until).map(|(_, error)| error);
        let Some(tokens) = known.tokens else {
            return match failed {
                Some(error) => Some(Err(error)),
                // That there is none is known as well; a server that wants one says so, and then what is kept is looked at again.
                None => (settings.grant == Grant::Person).then_some(Ok(None)),
            };
        };
        let now = self.now();
        if tokens.is_over(now) {
            return failed.map(Err);
        }
        // If somebody is renewing it, nobody else needs to wait while it is still good.
        let good = !tokens.is_due(now) || failed.is_some() || (!held && flight.lock.try_lock().is_err());
        good.then(|| Ok(Some(access(&tokens))))
    }

    /// The answer that takes a flight.
    async fn after_all(&self, server: &Server, settings: &ClientSettings) -> Result<Option<Secret>, AuthError> {
        let flight = self.flight(server);
        let _held = flight.lock.lock().await;
        let _alone = self.alone(server).await;
        // While this one waited for its turn, another one may have found out.
        if let Some(answer) = self.at_once(&flight, server, settings, true) {
            return answer;
        }
        let tokens = self.look(server, &flight).await?;
        let answer = match tokens {
            Some(tokens) if !tokens.is_due(self.now()) => Ok(Some(access(&tokens))),
            Some(tokens) => self.renew(server, &flight, &tokens, settings).await,
            None if settings.grant == Grant::Machine => {
                self.machine(server, &flight, &Challenge::default(), settings).await.map(Some)
            }
            None => Ok(None),
        };
        if let Err(error @ (AuthError::Unreachable { .. } | AuthError::Nonsense { .. })) = &answer {
            flight.fail(self.later(), error.clone());
        }
        answer
    }

    /// What is kept; who calls holds the lock. Another process may have been faster, so that is what counts, unless what this one knows is
    /// newer and could not be kept.
    async fn look(&self, server: &Server, flight: &Flight) -> Result<Option<Arc<TokenRecord>>, AuthError> {
        let kept = self.load_tokens(server).await?;
        let known = flight.known().tokens.filter(|known| known.server == server.url.as_str());
        let newest = match (kept, known) {
            (Some(kept), Some(known)) if known.obtained_at > kept.obtained_at => Some(known),
            (kept, _) => kept,
        };
        flight.learn(server, newest.clone());
        Ok(newest)
    }

    fn later(&self) -> SystemTime {
        self.time() + Duration::from_secs(PATIENCE + pkce::below(PATIENCE))
    }

    async fn judge_refusal(
        &self,
        server: &Server,
        used: Option<&Secret>,
        challenge: Challenge,
        settings: &ClientSettings,
    ) -> Result<Refusal, AuthError> {
        let flight = self.flight(server);
        let _held = flight.lock.lock().await;
        let _alone = self.alone(server).await;
        let tokens = self.look(server, &flight).await?;
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
                // Known first: the old refresh token is used up, whether or not the new one can be kept.
                flight.learn(server, Some(Arc::new(renewed.clone())));
                self.save(server, Kind::Tokens, &renewed).await?;
                Ok(Some(access(&renewed)))
            }
            Ok(None) => Ok(still_good.then(|| access(tokens))),
            Err(AuthError::Denied { code, .. }) if code == "invalid_grant" || code == "invalid_client" => {
                if code == "invalid_client" {
                    self.forget_client(server, &tokens.issuer).await?;
                }
                self.give_up_renewing(server, flight, tokens).await
            }
            // It does not answer, or not sensibly. A token that is still good is better than none.
            Err(error) if still_good => {
                flight.fail(self.later(), error);
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
}

/// Goes on to the end even if nobody waits for it any more. A call that is given up half-way must not take with it the answer that has the
/// next refresh token: the last one is used up by then.
///
/// The work is its task's at once: who waits, and every request does that may need a token, holds only the task's handle.
pub(super) fn see_through<T: Send + 'static>(
    work: impl Future<Output = Result<T, AuthError>> + Send + 'static,
) -> impl Future<Output = Result<T, AuthError>> {
    let task = tokio::spawn(work);
    async move {
        match task.await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(AuthError::Interrupted),
        }
    }
}
