//! Which tools a client gets: toolsets first, then the tools enabled beside them, then those disabled. Once for the whole server, and
//! once more for a request, which can only narrow what the first step left.
//!
//! It works on positions in the caller's own list of tools and hands positions back, in that list's order. It knows neither where
//! tools come from nor where the lists were written.

mod catalogue;
mod lists;
mod problem;
mod reason;
mod request;
mod resolved;
mod selector;
mod steps;
#[cfg(test)]
mod tests;

pub use catalogue::{Catalogue, ConfiguredServer, Listed, State};
pub use lists::{Lists, RawLists};
pub use problem::{Problem, Problems, Setting};
pub use reason::Reason;
pub use request::from_request;
pub use resolved::Resolved;
pub use selector::{ChatSelectors, Selector, Verdict};
