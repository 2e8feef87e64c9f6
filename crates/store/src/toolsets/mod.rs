//! Installed toolsets: their rows, those of their parts, what a person changed, and what a person trusts.

mod builtin;
mod containers;
mod head;
mod install;
mod overrides;
mod parts;
mod pins;
mod servers;
mod trust;
mod whole;

pub use install::InstallError;
pub(crate) use install::to_json;
pub use pins::AcceptError;
