//! A server that is a child of ours: one message a line, through its pipes.

use std::collections::VecDeque;
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitbag_guard::child::{Child, ChildSpec, Fence, StartError};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::lines::Lines;
use super::writer::{Stuck, Writer};
use super::{Link, Outgoing};
use crate::connection::{Boxed, Options, hub::Hub};
use crate::lasting::Lasting;

/// How long a server may take to end by itself, and again after it was asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long what a dead server said last is waited for, where somebody else holds its output open.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a server may not read what we write.
pub(super) const WRITE: Duration = Duration::from_secs(20);

/// The exit codes with which a shell, or what starts programs like one, says that there is nothing that it could start.
const NOT_STARTED: [i32; 2] = [126, 127];

/// What is kept of what a server says beside: so many lines, each so long.
const TAIL: (usize, usize) = (200, 2000);

/// What a server is started with.
pub(crate) struct Program<'a> {
    pub command: &'a str,
    pub args: &'a [String],
    pub cwd: Option<&'a PathBuf>,
    pub env: &'a [(String, String)],
    pub fence: Option<&'a Fence>,
}

pub(crate) struct Stdio {
    hub: Arc<Hub>,
    writer: Arc<Writer>,
    tail: Arc<Mutex<VecDeque<String>>>,
    pid: u32,
    /// It ended by itself, and not because of what we said.
    innocent: Arc<AtomicBool>,
    over: watch::Receiver<bool>,
}

impl Stdio {
    /// Starts the server.
    pub(crate) async fn start(program: Program<'_>, options: &Options, hub: Arc<Hub>) -> Result<Arc<Self>, StartError> {
        let home = || match program.fence {
            Some(fence) => fence.home_inside().to_owned(),
            None => env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from),
        };
        let spec = ChildSpec::new(program.command, program.cwd.cloned().unwrap_or_else(home))
            .args(program.args)
            .pass(options.pass_environment.iter().cloned())
            .declare(program.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let (child, pipes) = match (program.fence, &options.sandbox) {
            (None, _) => spec.start().await?,
            (Some(fence), Some(sandbox)) => spec.start_behind(fence, sandbox).await?,
            (Some(_), None) => return Err(StartError::NoSandbox("there is none here".to_owned())),
        };
        let pid = child.pid();
        let writer = Arc::new(Writer::new(pipes.stdin, options.longest_message));
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let reader = tokio::spawn(read(pipes.stdout, hub.clone(), options.longest_message));
        let beside = tokio::spawn(keep_tail(pipes.stderr, tail.clone()));
        let drain = tokio::spawn(drain(writer.clone(), hub.clone(), options.answer.min(WRITE)));
        let (ended, over) = watch::channel(false);
        let innocent = Arc::new(AtomicBool::new(false));
        let watched = supervise(child, hub.clone(), writer.clone(), innocent.clone(), [beside, drain], reader);
        tokio::spawn(async move {
            watched.await;
            let _ = ended.send(true);
        });
        Ok(Arc::new(Self { hub, writer, tail, pid, innocent, over }))
    }
}

impl Link for Stdio {
    fn send(&self, message: Outgoing) -> Option<Lasting> {
        match self.writer.write(message.body) {
            // Whoever closed it says why.
            Ok(()) | Err(Stuck::Closed) => {}
            Err(Stuck::Full) => self.hub.close("the server does not read its input, and too much waits for it"),
        }
        None
    }

    fn pid(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn may_have_died_of_words(&self) -> bool {
        !self.innocent.load(Ordering::SeqCst)
    }

    fn stderr_tail(&self) -> Vec<String> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn ended(&self) -> Boxed<'_, ()> {
        let mut over = self.over.clone();
        Box::pin(async move {
            let _ = over.wait_for(|over| *over).await;
        })
    }
}

/// Waits for the end of the server or of the connection, whichever is first, and sees to the other.
async fn supervise(
    mut child: Child,
    hub: Arc<Hub>,
    writer: Arc<Writer>,
    innocent: Arc<AtomicBool>,
    others: [JoinHandle<()>; 2],
    mut reader: JoinHandle<()>,
) {
    // Said before the end is: whoever hears of that may ask.
    let note = |status: &ExitStatus| {
        let not_started = status.code().is_some_and(|code| NOT_STARTED.contains(&code));
        innocent.store(not_started || !writer.was_read(), Ordering::SeqCst);
    };
    tokio::select! {
        () = hub.closed() => {}
        ended = child.ended() => {
            // What it said before it died counts.
            let _ = timeout(LAST_WORDS, &mut reader).await;
            let ended = ended.inspect(note);
            hub.close(&ended.map_or_else(|error| error.to_string(), how_it_ended));
        }
        _ = &mut reader => {
            let ended = timeout(LAST_WORDS, child.ended()).await.map(|ended| ended.inspect(note));
            hub.close(&match ended {
                Ok(Ok(status)) => how_it_ended(status),
                _ => "the server closed its output".to_owned(),
            });
        }
    }
    writer.close();
    child.stop(PATIENCE).await;
    reader.abort();
    others.iter().for_each(JoinHandle::abort);
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the server ended with exit code {code}"),
        (None, Some(signal)) => format!("the server was ended by signal {signal}"),
        (None, None) => "the server ended".to_owned(),
    }
}

pub(super) async fn drain(writer: Arc<Writer>, hub: Arc<Hub>, patience: Duration) {
    if let Err(error) = writer.drain(patience).await {
        hub.close(&match error.kind() {
            std::io::ErrorKind::TimedOut => format!("the server did not read its input for {patience:?}"),
            _ => "the server closed its input".to_owned(),
        });
    }
}

/// Hands every line to the hub.
pub(super) async fn read(mut stdout: pipe::Receiver, hub: Arc<Hub>, longest: usize) {
    let mut lines = Lines::new(longest);
    loop {
        match lines.more(&mut stdout).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let (mut unasked, mut too_long) = (0, false);
        while let Some(line) = lines.next() {
            too_long |= line.len() > longest;
            if !too_long {
                unasked += hub.receive(line, None);
            }
        }
        if too_long || lines.too_long() {
            return hub.close(&format!("the server sent a line of more than {longest} bytes"));
        }
        hub.pace(unasked).await;
    }
}

/// Keeps the last lines of a stream that nobody else reads.
async fn keep_tail(mut stderr: pipe::Receiver, tail: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = Lines::new(TAIL.1);
    while matches!(lines.more(&mut stderr).await, Ok(1..)) {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keep = |line: &[u8]| {
            let mut text = String::from_utf8_lossy(line).into_owned();
            text.truncate(text.floor_char_boundary(TAIL.1));
            tail.push_back(text);
            if tail.len() > TAIL.0 {
                tail.pop_front();
            }
        };
        while let Some(line) = lines.next() {
            keep(line);
        }
        if lines.too_long() {
            keep(lines.take());
        }
    }
}
