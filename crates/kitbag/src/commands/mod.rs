//! What each command does.

pub(crate) mod admin;
pub(crate) mod audit;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod executor;
pub(crate) mod gallery;
pub(crate) mod mcp;
pub(crate) mod moving;
pub(crate) mod openapi;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod tool;
pub(crate) mod toolset;
pub(crate) mod workspace;
