//! Where in a trace something is, as others are told and tell it: the W3C's `traceparent` and `tracestate`.

use std::str::FromStr;

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// The most bytes of a `tracestate` that are passed on. What is longer is left out, as the specification allows.
const MOST_STATE: usize = 512;

/// A place in a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Context(pub(crate) SpanContext);

impl Context {
    /// Reads what somebody else said. What is not exactly as the specification has it is nothing: it comes from strangers.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.trim().split('-');
        let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let plain = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let well_formed = plain(version, 2) && plain(trace, 32) && plain(span, 16) && plain(flags, 2);
        // Later versions may have more behind, the first one has not; ff is none.
        if !well_formed || version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        let state = tracestate.filter(|state| state.len() <= MOST_STATE);
        let state = state.and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
        Some(Self(SpanContext::new(trace, span, flags, true, state))).filter(|context| context.0.is_valid())
    }

    /// The header, and the field of `_meta`, of this name.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.0.trace_id(), self.0.span_id(), self.0.trace_flags().to_u8())
    }

    /// The same; none if there is nothing to say.
    pub fn tracestate(&self) -> Option<String> {
        Some(self.0.trace_state().header()).filter(|state| !state.is_empty())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_well_formed_comes_back_as_it_was() {
        let read = Context::parse(GOOD, Some("a=1,b=2")).unwrap();
        assert_eq!((read.traceparent().as_str(), read.tracestate().as_deref()), (GOOD, Some("a=1,b=2")));
        let later = Context::parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-more", None).unwrap();
        assert_eq!(later.traceparent(), GOOD, "flags and versions that are not known are not passed on");
    }

    #[test]
    fn what_is_not_is_nothing() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Context::parse(wrong, None), None, "{wrong}");
        }
        let long = format!("a={}", "x".repeat(600));
        assert_eq!(Context::parse(GOOD, Some(&long)).unwrap().tracestate(), None);
        assert_eq!(Context::parse(GOOD, Some("no state")).unwrap().tracestate(), None);
    }
}
