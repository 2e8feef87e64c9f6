//! Workspaces: every state of a folder, kept by content.
//!
//! A state is a [`tree`] of entries whose nodes are named by their hash, so that two states share what is equal. The
//! bytes of files are [`blobs`], written once. This crate reads and writes files; it knows neither the database (nodes
//! come and go through [`tree::Nodes`]) nor HTTP, and it is blocking throughout.

pub mod blobs;
pub mod care;
pub mod clear;
mod disk;
mod error;
pub mod fault;
pub mod laid;
pub mod tree;
pub mod workspace;

pub use error::CasError;
pub use tree::{Change, Entry, Kind, NodeError, Nodes, Tree};
