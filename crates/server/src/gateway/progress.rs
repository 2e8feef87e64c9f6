//! How far a client is with what a server asked of it. Where there are several servers, the token that the question came with says which of
//! them wants to hear it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kitbag_model::ServerKey;
use serde_json::Value;

/// The tokens of the questions that are open, and whose they are. Each server gives its own, so that two may give the same.
#[derive(Clone, Default)]
pub(super) struct Tokens(Arc<Mutex<HashMap<String, Vec<ServerKey>>>>);

impl Tokens {
    /// A server asks something. If it wants to hear of the progress, it does until this is dropped.
    pub(super) fn open(&self, question: &Value, server: &ServerKey) -> Option<Open> {
        let token = question.pointer("/_meta/progressToken").filter(|token| !token.is_null())?.to_string();
        self.all().entry(token.clone()).or_default().push(server.clone());
        Some(Open { tokens: self.clone(), token, server: server.clone() })
    }

    /// The server that these words about progress are for; none where they could be for several.
    pub(super) fn server(&self, said: &Value) -> Option<ServerKey> {
        let token = said.get("progressToken")?.to_string();
        let all = self.all();
        let (first, others) = all.get(&token)?.split_first()?;
        others.iter().all(|other| other == first).then(|| first.clone())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Vec<ServerKey>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is open.
pub(super) struct Open {
    tokens: Tokens,
    token: String,
    server: ServerKey,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut all = self.tokens.all();
        let Some(servers) = all.get_mut(&self.token) else { return };
        if let Some(at) = servers.iter().position(|server| *server == self.server) {
            servers.swap_remove(at);
        }
        if servers.is_empty() {
            all.remove(&self.token);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_one_servers_while_its_question_is_open() {
        let (tokens, one, two): (_, ServerKey, ServerKey) =
            (Tokens::default(), "a~a".parse().unwrap(), "b~b".parse().unwrap());
        let question = |token: Value| json!({ "_meta": { "progressToken": token } });
        assert!(tokens.open(&json!({}), &one).is_none());
        let first = tokens.open(&question(json!(1)), &one).unwrap();
        let said = json!({ "progressToken": 1, "progress": 0.5 });
        assert_eq!(tokens.server(&said), Some(one.clone()));
        assert_eq!(tokens.server(&json!({ "progressToken": "1" })), None, "a number is no text");
        let second = tokens.open(&question(json!(1)), &two).unwrap();
        assert_eq!(tokens.server(&said), None, "it could be for both");
        drop(first);
        assert_eq!(tokens.server(&said), Some(two));
        drop(second);
        assert_eq!(tokens.server(&said), None);
    }
}
