//! Issuers, from outside: the real program, a real OpenID provider, and a twin of one that lies.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../http/browsers.rs"]
mod browsers;
mod clients;
mod hostile;
mod kit;
mod sign_in;
mod staying;
mod tokens;
mod twin;

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");
