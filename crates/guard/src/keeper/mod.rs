//! The keeper: a process beside the server that makes sandboxes.
//!
//! Namespaces can only be made by a process with one thread, and whoever makes them has power inside; so that is neither the
//! server nor a tool, but a small process between them that does nothing else. It has two halves:
//!
//! - the *porter*, outside, which made the user namespace and, if the server is root, shows root's folders to a user who
//!   owns nothing;
//! - the *keeper*, the first process of a PID namespace. When the server is gone its socket closes, it ends, and the kernel
//!   ends everything inside.
//!
//! It makes *houses* (a process with its own files, processes and network, and no capability: the warm parent of a toolset, or
//! a *resident*, which is a program that was not written for us) and *rooms* (a user namespace and a network for one chat). A call is a child of a house that enters a room: it may, because the room's user
//! namespace belongs to its own user id, and it gets no power by it over anything but the room.

mod cgroup;
mod client;
mod filter;
mod house;
mod inside;
mod porter;
mod resident;
mod room;
mod shared;
mod sys;
mod wire;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

pub use client::{Keeper, KeeperError, Room, Started};
pub(crate) use filter::for_parents;
pub use filter::{for_calls, to_bytes};
pub use house::ETC;
pub(crate) use house::{SYSTEM, limit};
pub(crate) use resident::rules;
pub use shared::SharedKeeper;
pub(crate) use sys::{keep_streams_alone, restrict};
pub use wire::{House, Resident};

/// What the keeper's own process does: its standard input and output are the sockets to the server.
pub fn main(sample: &Path, plain: bool) -> io::Result<()> {
    let door = io::stdin().as_fd().try_clone_to_owned()?;
    let inner = io::stdout().as_fd().try_clone_to_owned()?;
    // The copies are what is used: these two would keep the sockets open in everything that is started.
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    if plain { porter::run_plainly(door, inner) } else { porter::run(door, inner, sample) }
}
