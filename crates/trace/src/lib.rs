//! Traces: which request led to which call, which server and which machine, and how long each took.
//!
//! Everything here is nothing until [`Exporter::start`] was called: a span that nobody collects is a null pointer, and asking whether there
//! is one is a load from memory. A span has ids, names of tools and servers, statuses and codes. It has no arguments, no results, no headers,
//! no variables and no words of errors, which may quote any of them: so there is no way here to put a text into one that was not made for it,
//! and no event of the log becomes part of one.

mod context;
mod current;
mod export;
mod span;

pub use context::Context;
pub use current::{carried, current, poll_within, within};
pub use export::{Exporter, StartError};
pub use span::{Kind, Span, is_on};
