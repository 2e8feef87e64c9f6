//! Tokens on their way to a server. They are values that must not come out again, like those of variables, but they are not
//! known before they are used.

use std::sync::Arc;

use crate::connection::{Boxed, Tokens};
use crate::resolve::Redactor;

/// Passes tokens on, and makes them known to who masks.
pub(super) struct Noted {
    tokens: Arc<dyn Tokens>,
    redactor: Redactor,
}

impl Noted {
    pub(super) fn wrap(tokens: Arc<dyn Tokens>, redactor: Redactor) -> Arc<dyn Tokens> {
        Arc::new(Self { tokens, redactor })
    }
}

impl Tokens for Noted {
    fn bearer(&self) -> Boxed<'_, Option<String>> {
        Box::pin(async {
            let token = self.tokens.bearer().await;
            if let Some(token) = &token {
                self.redactor.learn(token);
            }
            token
        })
    }

    fn refused(&self, challenge: Option<String>) -> Boxed<'_, bool> {
        self.tokens.refused(challenge)
    }
}
