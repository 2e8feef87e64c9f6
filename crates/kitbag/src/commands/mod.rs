//! What each command does.

pub(crate) mod admin;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod serve;
pub(crate) mod workspace;
