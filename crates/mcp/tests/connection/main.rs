//! Connections to real servers, and to twins of them that misbehave.
#![allow(missing_docs)]

mod honest;
mod support;
