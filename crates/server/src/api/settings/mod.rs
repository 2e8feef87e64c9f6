//! What an organisation says about itself.

pub(crate) mod get;
pub(crate) mod update;
mod view;
