//! Steps that can fail, for builds with debug assertions.
//!
//! A test in this crate gives its own thread a [`Plan`], which the threads that share its work carry along. The whole
//! program takes its plan from the folder that `TEST_KITBAG_FAULT` names: `plan` says what is to happen (`kill 17`), and each
//! step adds its name to `steps`, so that both can be exchanged while the program runs. A plan may also be to wait at the step of a name
//! (`hold collecting`): whoever comes there makes a file `held`, and goes on when the plan is gone.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

/// What happens at a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    /// Nothing: steps are only counted.
    Count,
    /// The process ends there, as by `kill -9`.
    Kill,
    /// The same, after half of what was to be written.
    Torn,
    /// The disk is full from there on; removing still works.
    Full,
    /// The disk fails there, once.
    Broken,
    /// Half of it is written, and then the disk is full, once.
    Half,
}

/// What happens, and at which step.
struct Plan {
    what: What,
    at: usize,
    steps: Mutex<usize>,
}

impl Plan {
    fn next(&self, name: &str) -> Option<Fault> {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        *steps += 1;
        decide(self.what, self.at, *steps, name)
    }
}

/// Lets `what` happen at a step of `work`; the first is 1. How many steps there were, and what came of it.
#[cfg(test)]
pub(crate) fn during<T>(what: What, at: usize, work: impl FnOnce() -> T) -> (usize, T) {
    let plan = Arc::new(Plan { what, at, steps: Mutex::new(0) });
    let done = Carried(Some(Arc::clone(&plan))).during(work);
    let steps = *plan.steps.lock().unwrap_or_else(PoisonError::into_inner);
    (steps, done)
}

thread_local! {
    static PLAN: RefCell<Option<Arc<Plan>>> = const { RefCell::new(None) };
}

/// The plan of one thread, for the threads that do its work.
#[derive(Clone)]
pub(crate) struct Carried(Option<Arc<Plan>>);

impl Carried {
    pub(crate) fn here() -> Self {
        Self(PLAN.with(|plan| plan.borrow().clone()))
    }

    pub(crate) fn during<T>(self, work: impl FnOnce() -> T) -> T {
        /// Puts the thread's earlier plan back, also when the work panics.
        struct Back(Option<Arc<Plan>>);
        impl Drop for Back {
            fn drop(&mut self) {
                PLAN.with(|plan| plan.replace(self.0.take()));
            }
        }
        let _back = Back(PLAN.with(|plan| plan.replace(self.0)));
        work()
    }
}

struct Fault {
    /// Half of what was to be written is, before it happens.
    after_half: bool,
    /// None for the end of the process.
    error: Option<Errno>,
}

impl Fault {
    fn happen(&self) -> io::Error {
        match self.error {
            Some(error) => error.into(),
            None => die(),
        }
    }
}

fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    loop {
        // The signal is on its way, and nothing may be done any more.
        std::thread::park();
    }
}

fn decide(what: What, at: usize, step: usize, name: &str) -> Option<Fault> {
    let is_there = match what {
        What::Count => false,
        What::Full => step >= at && !name.starts_with("remove"),
        _ => step == at,
    };
    let (after_half, error) = match what {
        What::Count | What::Kill => (false, None),
        What::Torn => (true, None),
        What::Full => (false, Some(Errno::NOSPC)),
        What::Broken => (false, Some(Errno::IO)),
        What::Half => (true, Some(Errno::NOSPC)),
    };
    is_there.then_some(Fault { after_half, error })
}

fn next(name: &'static str) -> Option<Fault> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    if let Carried(Some(plan)) = Carried::here() {
        return plan.next(name);
    }
    let folder = FOLDER.get_or_init(|| std::env::var_os("TEST_KITBAG_FAULT").map(PathBuf::from));
    folder.as_deref().and_then(|folder| next_of_the_program(folder, name))
}

fn next_of_the_program(folder: &Path, name: &str) -> Option<Fault> {
    static TURN: Mutex<()> = Mutex::new(());
    let plan = fs::read_to_string(folder.join("plan")).ok()?;
    if let Some(held) = plan.trim().strip_prefix("hold ") {
        if held == name {
            hold(folder);
        }
        return None;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = fs::read_to_string(folder.join("plan")).ok()?;
    let (what, at) = plan.trim().split_once(' ')?;
    let what = match what {
        "count" => What::Count,
        "kill" => What::Kill,
        "torn" => What::Torn,
        "full" => What::Full,
        "broken" => What::Broken,
        "half" => What::Half,
        _ => return None,
    };
    let steps = folder.join("steps");
    let mut log = File::options().create(true).append(true).open(&steps).ok()?;
    log.write_all(format!("{name}\n").as_bytes()).ok()?;
    let count = fs::read_to_string(&steps).ok()?.lines().count();
    decide(what, at.parse().ok()?, count, name)
}

/// Waits as long as there is a plan.
fn hold(folder: &Path) {
    let _ = fs::write(folder.join("held"), "");
    while folder.join("plan").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A step that changes something durable is about to be done. In builds with debug assertions a test can make it fail.
pub fn step(name: &'static str) -> io::Result<()> {
    next(name).map_or(Ok(()), |fault| Err(fault.happen()))
}

/// Writes bytes to a file: the one step that can be half done.
pub(crate) fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let Some(fault) = next("write") else { return file.write_all(bytes) };
    if fault.after_half {
        file.write_all(&bytes[..bytes.len() / 2])?;
    }
    Err(fault.happen())
}
