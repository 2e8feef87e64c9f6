//! Memory that was freed and that the allocator keeps for the next who wants some: a process that has become quiet gives it back.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

/// So often it is looked whether the process is quiet.
const LOOK: Duration = Duration::from_secs(1);

/// It is quiet when it worked no longer than this since the last look, and has something to give back if it worked longer than that
/// since it did so.
const QUIET: Duration = Duration::from_millis(20);
const WORKED: Duration = Duration::from_millis(100);

/// Gives back what is not needed, whenever the process has become quiet. It does not end.
pub async fn when_quiet() {
    let (mut seen, mut rested) = (worked(), Duration::ZERO);
    loop {
        sleep(LOOK).await;
        let now = worked();
        if now - seen < QUIET && now - rested > WORKED {
            let_go_of_freed();
            rested = worked();
        }
        seen = now;
    }
}

/// How long all threads together have worked.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Lets go of what was freed. By itself the allocator keeps it until somebody wants memory again.
#[allow(unsafe_code, reason = "it is a function of a library in another language, and says why it is sound")]
fn let_go_of_freed() {
    // SAFETY: it takes a flag, and every thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
