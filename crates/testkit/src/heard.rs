//! The program, heard while it runs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Finished, Program};

/// Long enough for a loaded machine; a test that waits this long has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running program, killed when dropped.
pub struct Heard {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    lines: mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Heard {
    /// Starts it.
    pub fn start(program: &Program, args: &[&str]) -> Self {
        let mut child = program.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start it");
        let (mut stdout, stderr) = (child.stdout.take().expect("its stdout"), child.stderr.take().expect("its stderr"));
        let stdout = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).expect("UTF-8 on stdout");
            text
        });
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, stdout: Some(stdout), lines, said: Vec::new() }
    }

    /// Waits until it says something like this beside its result; the whole line.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(DEADLINE) else {
                panic!("it never says {text:?}; it said:\n{}", self.said.join("\n"))
            };
            self.said.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).expect("signal the program");
    }

    /// Waits until it has ended, and what it left.
    #[track_caller]
    pub fn end(mut self) -> Finished {
        // What it says ends with it.
        while let Some(line) = match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end; it said:\n{}", self.said.join("\n")),
        } {
            self.said.push(line);
        }
        let code = self.child.wait().expect("wait for the program").code();
        let stdout = self.stdout.take().expect("it ends once").join().expect("its stdout");
        Finished { code, stdout, stderr: self.said.join("\n") }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
