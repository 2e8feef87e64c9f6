//! What a process has in memory only because it needed it once, and gives back when it is quiet: memory that is free again, and the
//! pages of its own program.
//!
//! A start, and whatever happens the first time, touches much of the program that is not needed again. The kernel takes such pages back
//! when it is short of memory, and counts them as this process's until then.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

/// So often it is looked whether the process is quiet.
const LOOK: Duration = Duration::from_secs(1);

/// It is quiet when it worked no longer than this since the last look, and has something to give back if it worked longer than that
/// since it did so.
const QUIET: Duration = Duration::from_millis(20);
const WORKED: Duration = Duration::from_millis(100);

/// After so many quiet looks the program's pages go, too. Whoever comes next waits a moment until those that it needs are back, so that
/// is for a server that nobody has used for a while, not for one between two requests.
const LONG: u32 = 15;

/// Gives back what is not needed, whenever the process has become quiet. When nobody has used it for a while, `forget` is called first, which
/// drops what was only kept to be ready. It does not end.
pub async fn when_quiet(forget: impl Fn()) {
    let (mut seen, mut rested, mut looks) = (worked(), Duration::ZERO, 0);
    loop {
        sleep(LOOK).await;
        let now = worked();
        looks = if now - seen < QUIET { looks + 1 } else { 0 };
        if looks == LONG {
            forget();
        }
        if looks == LONG || looks > 0 && now - rested > WORKED {
            let_go_of_freed();
            rested = worked();
        }
        if looks == LONG {
            // It is file work. That it fails means that the process stays as it is.
            let _ = tokio::task::spawn_blocking(let_go_of_program).await;
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

/// Lets go of the program's pages. Those that are needed come back from the file, which is in the system's memory anyway.
fn let_go_of_program() -> io::Result<()> {
    let program = fs::metadata("/proc/self/exe")?.ino();
    for part in unwritten(&fs::read_to_string("/proc/self/smaps")?, program) {
        let_go(part)?;
    }
    Ok(())
}

/// A part of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    from: usize,
    to: usize,
}

/// The parts of memory that are of this file, cannot be written to, and never were: in none of them anything is other than in the file.
fn unwritten(maps: &str, file: u64) -> Vec<Part> {
    let (mut found, mut candidate) = (Vec::new(), None);
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        match first.strip_suffix(':') {
            Some("Anonymous") if words.next() == Some("0") => found.extend(candidate.take()),
            Some(_) => {}
            // `from-to rights offset device inode path`
            None => {
                let rights = words.next().unwrap_or_default();
                let inode = words.nth(2).and_then(|inode| inode.parse().ok());
                let is_ours = inode == Some(file) && matches!(rights, "r--p" | "r-xp");
                candidate = first.split_once('-').filter(|_| is_ours).and_then(|(from, to)| {
                    let number = |text| usize::from_str_radix(text, 16).ok();
                    Some(Part { from: number(from)?, to: number(to)? })
                });
            }
        }
    }
    found
}

#[allow(unsafe_code, reason = "it is about addresses, and says why it is sound")]
fn let_go(part: Part) -> io::Result<()> {
    // SAFETY: the part is a private mapping of a file that cannot be written to and in which nothing was ever changed, so that what is
    // read there afterwards is what was read there before. A program that runs cannot be changed on disk.
    let done = unsafe { libc::madvise(part.from as *mut libc::c_void, part.to - part.from, libc::MADV_DONTNEED) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_written_to_is_let_go() {
        let maps = "55d0-55e0 r--p 00000000 fe:00 77     /bin/kitbag\nSize:  4 kB\nAnonymous:             0 kB\nVmFlags: rd\n\
                    55e0-55f0 r-xp 00001000 fe:00 77     /bin/kitbag\nAnonymous:             0 kB\n\
                    55f0-5600 r--p 00002000 fe:00 77     /bin/kitbag\nAnonymous:             8 kB\n\
                    5600-5610 rw-p 00003000 fe:00 77     /bin/kitbag\nAnonymous:             0 kB\n\
                    7000-7010 r-xp 00000000 fe:00 78     /lib/libc.so\nAnonymous:             0 kB\n\
                    8000-8010 r--p 00000000 00:00 0 \nAnonymous:             0 kB\n";
        let part = |from, to| Part { from, to };
        assert_eq!(unwritten(maps, 77), [part(0x55d0, 0x55e0), part(0x55e0, 0x55f0)]);
    }

    #[test]
    fn the_program_goes_on_without_its_pages() {
        let found = fs::metadata("/proc/self/exe").unwrap().ino();
        assert!(!unwritten(&fs::read_to_string("/proc/self/smaps").unwrap(), found).is_empty());
        let_go_of_program().unwrap();
        assert_eq!((0..1000).map(|n: u64| n.to_string().len()).sum::<usize>(), 2890);
    }
}
