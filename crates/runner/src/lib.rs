//! One tool call, from plan to outcome: whether its arguments fit, what a worker makes of it, and how that is told.
//!
//! It knows neither SQL nor HTTP, and nothing of who is asking or of whose turn it is.

mod arguments;
mod container;
mod mcp;
mod outcome;
mod place;
mod resident;
mod result;

pub use arguments::{ArgumentError, Problem, Ready, Schemas};
pub use container::{in_time, run_container};
pub use mcp::{returned, run_mcp};
pub use outcome::{Ran, run};
pub use place::{Place, Places};
pub use resident::{NoResident, Resident};
pub use result::{Kept, keep};
