//! The endpoints, one file each, and what they share: errors, input, lists.

pub(crate) mod chats;
pub(crate) mod error;
pub(crate) mod input;
pub(crate) mod list;
pub(crate) mod messages;
pub(crate) mod tokens;
pub(crate) mod workspace;
