//! Named points at which a test makes the disk fail or the process die.
//!
//! Every step that changes something on disk calls [`step`] first (see `disk`), and so do the places where one layer has
//! done its part and the next has not. Only builds with debug assertions can be told to fail there; in a release build a
//! step is nothing.

#[cfg(debug_assertions)]
mod armed;
#[cfg(not(debug_assertions))]
mod unarmed;

#[cfg(debug_assertions)]
pub use armed::step;
#[cfg(debug_assertions)]
pub(crate) use armed::{Carried, write};
#[cfg(all(test, debug_assertions))]
pub(crate) use armed::{What, during};

#[cfg(not(debug_assertions))]
pub use unarmed::step;
#[cfg(not(debug_assertions))]
pub(crate) use unarmed::{Carried, write};
