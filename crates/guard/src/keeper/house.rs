//! A house: the namespaces that one warm process, or one resident, lives in, and the files that it sees.
//!
//! What it sees is put together from nothing: the system's programs and libraries, a few files of `/etc` that programs cannot
//! do without, harmless devices, and the folders that it is given. All of it can only be read, but for the folders that it
//! keeps. The process has no capability and cannot get one; a warm one can still make namespaces below its own, which is how
//! its children enter a room.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::{Pid, Resource, Rlimit, chdir, pivot_root, setpriority_process, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, UnshareFlags, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use super::porter::rustix_unshare;
use super::wire::House;
use super::{filter, resident, sys};

/// Folders of the system's programs and libraries. A link (`/bin` to `/usr/bin`) stays one.
pub(crate) const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What of `/etc` programs cannot do without. None of it says who is on this machine.
pub const ETC: [&str; 18] = [
    "alternatives",
    "ca-certificates",
    "debian_version",
    "fonts",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
];

/// Programs reserve far more memory than they use: so many times as much they may. The limit is for those that would reserve
/// everything.
const RESERVED: u64 = 16;

const DEVICES: [&str; 5] = ["full", "null", "random", "urandom", "zero"];

/// Where the new root is put together. Every machine has it, and its own files are not seen from inside.
const SCAFFOLD: &str = "/tmp";

/// Starts the process of a house. Its number is that of the first process there: with it, all others end.
pub(super) fn start(house: &House, fds: &[OwnedFd], plain: bool) -> io::Result<Pid> {
    let folders = house.mounts.len() + house.kept.len();
    if fds.len() < folders || house.command.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a house needs a command and its folders"));
    }
    let (trees, inherited) = fds.split_at(folders);
    let (failed_end, failed) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (pid_end, pid) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let Some(usher) = sys::fork()? else {
        let made = if plain { Ok(()) } else { namespaces(house) }.and_then(|()| sys::fork());
        match made {
            Ok(Some(first)) => {
                let _ = rustix::io::write(&pid, &first.as_raw_nonzero().get().to_le_bytes());
                sys::exit(0)
            }
            Ok(None) => {
                let error = if plain { Ok(()) } else { furnish(house, trees) }
                    .and_then(|()| match &house.resident {
                        Some(resident) => resident::move_in(house, resident, inherited),
                        None => move_in(house, inherited, plain),
                    })
                    .unwrap_or_else(|error| error);
                let _ = rustix::io::write(&failed, error.to_string().as_bytes());
                sys::exit(127)
            }
            Err(error) => {
                let _ = rustix::io::write(&failed, error.to_string().as_bytes());
                sys::exit(127)
            }
        }
    };
    drop((failed, pid));
    let _ = rustix::process::waitpid(Some(usher), rustix::process::WaitOptions::empty());
    // Closed by the start of the program, which ends this wait; a word is a failure.
    let mut word = [0; 512];
    let length = rustix::io::read(&failed_end, &mut word)?;
    if length > 0 {
        return Err(io::Error::other(String::from_utf8_lossy(&word[..length]).into_owned()));
    }
    let mut number = [0; 4];
    rustix::io::read(&pid_end, &mut number)?;
    Pid::from_raw(i32::from_le_bytes(number)).ok_or_else(|| io::Error::other("the house has no first process"))
}

fn namespaces(house: &House) -> io::Result<()> {
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !house.network {
        flags |= UnshareFlags::NEWNET;
    }
    rustix_unshare(flags)?;
    rustix::system::sethostname(b"kitbag")?;
    Ok(())
}

/// One thing of the system that will be seen, taken before the scaffold covers anything.
enum Piece {
    Link(PathBuf),
    Mount { tree: OwnedFd, folder: bool },
}

