//! Something that takes time, and what is told of it.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::OnceLock;

use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry_sdk::trace::{SdkTracer, Span as Recorded};

use crate::context::Context;
use crate::current::current;

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// From now on spans are kept by this one. There is one in a program, for good.
pub(crate) fn record_with(tracer: SdkTracer) {
    let _ = TRACER.set(tracer);
}

/// Whether anything is traced at all.
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

/// What part in a conversation a span has.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// It answers somebody.
    Server,
    /// It asks somebody.
    Client,
    /// It leaves work for somebody.
    Producer,
    /// It does work that somebody left.
    Consumer,
    /// None.
    Internal,
}

impl From<Kind> for SpanKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Server => Self::Server,
            Kind::Client => Self::Client,
            Kind::Producer => Self::Producer,
            Kind::Consumer => Self::Consumer,
            Kind::Internal => Self::Internal,
        }
    }
}

/// Something that takes time, until it is dropped. Nothing at all where nothing is traced.
#[derive(Debug, Default)]
pub struct Span(Option<Box<Recorded>>);

impl Span {
    /// One that nobody hears of.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Begins one as a part of the current one, or one of its own.
    pub fn new(name: &'static str, kind: Kind) -> Self {
        Self::of(current(), None, kind, || name)
    }

    /// Begins one as a part of another, which may be another program's. `also` is one that led to it, too. The name is only made if it is
    /// needed.
    pub fn of<N: Into<Cow<'static, str>>>(
        parent: Option<Context>,
        also: Option<Context>,
        kind: Kind,
        name: impl FnOnce() -> N,
    ) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::none() };
        let around = match parent {
            Some(parent) => opentelemetry::Context::new().with_remote_span_context(parent.0),
            None => opentelemetry::Context::new(),
        };
        let builder = tracer.span_builder(name()).with_kind(kind.into());
        let mut span = tracer.build_with_context(builder, &around);
        if let Some(also) = also {
            span.add_link(also.0, Vec::new());
        }
        Self(Some(Box::new(span)))
    }

    /// Its place, for what is a part of it.
    pub fn context(&self) -> Option<Context> {
        self.0.as_ref().map(|span| Context(span.span_context().clone()))
    }

    /// Says something of it: an id, a name, a code. Never what somebody gave or got.
    pub fn set(&mut self, key: &'static str, value: impl Display) {
        if let Some(span) = self.0.as_mut().filter(|span| span.is_recording()) {
            span.set_attribute(KeyValue::new(key, value.to_string()));
        }
    }

    /// The same for a number.
    pub fn count(&mut self, key: &'static str, value: i64) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(key, value));
        }
    }

    /// It did what it was for.
    pub fn succeed(&mut self) {
        if let Some(span) = &mut self.0 {
            span.set_status(Status::Ok);
        }
    }

    /// It did not do what it was for. The code is one of a known few, and no text.
    pub fn fail(&mut self, code: &'static str) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new("error.type", code));
            span.set_status(Status::error(code));
        }
    }
}
