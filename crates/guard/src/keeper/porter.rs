//! The keeper's first process, outside: it makes the user namespace that all others live in, and stays at the door.
//!
//! If the server is root, tools must not be: everything inside gets a user id that owns nothing on this machine, and the
//! folders that it may see are mounted so that root's files there look like its own. Only somebody outside can do that.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::{Pid, Signal, WaitOptions, getgid, getuid, kill_process, waitpid};
use rustix::thread::UnshareFlags;

use super::wire::{Reply, Request, receive, send};
use super::{cgroup, inside, sys};

/// The user id of tools when the server is root. It belongs to nobody: "kitb" in ASCII.
pub(super) const NOBODY: u32 = 0x6b69_7462;

/// A child that waits in its new user namespace.
struct Insider {
    pid: Pid,
    go: OwnedFd,
    namespace: OwnedFd,
}

/// Serves until the server is gone. `door` is where trees are asked for, `inner` where everything else is; `sample` is a
/// folder like those that will be mounted.
pub(super) fn run(door: OwnedFd, inner: OwnedFd, sample: &Path) -> io::Result<()> {
    let served = serve(&door, inner, sample);
    if let Err(error) = &served {
        let _ = send(door.as_fd(), &Reply::Failed { message: error.to_string() }, &[]);
    }
    served
}

fn serve(door: &OwnedFd, inner: OwnedFd, sample: &Path) -> io::Result<()> {
    let insider = if getuid().is_root() {
        // Some file systems cannot be shown under another id. Then it is our own, and the server says so.
        match invite(&inner, NOBODY, NOBODY) {
            Ok(insider) if tree(sample, Some(insider.namespace.as_fd())).is_ok() => (insider, true),
            Ok(insider) => {
                dismiss(&insider);
                (invite(&inner, 0, 0)?, false)
            }
            Err(_) => (invite(&inner, 0, 0)?, false),
        }
    } else {
        (invite(&inner, getuid().as_raw(), getgid().as_raw())?, true)
    };
    let (insider, own_user) = insider;
    // Before it starts anything.
    let groups = cgroup::confine(insider.pid);
    rustix::io::write(&insider.go, b"g")?;
    drop(inner);
    let mapped = getuid().is_root() && own_user;
    send(door.as_fd(), &Reply::Ready { own_user, group: groups.is_some() }, &[])?;
    while let Some((request, _)) = receive::<Request>(door.as_fd())? {
        let made = match &request {
            Request::Tree { path } if mapped => tree(path, Some(insider.namespace.as_fd())),
            // The keeper's own power is over its own copies.
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "this is asked inside")),
        };
        match made {
            Ok(tree) => send(door.as_fd(), &Reply::Done, &[tree.as_fd()])?,
            Err(error) => send(door.as_fd(), &Reply::Failed { message: error.to_string() }, &[])?,
        }
    }
    dismiss(&insider);
    drop(groups);
    Ok(())
}

/// The same without namespaces.
pub(super) fn run_plainly(door: OwnedFd, inner: OwnedFd) -> io::Result<()> {
    send(door.as_fd(), &Reply::Ready { own_user: false, group: false }, &[])?;
    inside::serve_plainly(inner.as_fd())
}

/// A child in a user namespace whose root is the given user outside.
fn invite(inner: &OwnedFd, user: u32, group: u32) -> io::Result<Insider> {
    let (ready_end, ready) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (go_end, go) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let Some(pid) = sys::fork()? else {
        drop((ready_end, go));
        let entered = rustix_unshare(UnshareFlags::NEWUSER);
        let word = entered.err().map_or_else(|| "ok".to_owned(), |error| error.to_string());
        let _ = rustix::io::write(&ready, word.as_bytes());
        drop(ready);
        let mut byte = [0];
        // If the porter is gone, so are we.
        if rustix::io::read(&go_end, &mut byte).unwrap_or(0) == 1 {
            let outcome = inside::enter(inner.as_fd());
            if let Err(error) = outcome {
                let _ = send(inner.as_fd(), &Reply::Failed { message: error.to_string() }, &[]);
            }
        }
        sys::exit(0);
    };
    drop((ready, go_end));
    let mut word = [0; 256];
    let length = rustix::io::read(&ready_end, &mut word)?;
    if &word[..length] != b"ok" {
        // It waits for a word that does not come.
        drop(go);
        let _ = waitpid(Some(pid), WaitOptions::empty());
        return Err(io::Error::other(format!("user namespaces: {}", String::from_utf8_lossy(&word[..length]))));
    }
    let proc = format!("/proc/{}", pid.as_raw_nonzero());
    if !getuid().is_root() {
        fs::write(format!("{proc}/setgroups"), "deny")?;
    }
    let namespace = fs::File::open(format!("{proc}/ns/user"))?.into();
    let mapped = fs::write(format!("{proc}/uid_map"), format!("0 {user} 1"))
        .and_then(|()| fs::write(format!("{proc}/gid_map"), format!("0 {group} 1")));
    let insider = Insider { pid, go, namespace };
    match mapped {
        Ok(()) => Ok(insider),
        Err(error) => {
            dismiss(&insider);
            Err(error)
        }
    }
}

fn dismiss(insider: &Insider) {
    let _ = kill_process(insider.pid, Signal::KILL);
    let _ = waitpid(Some(insider.pid), WaitOptions::empty());
}

/// A folder as a tree of mounts, with the ids of a user namespace if one is given.
pub(super) fn tree(path: &Path, ids: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(rustix::fs::CWD, path, flags)?;
    sys::set_attributes(tree.as_fd(), libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, ids)?;
    Ok(tree)
}

/// Leaves some of the namespaces that this process is in.
#[allow(unsafe_code, reason = "the call is unsafe for what it can do to descriptors of other threads; there are none")]
pub(super) fn rustix_unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the process has one thread, and the flags do not touch its table of descriptors.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}