fn furnish(house: &House, trees: &[OwnedFd]) -> io::Result<()> {
    let mut pieces: Vec<(PathBuf, Piece)> = Vec::new();
    for path in SYSTEM {
        pieces.extend(piece(Path::new(path), read_only())?.map(|piece| (path.into(), piece)));
    }
    let etc = ETC.iter().copied().chain(house.network.then_some("resolv.conf"));
    for path in etc.map(|name| Path::new("/etc").join(name)) {
        // A link is resolved: /etc/resolv.conf often leads to /run, which is not seen.
        let Ok(real) = path.canonicalize() else { continue };
        pieces.extend(piece(&real, read_only())?.map(|piece| (path, piece)));
    }
    for path in DEVICES.iter().map(|name| Path::new("/dev").join(name)) {
        // These alone may be devices.
        let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;
        pieces.extend(piece(&path, attributes)?.map(|piece| (path, piece)));
    }
    for tree in trees.iter().take(house.mounts.len()) {
        sys::set_attributes(tree.as_fd(), libc::MOUNT_ATTR_RDONLY, None)?;
    }
    tmpfs(Path::new(SCAFFOLD), c"size=1m,mode=755")?;
    for (path, piece) in pieces {
        let target = inside(&path);
        match piece {
            Piece::Link(leads_to) => symlink(leads_to, &target)?,
            Piece::Mount { tree, folder } => put(tree.as_fd(), &target, folder)?,
        }
    }
    for (path, tree) in house.mounts.iter().chain(&house.kept).zip(trees) {
        put(tree.as_fd(), &inside(path), true)?;
    }
    if house.resident.is_some() {
        resident::write_names(Path::new(SCAFFOLD), &house.kept)?;
    }
    for name in ["proc", "tmp"].into_iter().chain(house.resident.is_none().then_some("workspace")) {
        DirBuilder::new().recursive(true).mode(0o755).create(Path::new(SCAFFOLD).join(name))?;
    }
    symlink("/proc/self/fd", inside(Path::new("/dev/fd")))?;
    symlink("/tmp", inside(Path::new("/dev/shm")))?;
    let proc = inside(Path::new("/proc"));
    mount("proc", &proc, "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, c"")?;
    let size = if house.resident.is_some() { c"size=256m,mode=1777" } else { c"size=64m,mode=1777" };
    tmpfs(&inside(Path::new("/tmp")), size)?;
    // The old root is put over the new one and taken away: nothing of it is left to walk back to.
    chdir(SCAFFOLD)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    // The root alone: what is mounted below has its own rules.
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount_remount("/", flags, c"")?)
}

fn read_only() -> u64 {
    libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV
}

/// What the system has at a path, if anything.
fn piece(path: &Path, attributes: u64) -> io::Result<Option<Piece>> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(None) };
    if found.is_symlink() {
        return Ok(Some(Piece::Link(fs::read_link(path)?)));
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(rustix::fs::CWD, path, flags)?;
    sys::set_attributes(tree.as_fd(), attributes, None)?;
    Ok(Some(Piece::Mount { tree, folder: found.is_dir() }))
}

fn inside(path: &Path) -> PathBuf {
    Path::new(SCAFFOLD).join(path.strip_prefix("/").unwrap_or(path))
}

fn put(tree: BorrowedFd<'_>, target: &Path, folder: bool) -> io::Result<()> {
    let parent = if folder { Some(target) } else { target.parent() };
    if let Some(parent) = parent {
        DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
    }
    if !folder {
        File::create(target)?;
    }
    Ok(move_mount(tree, "", rustix::fs::CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn tmpfs(target: &Path, options: &std::ffi::CStr) -> io::Result<()> {
    Ok(mount("tmpfs", target, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?)
}

/// Becomes the program. Returns only the reason why it could not.
fn move_in(house: &House, inherited: &[OwnedFd], plain: bool) -> io::Result<io::Error> {
    limit(house.memory, RESERVED, house.file)?;
    if !plain {
        drop_capabilities()?;
    }
    set_no_new_privs(true)?;
    filter::apply(&filter::for_parents())?;

    let mut numbers = Vec::new();
    for fd in inherited.iter().skip(1) {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        numbers.push(fd.as_raw_fd().to_string());
    }
    let output = || -> io::Result<Stdio> {
        inherited.first().map_or_else(|| Ok(Stdio::null()), |log| Ok(Stdio::from(log.try_clone()?)))
    };
    let args = house.command[1..].iter().map(|arg| {
        let number = arg.strip_prefix('{').and_then(|arg| arg.strip_suffix('}')).and_then(|n| n.parse::<usize>().ok());
        number.and_then(|number| numbers.get(number).cloned()).unwrap_or_else(|| arg.clone())
    });
    #[allow(clippy::disallowed_methods, reason = "this is a room for it")]
    let mut command = Command::new(OsStr::from_bytes(house.command[0].as_bytes()));
    command.args(args).env_clear().envs(house.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
    Ok(command.exec())
}

/// Limits on each process: bytes of memory, how many times that it may reserve, bytes of a file. It takes no lock and no memory.
pub(crate) fn limit(memory: u64, reserved: u64, file: u64) -> io::Result<()> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Data, memory),
        (Resource::As, memory.saturating_mul(reserved)),
        (Resource::Fsize, file),
        (Resource::Nofile, 4096),
        (Resource::Memlock, 1 << 20),
        (Resource::Msgqueue, 0),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    // The server comes first when tools keep the processors busy.
    let _ = setpriority_process(None, 5);
    Ok(())
}

pub(super) fn drop_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    set_capabilities_secure_bits(CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED)?;
    for bit in 0..CapabilitySet::all().bits().count_ones() {
        // A kernel that does not know a capability refuses its name.
        let _ = remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit));
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, none)?)
}
