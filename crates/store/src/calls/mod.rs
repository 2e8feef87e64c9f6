//! Tool calls, what is known of tools' code, and who did what.

mod descriptions;
mod end;
mod read;
mod write;

pub use descriptions::KeptDescription;
pub use write::FinishError;
pub(crate) use write::to_json;
