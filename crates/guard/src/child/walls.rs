//! What can stand around a child where there are no namespaces: rules about files, filters, limits. It is far less than a fence:
//! the child is in the machine's network, and sees other processes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::RulesetCreated;
use seccompiler::BpfProgram;

use super::fenced::{FILE, Fence, RESERVED, Sandbox};
use crate::keeper;

/// Walls that are ready to be put up.
#[derive(Debug)]
pub(super) struct Walls {
    /// None where the kernel has none.
    rules: Option<OwnedFd>,
    filters: Vec<BpfProgram>,
    memory: u64,
}

impl Walls {
    /// The child sees the system's programs, its toolset's files and the folder that it keeps, each where it is.
    pub(super) fn around(fence: &Fence, sandbox: &Sandbox) -> io::Result<Self> {
        let system = keeper::SYSTEM.iter().map(PathBuf::from).chain(["/dev".into()]);
        let etc = keeper::ETC.iter().chain(&["resolv.conf"]).map(|name| Path::new("/etc").join(name));
        let reading: Vec<PathBuf> =
            system.chain(etc).chain(sandbox.programs.clone()).chain(fence.toolset.clone()).collect();
        let writing = [fence.home.clone(), "/dev/null".into(), "/dev/zero".into()];
        let rules: Option<RulesetCreated> = Some(keeper::rules(&reading, &writing).map_err(io::Error::other)?);
        let filters = keeper::for_parents().into_iter().chain(keeper::for_calls()).collect();
        Ok(Self { rules: rules.and_then(Into::into), filters, memory: sandbox.memory })
    }

    /// Puts them up around this process. It may be done between a fork and what follows: it takes no lock and no memory.
    pub(super) fn raise(&self) -> io::Result<()> {
        keeper::keep_streams_alone()?;
        keeper::limit(self.memory, RESERVED, FILE)?;
        rustix::thread::set_no_new_privs(true)?;
        if let Some(rules) = &self.rules {
            keeper::restrict(rules.as_fd())?;
        }
        for filter in &self.filters {
            seccompiler::apply_filter(filter).map_err(|_| io::Error::from_raw_os_error(libc::EPERM))?;
        }
        Ok(())
    }
}
