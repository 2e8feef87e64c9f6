//! Invitations: ways into an organisation. Kitbag sends no mail; whoever makes one passes its link on.

pub(crate) mod accept;
pub(crate) mod create;
pub(crate) mod hold;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod take_back;
pub(crate) mod view;
