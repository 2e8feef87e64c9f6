//! The tokens of one server, as a connection to it wants them.

use std::sync::{Arc, Mutex, PoisonError};

use kitbag_model::Secret;

use super::authorizer::{Authorizer, Refusal, Server};
use super::client::ClientSettings;
use super::error::AuthError;

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
    /// The token to send, if there is one.
    pub async fn bearer(&self) -> Option<String> {
        let found = self.authorizer.bearer(&self.server, &self.settings).await;
        let token = found.unwrap_or_else(|error| {
            *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(Err(error));
            None
        });
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&token);
        token.map(|token| token.expose().to_owned())
    }

    /// The server refused what it was sent. Whether there is another token now, so that it is worth asking once more.
    pub async fn refused(&self, challenge: Option<String>) -> bool {
        let used = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let verdict = self.authorizer.refused(&self.server, used.as_ref(), challenge.as_deref(), &self.settings).await;
        let renewed = matches!(verdict, Ok(Refusal::Renewed));
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
        renewed
    }

    /// What came of the last refusal, or why there was no token.
    pub fn verdict(&self) -> Option<Result<Refusal, AuthError>> {
        self.verdict.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
