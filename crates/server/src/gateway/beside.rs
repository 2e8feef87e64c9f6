//! A client, as it stands beside calls to the servers behind us: it is asked what they ask, and hears what they say.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kitbag_mcp::connection::{Answers, Boxed};
use kitbag_mcp::serve::{AskError, Client};
use serde_json::{Map, Value};

/// How important words for a log can be, least first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What a session wants to read of logs. Until it says so, everything.
#[derive(Clone, Debug, Default)]
pub(super) struct LogLevel(Arc<AtomicUsize>);

impl LogLevel {
    /// From now on only this and what is more important. False if there is no such level.
    pub(super) fn set(&self, level: &str) -> bool {
        let found = LEVELS.iter().position(|known| *known == level);
        found.inspect(|at| self.0.store(*at, Ordering::Relaxed)).is_some()
    }
}

/// A client beside a call.
pub(super) struct Beside {
    pub(super) client: Client,
    pub(super) who: String,
    pub(super) level: LogLevel,
}

impl Beside {
    /// Whether the client wants to read this.
    fn wants(&self, params: &Value) -> bool {
        let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
        let said = params.get("level").and_then(Value::as_str).and_then(rank).unwrap_or(LEVELS.len());
        let peer = self.client.peer();
        match (peer.stateless, &peer.log_level) {
            (true, None) => false,
            (true, Some(level)) => rank(level).is_some_and(|least| said >= least),
            (false, _) => said >= self.level.0.load(Ordering::Relaxed),
        }
    }
}

impl Answers for Beside {
    fn capabilities(&self, _stateless: bool) -> Map<String, Value> {
        self.client.peer().capabilities.clone()
    }

    fn answer(&self, method: &str, params: Value) -> Option<Boxed<'static, Result<Value, (i64, String)>>> {
        if !self.client.can(method) {
            return None;
        }
        let (client, method) = (self.client.clone(), method.to_owned());
        Some(Box::pin(async move {
            client.ask(&method, params).await.map_err(|error| match error {
                AskError::Refused(refusal) => {
                    let code = refusal.get("code").and_then(Value::as_i64).unwrap_or(-32603);
                    let message = refusal.get("message").and_then(Value::as_str).unwrap_or("it refused");
                    (code, message.to_owned())
                }
                other => (-32603, other.to_string()),
            })
        }))
    }

    fn told(&self, method: &str, params: &Value) {
        match (method, params) {
            ("notifications/progress", Value::Object(params)) => self.client.progress(params.clone()),
            ("notifications/message", params) if self.wants(params) => self.client.notify(method, params.clone()),
            _ => {}
        }
    }

    fn who(&self) -> &str {
        &self.who
    }
}
