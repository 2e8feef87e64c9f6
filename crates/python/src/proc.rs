//! What the kernel says of processes and their sockets.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// A process is not waited for any longer that is about to be another program.
const LONGEST_CHANGE: Duration = Duration::from_secs(1);

/// The number of the process that a handle is to; none if it is dead.
pub(crate) fn number(handle: &OwnedFd) -> Option<i32> {
    let known = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    let number = known.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    number.trim().parse().ok().filter(|number| *number > 0)
}

/// The ports in a table of sockets that one of `sockets` listens on.
pub(crate) fn listening(table: &str, sockets: &[String]) -> Vec<u16> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // 0A is LISTEN; the tenth word is the socket's inode.
        let (address, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let ours = *state == "0A" && sockets.iter().any(|socket| socket == inode);
        ours.then(|| u16::from_str_radix(address.rsplit(':').next()?, 16).ok()).flatten()
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// What a process was started as; none if it is dead or hides it.
pub(crate) fn command_line(pid: i32) -> Option<String> {
    let until = Instant::now() + LONGEST_CHANGE;
    loop {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        // Whoever starts a program goes on as soon as the files close that the new program is not to have. The kernel lays out the
        // program's arguments a moment later, and until then there are none.
        if bytes.is_empty() && !is_dead(pid) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let words: Vec<String> = bytes
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8_lossy(word).into())
            .collect();
        return (!words.is_empty()).then(|| words.join(" "));
    }
}

/// Whether nobody has buried it yet, or somebody has.
fn is_dead(pid: i32) -> bool {
    let known = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, which may have any character in it, is in parentheses; the state comes after it.
    known.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a process that is looked at")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_that_was_just_started_has_its_name() {
        for _ in 0..150 {
            let mut child = Command::new("sleep").arg("600").spawn().unwrap();
            let seen = command_line(child.id().cast_signed());
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(seen.as_deref(), Some("sleep 600"));
        }
    }

    #[test]
    fn who_is_dead_has_none() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        while !is_dead(pid) {
            thread::yield_now();
        }
        assert_eq!(command_line(pid), None, "it is not buried");
        child.wait().unwrap();
        assert_eq!(command_line(pid), None);
    }
}
