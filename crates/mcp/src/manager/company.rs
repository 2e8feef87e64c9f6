//! Who stands beside connections that many share, and beside single calls on them.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::connection::{Answers, Boxed, Refusal};
use crate::resolve::Redactor;

/// The extension for pages of tools, and what such a page is.
pub const UI: &str = "io.modelcontextprotocol/ui";
/// The type of a page that is shown with a tool's result.
pub const APP: &str = "text/html;profile=mcp-app";

/// Stands beside a connection with a session. What it offers is all that some client of ours may have, since a server asks for nothing
/// that it was not offered at the beginning: a server that asks is
/// answered by who made the call, and only without one from here, where nobody is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Desk;

impl Answers for Desk {
    fn capabilities(&self, stateless: bool) -> Map<String, Value> {
        // Pages of tools are shown by clients of ours that can: a server may offer them.
        let mut offered = Map::from_iter([("extensions".to_owned(), json!({ UI: { "mimeTypes": [APP] } }))]);
        // Without a session every request says the rest for itself.
        if !stateless {
            let all = [
                ("elicitation", json!({ "form": {}, "url": {} })),
                ("sampling", json!({ "context": {}, "tools": {} })),
                ("roots", json!({})),
            ];
            offered.extend(all.map(|(name, how)| (name.to_owned(), how)));
        }
        offered
    }

    fn answer(&self, method: &str, _params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        let answer = match method {
            "roots/list" => Ok(json!({"roots": []})),
            "elicitation/create" => Ok(json!({"action": "cancel"})),
            "sampling/createMessage" => Err(Refusal::new(-32603, "nobody is here who has a model")),
            _ => return None,
        };
        Some(Box::pin(std::future::ready(answer)))
    }
}

/// Somebody beside a call, who does not get to see what must not be seen.
pub(super) struct Masked {
    pub(super) company: Arc<dyn Answers>,
    pub(super) redactor: Redactor,
}

impl Masked {
    pub(super) fn wrap(company: Arc<dyn Answers>, redactor: &Redactor) -> Arc<dyn Answers> {
        if redactor.is_empty() { company } else { Arc::new(Self { company, redactor: redactor.clone() }) }
    }
}

impl Answers for Masked {
    fn capabilities(&self, stateless: bool) -> Map<String, Value> {
        self.company.capabilities(stateless)
    }

    fn answer(&self, method: &str, params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        self.company.answer(method, self.redactor.words(params))
    }

    fn told(&self, method: &str, params: &Value) {
        self.company.told(method, &self.redactor.words(params.clone()));
    }

    fn who(&self) -> &str {
        self.company.who()
    }
}
