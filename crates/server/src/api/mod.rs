//! The endpoints, one file each, and what they share: errors, input, lists.

pub(crate) mod audit;
pub(crate) mod calls;
pub(crate) mod chats;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod gallery;
pub(crate) mod input;
pub(crate) mod invitations;
pub(crate) mod list;
pub(crate) mod machine;
pub(crate) mod mcp_imports;
pub(crate) mod mcp_servers;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod orgs;
pub(crate) mod people;
pub(crate) mod processes;
pub(crate) mod secrets;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod skills;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod toolsets;
pub(crate) mod workspace;
