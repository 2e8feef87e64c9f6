//! A chat's room: a user namespace and a network with nothing but itself in it. It lasts as long as somebody holds it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, socketpair};
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::porter::rustix_unshare;
use super::sys;
use super::wire::{Reply, receive, send};

/// The user id that a tool sees as its own. Not root: programs that find themselves root do more than they should.
pub(super) const INSIDE: u32 = 1000;

/// A new room: its user namespace and its network.
pub(super) fn make() -> io::Result<Vec<OwnedFd>> {
    in_a_copy(|| {
        rustix_unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
        name_the_user()?;
        loopback_up()?;
        Ok(vec![File::open("/proc/self/ns/user")?.into(), File::open("/proc/self/ns/net")?.into()])
    })
}

/// Gives this process its user id in the user namespace that it has just gone into.
pub(super) fn name_the_user() -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{INSIDE} 0 1"))?;
    fs::write("/proc/self/gid_map", format!("{INSIDE} 0 1"))
}

/// Switches the loopback interface of this network on.
pub(super) fn loopback_up() -> io::Result<()> {
    sys::loopback_up(new_socket(AddressFamily::INET, SocketType::DGRAM)?.as_fd())
}

/// A socket inside a room.
pub(super) fn socket_in(room: &[OwnedFd], v6: bool) -> io::Result<OwnedFd> {
    let [user, network] = room else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a room is two namespaces"));
    };
    let made = in_a_copy(|| {
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(vec![new_socket(if v6 { AddressFamily::INET6 } else { AddressFamily::INET }, SocketType::STREAM)?])
    })?;
    made.into_iter().next().ok_or_else(|| io::Error::other("no socket came back"))
}

fn new_socket(family: AddressFamily, kind: SocketType) -> io::Result<OwnedFd> {
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Does something in a copy of this process, which ends then, and takes over what it made: the namespaces that the copy
/// went into are none of ours.
fn in_a_copy(work: impl FnOnce() -> io::Result<Vec<OwnedFd>>) -> io::Result<Vec<OwnedFd>> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let Some(copy) = sys::fork()? else {
        drop(ours);
        let sent = match work() {
            Ok(fds) => {
                let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                send(theirs.as_fd(), &Reply::Done, &fds)
            }
            Err(error) => send(theirs.as_fd(), &Reply::Failed { message: error.to_string() }, &[]),
        };
        sys::exit(i32::from(sent.is_err()));
    };
    drop(theirs);
    let received = receive::<Reply>(ours.as_fd());
    let _ = waitpid(Some(copy), WaitOptions::empty());
    match received? {
        Some((Reply::Done, fds)) => Ok(fds),
        Some((Reply::Failed { message }, _)) => Err(io::Error::other(message)),
        _ => Err(io::Error::other("the copy ended without a word")),
    }
}
