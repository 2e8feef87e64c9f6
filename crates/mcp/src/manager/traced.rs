//! A request to a server as a part of a trace. The server is told, in `_meta`, which part it is: what it traces itself belongs there.

use kitbag_model::ServerKey;
use kitbag_trace::{Kind, Span};
use serde_json::value::RawValue;

use super::ManagerError;
use crate::connection::{Call, CallError};
use crate::shallow::Shallow;

/// Begins a span, if anything is traced, and puts its place where the client's own was: that one is what it belongs to.
pub(super) fn begin(server: &ServerKey, call: &mut Call) -> Span {
    let mut span = Span::of(kitbag_trace::current(), None, Kind::Client, || format!("mcp {}", call.method));
    let Some(place) = span.context() else { return span };
    span.set("mcp.method.name", &call.method);
    span.set("kitbag.server.key", server);
    let mut meta: Shallow = call.params.parse("_meta").unwrap_or_default();
    meta.set_value("traceparent", &place.traceparent().into());
    match place.tracestate() {
        Some(state) => meta.set_value("tracestate", &state.into()),
        None => drop(meta.remove("tracestate")),
    }
    call.params.set("_meta", meta.raw());
    span
}

/// Says how it ended. A server's words are its own.
pub(super) fn end(span: &mut Span, answer: &Result<Box<RawValue>, ManagerError>) {
    let Err(error) = answer else { return };
    let code = match error {
        ManagerError::NotFound => "not_found",
        ManagerError::Disabled => "disabled",
        ManagerError::NeedsTrust => "needs_trust",
        ManagerError::NeedsAuth { .. } | ManagerError::Call(CallError::NeedsAuth { .. }) => "needs_auth",
        ManagerError::EnvNotSet(_) => "variable_not_set",
        ManagerError::NotConnected { .. } | ManagerError::Call(CallError::Disconnected(_) | CallError::Unheard(_)) => {
            "not_connected"
        }
        ManagerError::Call(CallError::Timeout(_)) => "timeout",
        ManagerError::Call(CallError::Cancelled) => "cancelled",
        ManagerError::Call(CallError::Nonsense(_)) => "nonsense",
        ManagerError::Call(CallError::Refused { code, .. }) => {
            span.count("rpc.jsonrpc.error_code", *code);
            "refused"
        }
    };
    span.fail(code);
}
