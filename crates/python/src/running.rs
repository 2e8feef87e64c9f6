//! One call on its way: handed to a child, listened to, stopped if it must be, and over only when its last process is.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use kitbag_guard::keeper::Keeper;
use kitbag_model::Timestamp;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::call::{Event, Failure, FailureKind, Finished, Job, Stop, Stream, stopped};
use crate::frames;
use crate::logs::Log;
use crate::parent::Parent;
use crate::program::Program;
use crate::rooms::{ChatRoom, Left};
use crate::workers::Settings;

/// How long a call that was told to stop has for its last words.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of a killed process may take. Longer, and the whole house goes.
const BURIAL: Duration = Duration::from_secs(5);
/// The most processes of one chat at a time.
const PROCESSES: u32 = 512;

/// What a child says.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Said {
    Started {
        layers: Vec<String>,
        missing: Vec<String>,
    },
    Progress {
        fraction: Option<f64>,
        message: Option<String>,
    },
    Log {
        level: String,
        message: String,
    },
    Result {
        #[serde(default)]
        left: bool,
        #[serde(default)]
        alone: bool,
        ok: Option<Value>,
        error: Option<ToolError>,
    },
}

#[derive(Deserialize)]
struct ToolError {
    kind: String,
    message: String,
    traceback: Option<String>,
}

/// What the child's usher says: why it could not enter the room, or how the call's process ended.
#[derive(Default, Deserialize)]
struct Ended {
    failed: Option<String>,
    status: Option<i32>,
}

/// Who a call's first process is.
struct First {
    pid: i32,
    handle: OwnedFd,
}

enum Heard {
    First(First),
    Said(Said),
    /// It said something that is not what children say, or too much.
    Nonsense(String),
    Silence,
}

pub(crate) struct Running<'a> {
    pub(crate) keeper: &'a Arc<Keeper>,
    pub(crate) parent: &'a Arc<Parent>,
    pub(crate) room: &'a Arc<ChatRoom>,
    pub(crate) settings: &'a Settings,
    pub(crate) program: &'a Program,
}

