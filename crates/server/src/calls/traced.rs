//! A call as a part of a trace: which one, of which tool, and how it ended. Neither what went in nor what came out.

use kitbag_model::ToolCall;
use kitbag_trace::{Kind, Span};

use super::live::Live;

/// Begins a span, if anything is traced.
pub(super) fn begin(live: &Live, call: &ToolCall) -> Span {
    let mut span = Span::new("call", Kind::Internal);
    span.set("kitbag.organization.id", &live.key.0);
    span.set("kitbag.chat.id", call.chat_id);
    span.set("kitbag.call.id", call.id);
    span.set("kitbag.tool.id", &call.tool_id);
    span
}

/// Ends it as the call ended.
pub(super) fn end(mut span: Span, live: &Live) {
    let Some(call) = live.end_of_it() else { return };
    span.set("kitbag.call.status", call.status);
    if let Some(error) = &call.outcome.error {
        span.fail(error.code.as_str());
    }
}
