//! API tokens of an organisation.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod revoke;
mod view;

pub(crate) use view::{ScopeName, TokenView};