impl Running<'_> {
    /// Makes the call.
    pub(crate) async fn run(&self, job: Job, heard: UnboundedSender<Event>, stop: Stop) -> Finished {
        let log = Log::new(heard);
        let mut finished = Finished {
            result: Err(failure(FailureKind::Unavailable, "the call did not begin")),
            logs: Vec::new(),
            logs_cut: 0,
            layers: Vec::new(),
            missing_layers: Vec::new(),
            left_running: false,
        };
        match self.begin(&job, &log).await {
            Ok(begun) => self.attend(&job, begun, &log, stop, &mut finished).await,
            Err(error) => {
                let message = format!("the call cannot be handed to a worker: {error}");
                finished.result = Err(failure(FailureKind::Unavailable, message));
            }
        }
        (finished.logs, finished.logs_cut) = log.close();
        for (name, given) in self.keeper.extras() {
            let list = if given { &mut finished.layers } else { &mut finished.missing_layers };
            list.push(name.to_owned());
        }
        finished
    }

    async fn begin(&self, job: &Job, log: &Log) -> io::Result<Begun> {
        let (talk, their_talk) = StdUnixStream::pair()?;
        let (control, their_control) = StdUnixStream::pair()?;
        sockopt::set_socket_passcred(&talk, true)?;
        talk.set_nonblocking(true)?;
        control.set_nonblocking(true)?;
        let (out, their_out) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (err, their_err) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut note = vec![if self.program.listen { b'L' } else { b'-' }];
        let tree = if self.room.room.is_some() {
            Some(self.keeper.tree(&job.workspace).await.map_err(io::Error::other)?)
        } else {
            note.extend(job.workspace.as_os_str().as_encoded_bytes());
            None
        };
        let mut fds: Vec<BorrowedFd<'_>> =
            vec![their_talk.as_fd(), their_control.as_fd(), their_out.as_fd(), their_err.as_fd()];
        fds.extend(tree.iter().map(AsFd::as_fd));
        if let Some(room) = &self.room.room {
            fds.push(room.user.as_fd());
            if !self.program.network {
                fds.push(room.network.as_fd());
            }
        }
        self.parent.hand_over(&note, &fds).await?;
        let drains = vec![log.drain(out, Stream::Stdout)?, log.drain(err, Stream::Stderr)?];
        Ok(Begun { talk: UnixStream::from_std(talk)?, control: UnixStream::from_std(control)?, drains })
    }

    async fn attend(&self, job: &Job, begun: Begun, log: &Log, mut stop: Stop, finished: &mut Finished) {
        let Begun { talk, control, drains } = begun;
        let (control, mut usher) = watch_usher(control);
        let request = json!({
            "entrypoint": job.entrypoint,
            "args": job.args,
            "chat": job.chat,
            "toolset": self.program.toolset,
            "workspace": job.workspace,
            "most_bytes": self.settings.most_result_bytes,
            "processes": PROCESSES,
            "seconds": job.deadline.as_secs() + 5,
        });
        let longest = self.settings.most_result_bytes + 1024 * 1024;
        let (mut ear, listening) = listen(talk, request, longest);
        let mut call = Attended::default();
        let mut ended = None;
        let (deadline, mut kill_at) = (Instant::now() + job.deadline, None);
        let mut killed = false;
        while ended.is_none() && call.reply.is_none() {
            tokio::select! {
                heard = ear.recv(), if !call.silent => {
                    let known = call.first.is_some();
                    call.hear(heard, log, finished);
                    if !known && call.first.is_some() {
                        // Now it may be buried.
                        let _ = control.try_write(b"+");
                    }
                    if call.silent && call.why.is_some() && !killed {
                        kill(call.first.as_ref(), &control, Signal::KILL);
                    }
                }
                said = &mut usher => ended = Some(said.unwrap_or_default()),
                () = sleep_until(deadline), if call.why.is_none() => {
                    let message = format!("the tool did not end within {} seconds", job.deadline.as_secs_f64());
                    call.why = Some((FailureKind::Timeout, message));
                    kill_at = Some(self.tell(call.first.as_ref(), &control));
                }
                () = stopped(&mut stop), if call.why.is_none() => {
                    call.why = Some((FailureKind::Cancelled, "the call was cancelled".to_owned()));
                    kill_at = Some(self.tell(call.first.as_ref(), &control));
                }
                () = sleep_until(kill_at.unwrap_or(deadline)), if kill_at.is_some() && !killed => {
                    killed = true;
                    kill_at = Some(Instant::now() + BURIAL);
                    kill(call.first.as_ref(), &control, Signal::KILL);
                }
                () = sleep_until(kill_at.unwrap_or(deadline)), if killed => {
                    // Whatever keeps it from ending, it is not going to keep the rest of us.
                    self.parent.end().await;
                    ended = Some(Ended::default());
                }
            }
        }
        // It is dead, and what it said before is still on its way.
        while call.reply.is_none() && !call.silent {
            let Ok(heard) = timeout(BURIAL, ear.recv()).await else { break };
            call.hear(heard, log, finished);
        }
        let Attended { mut first, reply, why, .. } = call;
        listening.abort();
        // It was told to end and did so with its own words: they are not what was asked for.
        let (left, alone, result) = match (why, reply) {
            // Its socket may have broken off because everything ended.
            (Some((FailureKind::Failed, _)), _) if self.parent.is_ending() => (false, false, Err(self.obituary(None))),
            (Some((kind, message)), _) => (false, false, Err(failure(kind, message))),
            // The tool's own code can say this too: what it may not leave running ends, whatever it says.
            (None, Some(Reply { left, alone, result })) => (left && self.program.listen, alone, result),
            (None, None) => (false, false, Err(self.obituary(ended.as_ref()))),
        };
        finished.result = result;
        if let (true, None, Some(first)) = (left, &ended, first.take()) {
            return self.leave(job, first, control, usher, finished);
        }
        let burial = Burial { first, control, usher, parent: Arc::clone(self.parent) };
        if ended.is_none() {
            if alone {
                // It has nothing left to do but to end, and nobody has to wait for that. If that is not true, it ends too.
                kill(burial.first.as_ref(), &burial.control, Signal::KILL);
                tokio::spawn(burial.attend());
            } else {
                burial.attend().await;
            }
        }
        for drain in drains {
            // Its processes are dead, or have closed their ends: what is in the pipes can be read.
            let _ = timeout(BURIAL, drain).await;
        }
    }

    /// Asks the call to end. When its time for that is over.
    fn tell(&self, first: Option<&First>, control: &OwnedWriteHalf) -> Instant {
        match first {
            Some(_) => kill(first, control, Signal::TERM),
            // It has not begun: there is nobody to have last words.
            None => kill(None, control, Signal::KILL),
        }
        Instant::now() + GRACE
    }

    /// What the call started goes on, and belongs to the chat from now on.
    fn leave(
        &self,
        job: &Job,
        first: First,
        control: OwnedWriteHalf,
        usher: oneshot::Receiver<Ended>,
        finished: &mut Finished,
    ) {
        if self.room.count() >= self.settings.most_left_running {
            kill(Some(&first), &control, Signal::KILL);
            let most = self.settings.most_left_running;
            let message =
                format!("this chat has {most} processes running already, the most there may be; stop one first");
            finished.result = Err(failure(FailureKind::Failed, message));
            return;
        }
        finished.left_running = true;
        self.room.add(Left {
            id: job.call.clone(),
            toolset: self.program.toolset.clone(),
            network: self.program.network,
            pid: first.pid,
            handle: first.handle,
            started_at: Timestamp::now(),
        });
        let (room, parent, id) = (Arc::clone(self.room), Arc::clone(self.parent), job.call.clone());
        tokio::spawn(async move {
            // The socket stays open as long as it may go on; the parent's house too.
            let _ = usher.await;
            room.ended(&id);
            drop((control, parent));
        });
    }

    /// Why a call that said nothing ended.
    fn obituary(&self, ended: Option<&Ended>) -> Failure {
        if let Some(message) = ended.and_then(|ended| ended.failed.as_ref()) {
            return failure(FailureKind::Unavailable, format!("the call's sandbox cannot be entered: {message}"));
        }
        if self.parent.is_ending() {
            // Whatever the last of its processes had to say about it.
            return failure(FailureKind::Interrupted, "the toolset was changed or removed, or the server ended");
        }
        let message = match ended.and_then(|ended| ended.status) {
            // As waitpid has it: the low seven bits are a signal, the next byte is an exit code.
            Some(status) if status & 0x7f != 0 => format!("the tool's process was ended by {}", signal(status & 0x7f)),
            Some(status) => format!("the tool ended its process with code {} and returned nothing", status >> 8),
            None => "the worker of this toolset ended".to_owned(),
        };
        let kind = if ended.is_some_and(|ended| ended.status.is_some()) {
            FailureKind::Failed
        } else {
            FailureKind::Interrupted
        };
        failure(kind, message)
    }
}

