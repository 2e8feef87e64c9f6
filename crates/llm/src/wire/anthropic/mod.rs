//! Anthropic's Messages.

mod events;
mod request;

pub(crate) use events::Reader;
pub(super) use request::request;
