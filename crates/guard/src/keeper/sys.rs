//! The few calls to the kernel that no safe library offers. The keeper has one thread, which is what makes them sound.
#![allow(unsafe_code, reason = "this is the room for it; each says why it is sound")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::Pid;

/// Makes a copy of this process. None in the copy.
///
/// Only for a process with one thread: in a copy of many, locks that other threads held would never be opened.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the process has one thread, so that the copy is whole.
    let pid = unsafe { libc::fork() };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(Pid::from_raw(pid)) }
}

/// Ends this process at once: what its parent had open and buffered is the parent's affair.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Keeps two signals from having any effect until they are asked for: that somebody wants an end, and that a child has ended.
pub(super) fn hold_signals() -> io::Result<()> {
    // SAFETY: the set is ours and outlives the call.
    let done = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const *held(), std::ptr::null_mut()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits for one of them.
pub(super) fn next_signal() -> i32 {
    let mut signal = 0;
    // SAFETY: both outlive the call. It fails only for sets that have no good signal in them.
    unsafe { libc::sigwait(&raw const *held(), &raw mut signal) };
    signal
}

fn held() -> Box<libc::sigset_t> {
    // SAFETY: zero is a good value of every field, and the calls write nothing but the set.
    unsafe {
        let mut set: Box<libc::sigset_t> = Box::new(std::mem::zeroed());
        libc::sigemptyset(&raw mut *set);
        libc::sigaddset(&raw mut *set, libc::SIGTERM);
        libc::sigaddset(&raw mut *set, libc::SIGCHLD);
        set
    }
}

/// Asks everybody else in this PID namespace to end. Only for its first process.
pub(super) fn ask_all_to_end() {
    // SAFETY: it takes two numbers. Nobody there is as good as everybody asked.
    unsafe { libc::kill(-1, libc::SIGTERM) };
}

/// Binds this process to rules about files. It takes no lock and no memory.
pub(crate) fn restrict(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: it takes two numbers.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has every descriptor but the three standard ones closed when this process becomes another program: what was left open to us by
/// whoever started the server is nobody's inside. It takes no lock and no memory.
pub(crate) fn keep_streams_alone() -> io::Result<()> {
    // SAFETY: it takes three numbers, and closes nothing yet.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes every descriptor but one.
pub(super) fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = kept.as_raw_fd().unsigned_abs();
    for (from, to) in [(0, kept.saturating_sub(1)), (kept + 1, u32::MAX)] {
        // SAFETY: whoever calls this owns what is closed, and uses none of it any more.
        if unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Attributes for everything in a tree of mounts.
pub(super) fn set_attributes(tree: BorrowedFd<'_>, set: u64, id_map: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let id_map_bit = if id_map.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 };
    let attributes = libc::mount_attr {
        attr_set: set | id_map_bit,
        attr_clr: 0,
        propagation: 0,
        userns_fd: id_map.map_or(0, |fd| u64::try_from(fd.as_raw_fd()).expect("descriptors are not negative")),
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the path is a constant, and the structure outlives the call, which reads as many bytes as it is told.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Switches the loopback interface of this network on.
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: zero is a good value of every field.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::try_from(*from).expect("ASCII");
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).expect("two small bits");
    // SAFETY: the request is the structure that this call reads, and outlives it.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
