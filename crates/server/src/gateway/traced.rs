//! A request of the protocol as a part of a trace. A client says in `_meta` which part of its own trace a request is, so that is what it
//! belongs to; the request over HTTP that brought it is named beside, since one may bring what another asked for.

use std::pin::pin;
use std::sync::Arc;

use kitbag_mcp::serve::{Ask, Fault};
use kitbag_mcp::shallow::Shallow;
use kitbag_trace::{Context, Kind, Span};
use serde_json::value::RawValue;

use super::view::View;

/// Answers a request, inside a span.
pub(super) async fn answer(view: Arc<View>, ask: Ask) -> Result<Box<RawValue>, Fault> {
    let carrier = kitbag_trace::current();
    let name = || format!("mcp {}", ask.method);
    let mut span = match theirs(&ask) {
        Some(theirs) => Span::of(Some(theirs), carrier, Kind::Server, name),
        None => Span::of(carrier, None, Kind::Server, name),
    };
    span.set("mcp.method.name", &ask.method);
    let answering = pin!(view.answer(ask));
    let answer = kitbag_trace::within(span.context(), answering).await;
    if let Err(fault) = &answer {
        span.count("rpc.jsonrpc.error_code", fault.code);
        span.fail("fault");
    }
    answer
}

/// Where the client says that it is.
fn theirs(ask: &Ask) -> Option<Context> {
    let meta: Shallow = Shallow::read(ask.params.as_deref()?)?.parse("_meta")?;
    Context::parse(&meta.text("traceparent")?, meta.text("tracestate").as_deref())
}
