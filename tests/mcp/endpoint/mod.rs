//! Kitbag's own MCP endpoint, from outside: who may enter, which tools a client gets, what travels, and who is asked.

mod access;
mod carrying;
mod confirming;
mod fidelity;
mod heeding;
mod resolving;
mod several;
mod tasks;
mod transparent;

pub(crate) use kitbag_testkit::endpoint::{Client, Heard, token};
