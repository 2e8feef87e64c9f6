//! Messages of a chat.

pub(crate) mod add;
pub(crate) mod list;
mod view;

pub(crate) use view::{ContentShape, MessageView, RoleName};
