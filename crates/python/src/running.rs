//! One call on its way: handed to a child, listened to, stopped if it must be, and over only when its last process is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use kitbag_guard::keeper::Keeper;
use kitbag_model::{ChatId, OrgId, Timestamp};
use rustix::process::{Signal, pidfd_send_signal};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::broadcast;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::call::{Event, Failure, FailureKind, Finished, Job, Stop, Stream, stopped};
use crate::frames;
use crate::host::{End, Host};
use crate::logs::Log;
use crate::parent::Parent;
use crate::program::Program;
use crate::rooms::{ChatRoom, Left};
use crate::workers::Settings;

/// How long a call that was told to stop has for its last words.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of a killed process may take. Longer, and the whole house goes.
const BURIAL: Duration = Duration::from_secs(5);
/// A host may end in the very moment in which it is given a call.
const TRIES: u32 = 3;

/// What a child says.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Said {
    /// It has the call, and this is what holds it. It is said once, before the tool has a say.
    Taken {
        number: u64,
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

/// The child that has the call.
#[derive(Clone)]
struct Child {
    number: u64,
    handle: Arc<OwnedFd>,
}

enum Heard {
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
    /// Told when something that outlived its call has ended.
    pub(crate) ended: &'a broadcast::Sender<(OrgId, ChatId)>,
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
        for _ in 0..TRIES {
            let was_begun = match self.begin(&job, &log).await {
                Ok(begun) => self.attend(&job, begun, &log, stop.clone(), &mut finished).await,
                Err(error) => {
                    let message = format!("the call cannot be handed to a worker: {error}");
                    finished.result = Err(failure(FailureKind::Unavailable, message));
                    true
                }
            };
            if was_begun {
                break;
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
        let host = self.room.host(&self.program.toolset, self.parent, self.keeper, &job.workspace).await?;
        let (talk, their_talk) = StdUnixStream::pair()?;
        talk.set_nonblocking(true)?;
        let (out, their_out) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (err, their_err) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        host.hand_over(&[their_talk.as_fd(), their_out.as_fd(), their_err.as_fd()]).await?;
        let drains = vec![log.drain(out, Stream::Stdout)?, log.drain(err, Stream::Stderr)?];
        Ok(Begun { host, talk: UnixStream::from_std(talk)?, drains })
    }

    /// Sees a call to its end. False if it was not begun, because its host had just ended.
    async fn attend(&self, job: &Job, begun: Begun, log: &Log, mut stop: Stop, finished: &mut Finished) -> bool {
        let Begun { host, talk, drains } = begun;
        let request = json!({
            "entrypoint": job.entrypoint,
            "args": job.args,
            "chat": job.chat,
            "toolset": self.program.toolset,
            "workspace": job.workspace,
            "most_bytes": self.settings.most_result_bytes,
            "seconds": job.deadline.as_secs() + 5,
            "traceparent": kitbag_trace::current().map(|place| place.traceparent()),
        });
        let longest = self.settings.most_result_bytes + 1024 * 1024;
        let (mut ear, listening) = listen(talk, request, longest);
        let mut call = Attended::default();
        let mut ended = None;
        let (deadline, mut kill_at) = (Instant::now() + job.deadline, None);
        let mut killed = false;
        while ended.is_none() && call.reply.is_none() && !call.is_lost() {
            let end = async {
                match call.taken_by {
                    Some(number) => host.ended(number).await,
                    None => {
                        host.over().await;
                        End::WithHost
                    }
                }
            };
            tokio::select! {
                heard = ear.recv(), if !call.silent => {
                    if let Some(Heard::Said(Said::Taken { number, layers, missing })) = heard {
                        call.taken(&host, number, (layers, missing), finished).await;
                        if call.why.is_some() {
                            // It was to end before it began.
                            call.kill(&host);
                        }
                        continue;
                    }
                    call.hear(heard, log);
                    if call.silent && call.why.is_some() && !killed {
                        call.kill(&host);
                    }
                }
                end = end => ended = Some(end),
                () = sleep_until(deadline), if call.why.is_none() => {
                    let message = format!("the tool did not end within {} seconds", job.deadline.as_secs_f64());
                    call.why = Some((FailureKind::Timeout, message));
                    kill_at = Some(tell(call.child.as_ref()));
                }
                () = stopped(&mut stop), if call.why.is_none() => {
                    call.why = Some((FailureKind::Cancelled, "the call was cancelled".to_owned()));
                    kill_at = Some(tell(call.child.as_ref()));
                }
                () = sleep_until(kill_at.unwrap_or(deadline)), if kill_at.is_some() && !killed => {
                    killed = true;
                    kill_at = Some(Instant::now() + BURIAL);
                    call.kill(&host);
                }
                () = sleep_until(kill_at.unwrap_or(deadline)), if killed => {
                    // Whatever keeps it from ending, it is not going to keep the rest of us.
                    self.parent.end().await;
                    ended = Some(End::WithHost);
                }
            }
        }
        // It is dead, and what it said before is still on its way.
        while call.reply.is_none() && !call.silent {
            let Ok(heard) = timeout(BURIAL, ear.recv()).await else { break };
            if let Some(Heard::Said(Said::Taken { number, layers, missing })) = heard {
                call.taken(&host, number, (layers, missing), finished).await;
                continue;
            }
            call.hear(heard, log);
        }
        let Attended { taken_by, child, reply, why, .. } = call;
        if let Some(number) = taken_by {
            host.follow(number);
        }
        listening.abort();
        // Only what nobody has taken may be given to another: a tool must not run twice.
        if taken_by.is_none() && why.is_none() {
            finished.result = Err(self.unbegun(&host).await);
            return false;
        }
        // It was told to end and did so with its own words: they are not what was asked for.
        let (left, alone, result) = match (why, reply) {
            // Its socket may have broken off because everything ended.
            (Some((FailureKind::Failed, _)), _) if self.parent.is_ending() => (false, false, Err(self.obituary(None))),
            (Some((kind, message)), _) => (false, false, Err(failure(kind, message))),
            // The tool's own code can say this too: what it may not leave running ends, whatever it says.
            (None, Some(Reply { left, alone, result })) => (left && self.program.listen, alone, result),
            (None, None) => (false, false, Err(self.obituary(ended))),
        };
        finished.result = result;
        if let (None, Some(child)) = (ended, child) {
            if left {
                self.leave(job, child, host, finished);
                return true;
            }
            let burial = Burial { child, host };
            if alone {
                // It has nothing left to do but to end, and nobody has to wait for that. If that is not true, it ends too.
                kill(&burial.child);
                tokio::spawn(burial.attend());
            } else {
                burial.attend().await;
            }
        }
        for drain in drains {
            // Its processes are dead, or have closed their ends: what is in the pipes can be read.
            let _ = timeout(BURIAL, drain).await;
        }
        true
    }

    /// Why there was no child to take the call.
    async fn unbegun(&self, host: &Host) -> Failure {
        if self.parent.is_ending() {
            return self.obituary(None);
        }
        match host.ready().await {
            Err(message) => {
                failure(FailureKind::Unavailable, format!("the call's sandbox cannot be entered: {message}"))
            }
            Ok(()) => self.obituary(None),
        }
    }

    /// What the call started goes on, and belongs to the chat from now on.
    fn leave(&self, job: &Job, child: Child, host: Arc<Host>, finished: &mut Finished) {
        if self.room.count() >= self.settings.most_left_running {
            kill(&child);
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
            handle: child.handle,
            started_at: Timestamp::now(),
        });
        let (room, id) = (Arc::clone(self.room), job.call.clone());
        let (ended, whose) = (self.ended.clone(), (job.org.clone(), job.chat));
        tokio::spawn(async move {
            // Its host lives as long as it does.
            host.ended(child.number).await;
            room.ended(&id);
            // It fails if nobody listens.
            let _ = ended.send(whose);
        });
    }

    /// Why a call that said nothing ended.
    fn obituary(&self, ended: Option<End>) -> Failure {
        if self.parent.is_ending() {
            // Whatever the last of its processes had to say about it.
            return failure(FailureKind::Interrupted, "the toolset was changed or removed, or the server ended");
        }
        match ended {
            // As waitpid has it: the low seven bits are a signal, the next byte is an exit code.
            Some(End::Status(status)) if status & 0x7f != 0 => {
                let message = format!("the tool's process was ended by {}", signal(status & 0x7f));
                failure(FailureKind::Failed, message)
            }
            Some(End::Status(status)) => {
                let message = format!("the tool ended its process with code {} and returned nothing", status >> 8);
                failure(FailureKind::Failed, message)
            }
            _ => failure(FailureKind::Interrupted, "the worker of this toolset ended"),
        }
    }
}

/// A call that has only to end.
struct Burial {
    child: Child,
    host: Arc<Host>,
}

impl Burial {
    /// Waits for its end, and sees to it.
    async fn attend(self) {
        let Self { child, host } = &self;
        if timeout(BURIAL, host.ended(child.number)).await.is_err() {
            kill(child);
            if timeout(BURIAL, host.ended(child.number)).await.is_err() {
                host.parent.end().await;
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
    /// The number of the child that has the call.
    taken_by: Option<u64>,
    /// The child, unless it was dead before anybody could look.
    child: Option<Child>,
    reply: Option<Reply>,
    /// Why it is not to go on.
    why: Option<(FailureKind, String)>,
    /// Nothing more will be heard.
    silent: bool,
}

impl Attended {
    /// Ends it, whoever has it.
    fn kill(&self, host: &Host) {
        match (&self.child, self.taken_by) {
            (Some(child), _) => kill(child),
            // It is dead already.
            (None, Some(_)) => {}
            (None, None) => host.kill(),
        }
    }

    /// Whether it ended before it said who has it.
    fn is_lost(&self) -> bool {
        self.silent && self.taken_by.is_none()
    }

    /// Who has the call, and what holds it. Once: what is said later may be the tool's words.
    async fn taken(
        &mut self,
        host: &Host,
        number: u64,
        (layers, missing): (Vec<String>, Vec<String>),
        finished: &mut Finished,
    ) {
        if self.taken_by.is_some() {
            return;
        }
        self.taken_by = Some(number);
        finished.layers = layers;
        finished.missing_layers = missing;
        self.child = host.child(number).await.map(|handle| Child { number, handle });
    }

    fn hear(&mut self, heard: Option<Heard>, log: &Log) {
        match heard {
            Some(Heard::Said(Said::Taken { .. })) => {}
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
    host: Arc<Host>,
    talk: UnixStream,
    drains: Vec<JoinHandle<()>>,
}

/// Sends the request and hears what comes back, on a task of its own: a select in the middle of a frame would lose it.
fn listen(mut talk: UnixStream, request: Value, longest: u64) -> (mpsc::Receiver<Heard>, JoinHandle<()>) {
    let (mouth, ear) = mpsc::channel(64);
    let task = tokio::spawn(async move {
        let (mut reader, mut writer) = talk.split();
        let asking = frames::write(&mut writer, &request);
        let hearing = async {
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

/// Asks the call to end. When its time for that is over.
fn tell(child: Option<&Child>) -> Instant {
    // If it has not begun, it ends when it would begin.
    if let Some(child) = child {
        let _ = pidfd_send_signal(&*child.handle, Signal::TERM);
    }
    Instant::now() + GRACE
}

fn kill(child: &Child) {
    let _ = pidfd_send_signal(&*child.handle, Signal::KILL);
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
