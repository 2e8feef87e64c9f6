//! Connections to real servers, and to twins of them that misbehave.
#![allow(clippy::unwrap_used, missing_docs)]

mod calls;
mod conformance;
mod limits;
mod listing;
mod negotiation;
mod old;
mod process;
mod real;
mod remembered;
mod support;
mod tokens;
mod web;