/// A call that has only to end.
struct Burial {
    first: Option<First>,
    control: OwnedWriteHalf,
    usher: oneshot::Receiver<Ended>,
    parent: Arc<Parent>,
}

impl Burial {
    /// Waits for its end, and sees to it.
    async fn attend(mut self) {
        if timeout(BURIAL, &mut self.usher).await.is_err() {
            kill(self.first.as_ref(), &self.control, Signal::KILL);
            if timeout(BURIAL, &mut self.usher).await.is_err() {
                self.parent.end().await;
            }
        }
    }
}

/// What came back.
struct Reply {
    left: bool,
    alone: bool,
    result: Result<Value, Failure>,
}

/// What is known of a call.
#[derive(Default)]
struct Attended {
    first: Option<First>,
    reply: Option<Reply>,
    /// Why it is not to go on.
    why: Option<(FailureKind, String)>,
    /// Nothing more will be heard.
    silent: bool,
    /// It has said what holds it.
    started: bool,
}

impl Attended {
    fn hear(&mut self, heard: Option<Heard>, log: &Log, finished: &mut Finished) {
        match heard {
            Some(Heard::First(process)) => self.first = Some(process),
            // It is said once, before the tool has a say.
            Some(Heard::Said(Said::Started { layers, missing })) if !self.started => {
                self.started = true;
                finished.layers = layers;
                finished.missing_layers = missing;
            }
            Some(Heard::Said(Said::Started { .. })) => {}
            Some(Heard::Said(Said::Progress { fraction, message })) => log.progress(fraction, message),
            Some(Heard::Said(Said::Log { level, message })) => {
                let level = if level == "info" { String::new() } else { format!("{level}: ") };
                log.say(Stream::Log, &format!("{level}{message}"));
            }
            Some(Heard::Said(Said::Result { left, alone, ok, error })) => {
                self.reply = Some(Reply { left, alone, result: answer(ok, error) });
            }
            Some(Heard::Nonsense(what)) => {
                self.why.get_or_insert((FailureKind::Failed, format!("the tool's process broke off: {what}")));
                self.silent = true;
            }
            Some(Heard::Silence) | None => self.silent = true,
        }
    }
}

