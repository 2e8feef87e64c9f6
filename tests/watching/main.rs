//! What whoever runs Kitbag sees of it: traces, numbers, and the files to run it with.
#![allow(clippy::unwrap_used, missing_docs)]

mod collector;
mod doctor;
mod numbers;
mod traces;

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");
