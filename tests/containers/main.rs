//! Tools in containers, with podman as the engine and images made of files of this machine.
#![allow(clippy::unwrap_used, missing_docs)]

mod built;
mod faults;
mod fetched;
mod kit;
mod limits;
mod pinned;
mod shared;
mod speaking;
mod whole;
