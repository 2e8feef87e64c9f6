//! Tool calls, what is known of tools' code, and who did what.

mod audit;
mod descriptions;
mod end;
mod read;
mod write;

pub(crate) use audit::AskedDetails;
pub use audit::asked_details;
pub use descriptions::KeptDescription;
pub use write::FinishError;
pub(crate) use write::to_json;
