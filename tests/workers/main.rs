//! Workers, without a server: real Python in the real sandbox, one program and one call at a time.
#![allow(clippy::unwrap_used, missing_docs)]

mod basics;
mod confined;
mod discovery;
mod environments;
mod faults;
mod forged;
mod inference;
mod kit;
mod lasting;
mod shop;
/// Archives byte by byte, as the tests of the archive reader make them.
#[allow(dead_code, reason = "packages need no lies")]
#[path = "../../crates/formats/tests/archive/build.rs"]
mod zip_build;
