//! The executor against a server that is not one: real connections, real processes, real files, and everything that can break does.
#![allow(clippy::unwrap_used, missing_docs)]

mod crash;
mod delivery;
mod ending;
mod files;
mod machine;
mod pairing;
mod secure;
mod stand_in;
