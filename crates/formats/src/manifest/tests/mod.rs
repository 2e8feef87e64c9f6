//! Manifests, as tables; and that writing and reading are each other's opposite.

mod examples;
mod problems;
mod round_trip;
mod schema;
