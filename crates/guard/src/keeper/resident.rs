//! A resident: a program that was not written for us, in a house of its own, and the process that looks after it there.
//!
//! The first process of the house is a copy of the keeper that does nothing but wait: it buries orphans, passes on that
//! somebody wants an end, says how the program ended, and ends with it, whereupon the kernel ends whatever else is in the house.
//! A program in its place would have to do all that, and most do none of it. It knows nothing of protocols.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, WaitOptions, chdir, set_dumpable_behavior, setrlimit, setsid, wait,
};
use rustix::thread::{UnshareFlags, set_no_new_privs};

use super::porter::rustix_unshare;
use super::wire::{House, Resident};
use super::{filter, house, room, sys};

/// Writes who the one user is: programs ask, and some refuse to be nobody.
pub(super) fn write_names(root: &Path, kept: &[PathBuf]) -> io::Result<()> {
    let home = kept.first().map_or(Path::new("/"), PathBuf::as_path).display();
    let id = room::INSIDE;
    DirBuilder::new().recursive(true).mode(0o755).create(root.join("etc"))?;
    for (name, line) in
        [("passwd", format!("server:x:{id}:{id}::{home}:/bin/sh\n")), ("group", format!("server:x:{id}:\n"))]
    {
        let path = root.join("etc").join(name);
        fs::write(&path, line)?;
        fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Starts the program and looks after it to its end. Returns, in the program's own process, only the reason why it could not
/// become the program.
pub(super) fn move_in(house: &House, resident: &Resident, inherited: &[OwnedFd]) -> io::Result<io::Error> {
    let [stdin, stdout, stderr, report] = inherited else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a resident has three streams and a report"));
    };
    if !house.network {
        room::loopback_up()?;
    }
    // The namespaces that were made until now belong to the keeper's user: whatever it gets to be here has no power over them.
    rustix_unshare(UnshareFlags::NEWUSER)?;
    room::name_the_user()?;
    // Before there is a child whose end could be missed. The program starts without this.
    sys::hold_signals()?;
    match sys::fork()? {
        Some(program) => attend(program, report),
        None => become_program(house, resident, [stdin, stdout, stderr]),
    }
}

/// Waits for the program's end, and says what it was.
fn attend(program: Pid, report: &OwnedFd) -> ! {
    use std::os::fd::AsFd;
    let alone = set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(io::Error::from)
        .and_then(|()| house::drop_capabilities())
        .and_then(|()| Ok(set_no_new_privs(true)?))
        // The other end of these is a sign of life that is not ours to give.
        .and_then(|()| sys::close_all_but(report.as_fd()));
    if alone.is_err() {
        sys::exit(1);
    }
    loop {
        if sys::next_signal() == libc::SIGTERM {
            sys::ask_all_to_end();
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == program {
                let _ = rustix::io::write(report, &status.as_raw().to_le_bytes());
                sys::exit(0);
            }
        }
    }
}

fn become_program(house: &House, resident: &Resident, streams: [&OwnedFd; 3]) -> io::Result<io::Error> {
    setsid()?;
    sys::keep_streams_alone()?;
    house::limit(house.memory, resident.reserved, house.file)?;
    let most = Some(resident.processes);
    setrlimit(Resource::Nproc, Rlimit { current: most, maximum: most })?;
    chdir(&resident.folder).map_err(|error| {
        io::Error::other(format!("the folder `{}` is not there to start in: {error}", resident.folder.display()))
    })?;
    house::drop_capabilities()?;
    set_no_new_privs(true)?;
    let writing = house.kept.iter().cloned().chain(["/tmp".into(), "/dev".into()]).collect::<Vec<_>>();
    let walls = rules(&["/".into()], &writing).and_then(RulesetCreated::restrict_self).map_err(io::Error::other)?;
    if walls.ruleset == RulesetStatus::NotEnforced && resident.require {
        return Err(io::Error::other("the machine lacks landlock"));
    }
    filter::apply(&filter::for_parents())?;
    filter::apply(&filter::for_calls())?;

    #[allow(clippy::disallowed_methods, reason = "this is a room for it")]
    let mut command = Command::new(OsStr::from_bytes(house.command[0].as_bytes()));
    command.args(&house.command[1..]).env_clear();
    command.envs(house.environment.iter().map(|(name, value)| (name, value)));
    let [stdin, stdout, stderr] = streams;
    command.stdin(Stdio::from(stdin.try_clone()?));
    command.stdout(Stdio::from(stdout.try_clone()?)).stderr(Stdio::from(stderr.try_clone()?));
    let error = command.exec();
    Ok(match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!(
            "`{}` is not there. It shows the system's programs (/usr, /bin, /lib), the toolset's own files and the folders of \
             --sandbox-programs",
            house.command[0]
        )),
        _ => io::Error::other(format!("`{}` cannot be started: {error}", house.command[0])),
    })
}

/// What is seen of the first can be read, the second can be written as well. As much of it as the kernel can see to.
pub(crate) fn rules(reading: &[PathBuf], writing: &[PathBuf]) -> Result<RulesetCreated, RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        // In the machine's own network there are sockets without files.
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(reading, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules(writing, AccessFs::from_all(abi)))
}
