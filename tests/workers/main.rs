//! Workers, without a server: real Python in the real sandbox, one program and one call at a time.
#![allow(clippy::unwrap_used, missing_docs)]

mod basics;
mod confined;
mod discovery;
mod faults;
mod forged;
mod inference;
mod kit;
mod lasting;
