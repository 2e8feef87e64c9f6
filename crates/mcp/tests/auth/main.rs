//! Signing in at remote servers, against a stand-in that is a real HTTP server: what should work does, and what an attacker would do does
//! not.
#![allow(clippy::unwrap_used, missing_docs)]

mod clients;
mod connecting;
mod flow;
mod hostile;
mod issuers;
mod renewal;
mod stand;
mod states;
mod support;
