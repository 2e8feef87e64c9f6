//! For those who run it: is it alive, is it ready, what does it do, what can it be asked.

pub(crate) mod awhile;
pub mod checks;
pub(crate) mod docs;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod numbers;
pub(crate) mod openapi;
pub(crate) mod scrapers;