struct Begun {
    talk: UnixStream,
    control: UnixStream,
    drains: Vec<JoinHandle<()>>,
}

/// Waits for the usher's last word on a task of its own. The half that is given back ends everything when it is closed.
fn watch_usher(control: UnixStream) -> (OwnedWriteHalf, oneshot::Receiver<Ended>) {
    let (mut reader, writer) = control.into_split();
    let (last_word, usher) = oneshot::channel();
    tokio::spawn(async move {
        let said = frames::read::<Ended>(&mut reader, 65_536).await;
        let _ = last_word.send(said.ok().flatten().unwrap_or_default());
    });
    (writer, usher)
}

/// Sends the request and hears what comes back, on a task of its own: a select in the middle of a frame would lose it.
fn listen(mut talk: UnixStream, request: Value, longest: u64) -> (mpsc::Receiver<Heard>, JoinHandle<()>) {
    let (mouth, ear) = mpsc::channel(64);
    let task = tokio::spawn(async move {
        let (mut reader, mut writer) = talk.split();
        let asking = frames::write(&mut writer, &request);
        let hearing = async {
            match first(reader.as_ref()).await {
                Ok(Some(first)) => drop(mouth.send(Heard::First(first)).await),
                Ok(None) => return,
                Err(error) => return drop(mouth.send(Heard::Nonsense(error.to_string())).await),
            }
            loop {
                let heard = match frames::read::<Said>(&mut reader, longest).await {
                    Ok(Some(said)) => Heard::Said(said),
                    Ok(None) => Heard::Silence,
                    Err(error) => Heard::Nonsense(error.to_string()),
                };
                let over = !matches!(heard, Heard::Said(_));
                if mouth.send(heard).await.is_err() || over {
                    break;
                }
            }
        };
        let (_, ()) = tokio::join!(asking, hearing);
    });
    (ear, task)
}

/// Who the call's first process is: the kernel says it beside the first byte.
async fn first(talk: &UnixStream) -> io::Result<Option<First>> {
    let received = talk.async_io(Interest::READABLE, || {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(talk, &mut [IoSliceMut::new(&mut byte)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
        let sender = beside.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
            _ => None,
        });
        Ok((received.bytes, sender))
    });
    match received.await? {
        (0, _) => Ok(None),
        (_, Some(pid)) => Ok(Some(First { pid: pid.as_raw_nonzero().get(), handle: handle(pid)? })),
        (_, None) => Err(io::Error::other("nobody sent the first byte")),
    }
}

fn handle(pid: Pid) -> io::Result<OwnedFd> {
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn kill(first: Option<&First>, control: &OwnedWriteHalf, signal: Signal) {
    if let Some(first) = first {
        let _ = pidfd_send_signal(&first.handle, signal);
    }
    if signal == Signal::KILL {
        // The usher ends whatever there is, too.
        let _ = rustix::net::shutdown(control.as_ref(), rustix::net::Shutdown::Write);
    }
}

fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure { kind, message: message.into(), traceback: None }
}

fn answer(ok: Option<Value>, error: Option<ToolError>) -> Result<Value, Failure> {
    match error {
        None => Ok(ok.unwrap_or(Value::Null)),
        Some(ToolError { kind, message, traceback }) => {
            let kind = if kind == "worker" { FailureKind::Unavailable } else { FailureKind::Failed };
            Err(Failure { kind, message, traceback })
        }
    }
}

fn signal(number: i32) -> String {
    let name = match number {
        4 => "SIGILL: a crash",
        6 => "SIGABRT: it gave up",
        7 => "SIGBUS: a crash",
        8 => "SIGFPE: a crash",
        9 => "SIGKILL: it used too much memory, or ended itself",
        11 => "SIGSEGV: a crash",
        15 => "SIGTERM",
        24 => "SIGXCPU: it used too much processor time",
        25 => "SIGXFSZ: it wrote too large a file",
        31 => "SIGSYS: a call to the kernel that tools may not make",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}
