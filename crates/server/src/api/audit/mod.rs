//! The audit of an organisation: asked, and taken along. Nothing here changes a line.

pub(crate) mod export;
pub(crate) mod list;
mod query;
mod view;

pub(crate) use view::AuditEntryView;
