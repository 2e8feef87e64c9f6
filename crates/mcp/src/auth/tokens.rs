//! The tokens of one server, as a connection to it wants them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_model::Secret;

use super::authorizer::{Authorizer, Refusal, Server};
use super::challenge::Challenge;
use super::client::ClientSettings;
use super::error::AuthError;
use crate::connection::{Boxed, Tokens};

/// Tokens for one server at one address. A connection asks it and knows nothing else of signing in.
pub struct ServerTokens {
    authorizer: Arc<Authorizer>,
    server: Server,
    settings: ClientSettings,
    /// What was handed out last, to know what was refused.
    last: Mutex<Last>,
    /// What came of the last refusal, for who looks after the connection.
    verdict: Mutex<Option<Result<Refusal, AuthError>>>,
}

/// After a token has taken the place of another one, requests with the old one may still be under way for this long. Who repeats them
/// gets the new one.
const OVERLAP: Duration = Duration::from_secs(30);
const MOST_EXCUSES: u8 = 8;

#[derive(Default)]
struct Last {
    token: Option<Secret>,
    /// When it took the place of another one, and how often that was an excuse since.
    replaced: Option<(Instant, u8)>,
}

impl Last {
    fn hand_out(&mut self, token: Option<Secret>) {
        if let (Some(old), Some(new)) = (&self.token, &token)
            && old.expose() != new.expose()
        {
            self.replaced = Some((Instant::now(), 0));
        }
        self.token = token;
    }

    /// Whether what was refused may have been an old token. Not without end: if it is the new one, somebody must be told.
    fn overlaps(&mut self) -> bool {
        match &mut self.replaced {
            Some((at, excuses)) if at.elapsed() < OVERLAP && *excuses < MOST_EXCUSES => {
                *excuses += 1;
                true
            }
            _ => false,
        }
    }
}

impl Authorizer {
    /// The tokens of `server`, for a connection to it.
    pub fn tokens(self: &Arc<Self>, server: Server, settings: ClientSettings) -> ServerTokens {
        let authorizer = Arc::clone(self);
        ServerTokens { authorizer, server, settings, last: Mutex::default(), verdict: Mutex::default() }
    }
}

impl ServerTokens {
    /// What came of the last refusal, or why there was no token.
    pub fn verdict(&self) -> Option<Result<Refusal, AuthError>> {
        self.verdict.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn judge(&self, verdict: Result<Refusal, AuthError>) {
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
    }
}

impl Tokens for ServerTokens {
    fn bearer(&self) -> Boxed<'_, Option<String>> {
        Box::pin(async move {
            let token = self.authorizer.bearer(&self.server, &self.settings).await.unwrap_or_else(|error| {
                self.judge(Err(error));
                None
            });
            self.last.lock().unwrap_or_else(PoisonError::into_inner).hand_out(token.clone());
            token.map(|token| token.expose().to_owned())
        })
    }

    fn refused(&self, challenge: Option<String>) -> Boxed<'_, bool> {
        Box::pin(async move {
            let read = challenge.as_deref().map(Challenge::parse).unwrap_or_default();
            let used = {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                if !read.is_insufficient_scope() && last.overlaps() {
                    return true;
                }
                last.token.clone()
            };
            let verdict =
                self.authorizer.refused(&self.server, used.as_ref(), challenge.as_deref(), &self.settings).await;
            let renewed = matches!(verdict, Ok(Refusal::Renewed));
            self.judge(verdict);
            renewed
        })
    }
}
