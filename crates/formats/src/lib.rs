//! Foreign bytes to values of ours, and back: archives, `toolset.yaml`, Agent Skills, other people's configuration.
//!
//! Bytes in, values and warnings out. This crate touches no file system and no network, and runs nothing of what it reads:
//! whatever an archive or a manifest says, the worst it can do here is to be refused.

pub mod archive;
pub mod bundle;
pub mod clients;
mod foreign;
pub mod html;
pub mod import;
pub mod manifest;
pub mod skill;
mod yaml;

pub use yaml::{Problem, Problems};
