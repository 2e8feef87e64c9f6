//! Many servers, all of them real processes: what they do to the manager, and what it makes of it.
#![allow(clippy::unwrap_used, missing_docs)]

mod calls;
mod changes;
mod failures;
mod kit;
mod many;
mod nodes;
mod real;
mod revisions;
mod secrets;
mod sleepers;
mod web;
