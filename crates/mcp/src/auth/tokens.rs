//! The tokens of one server, as a connection to it wants them.

use std::sync::{Arc, Mutex, PoisonError};

use kitbag_model::Secret;

use super::authorizer::{Authorizer, Refusal, Server};
use super::client::ClientSettings;
use super::error::AuthError;
use crate::connection::{Boxed, Tokens};

/// Tokens for one server at one address. A connection asks it and knows nothing else of signing in.
pub struct ServerTokens {
    authorizer: Arc<Authorizer>,
    server: Server,
    settings: ClientSettings,
    /// What was handed out last, to know what was refused.
    last: Mutex<Option<Secret>>,
    /// What came of the last refusal, for who looks after the connection.
    verdict: Mutex<Option<Result<Refusal, AuthError>>>,
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
            self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&token);
            token.map(|token| token.expose().to_owned())
        })
    }

    fn refused(&self, challenge: Option<String>) -> Boxed<'_, bool> {
        Box::pin(async move {
            let used = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let verdict =
                self.authorizer.refused(&self.server, used.as_ref(), challenge.as_deref(), &self.settings).await;
            let renewed = matches!(verdict, Ok(Refusal::Renewed));
            self.judge(verdict);
            renewed
        })
    }
}
