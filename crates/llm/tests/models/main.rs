//! Providers as they are and as they fail, over a real connection.
#![allow(clippy::unwrap_used, missing_docs)]

mod again;
mod anthropic;
mod breaking;
mod kit;
mod limits;
mod listing;
mod openai;
mod proxied;
mod refusals;
mod requests;
