//! MCP servers as providers of tools: one connection ([`connection`]), and many that are looked after ([`manager`]).
//!
//! Knows the protocol and its transports. Does not know where a server's configuration, its pins or its tokens are kept, nor
//! what a call's record is.

pub mod auth;
pub mod connection;
pub mod endpoint;
pub mod lasting;
pub mod manager;
pub mod resolve;
pub mod serve;
pub mod shallow;
pub mod tool;
mod transport;
