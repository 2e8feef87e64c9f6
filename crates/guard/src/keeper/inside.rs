//! The keeper itself: the first process of a PID namespace, so that nothing in it outlives it, and root of a user namespace
//! that has power over its own copies only.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper,
    set_dumpable_behavior, set_parent_process_death_signal, wait, waitpid,
};
use rustix::thread::{Gid, Uid, UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::porter::{rustix_unshare, tree};
use super::wire::{Reply, Request, receive, send};
use super::{house, room, sys};

/// Goes into the other namespaces and serves there. Returns when the server is gone.
pub(super) fn enter(socket: BorrowedFd<'_>) -> io::Result<()> {
    // Before the ids change: afterwards they are what they should be. Without the right to (an ordinary user may not), the
    // groups are those of the user, as in any program.
    let _ = set_thread_groups(&[]);
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    // A change of ids makes the files of /proc root's; the rooms below have to write theirs.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    rustix_unshare(UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS)?;
    match sys::fork()? {
        Some(keeper) => {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            let _ = waitpid(Some(keeper), WaitOptions::empty());
            Ok(())
        }
        None => {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // What is mounted outside later is seen here; nothing that is mounted here is seen outside.
            let private = mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC);
            let served = private.map_err(io::Error::from).and_then(|()| serve(socket, false));
            if let Err(error) = &served {
                let _ = send(socket, &Reply::Failed { message: error.to_string() }, &[]);
            }
            sys::exit(i32::from(served.is_err()));
        }
    }
}

/// Serves without any namespace. Everything that was started ends with it all the same.
pub(super) fn serve_plainly(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    let served = serve(socket, true);
    while let Some(child) = a_child()? {
        let _ = kill_process(child, Signal::KILL);
        let _ = waitpid(Some(child), WaitOptions::empty());
    }
    served
}

fn a_child() -> io::Result<Option<Pid>> {
    let me = getpid().as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children"))?;
    Ok(children.split_whitespace().next().and_then(|child| Pid::from_raw(child.parse().ok()?)))
}

fn serve(socket: BorrowedFd<'_>, plain: bool) -> io::Result<()> {
    send(socket, &Reply::Ready { own_user: true, group: true }, &[])?;
    loop {
        // The first process of a namespace inherits its orphans, and must bury them.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        let mut ready = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        match poll(&mut ready, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let Some((request, fds)) = receive::<Request>(socket)? else { return Ok(()) };
        match answer(request, fds, plain) {
            Ok((reply, fds)) => {
                let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                send(socket, &reply, &fds)?;
            }
            Err(error) => send(socket, &Reply::Failed { message: error.to_string() }, &[])?,
        }
    }
}

fn answer(request: Request, fds: Vec<OwnedFd>, plain: bool) -> io::Result<(Reply, Vec<OwnedFd>)> {
    match request {
        Request::Tree { .. } | Request::Room | Request::Socket { .. } if plain => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "there are no namespaces"))
        }
        Request::Tree { path } => Ok((Reply::Done, vec![tree(&path, None)?])),
        Request::Room => Ok((Reply::Done, room::make()?)),
        Request::Socket { v6 } => Ok((Reply::Done, vec![room::socket_in(&fds, v6)?])),
        Request::House(house) => {
            if plain && house.resident.is_some() {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "there are no namespaces"));
            }
            let first = house::start(&house, &fds, plain)?;
            let handle = house.resident.is_some().then(|| pidfd_open(first, PidfdFlags::empty())).transpose()?;
            Ok((Reply::Started { house: first.as_raw_nonzero().get() }, handle.into_iter().collect()))
        }
        Request::End { house } => {
            if let Some(pid) = Pid::from_raw(house) {
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
            Ok((Reply::Done, Vec::new()))
        }
    }
}
