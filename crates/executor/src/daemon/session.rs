//! One connection, from its greeting until it breaks. It has no memory: what it has to say is on the desk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kitbag_model::run::wire::{AttemptId, FromExecutor, FromServer, PROTOCOL};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::desk::Taken;
use super::progress::Progress;
use super::workshop::Workshop;
use super::{Greeting, VERSION};
use crate::link::{Backoff, CONNECT, Heard, LinkError, Reader, Writer};

/// So many messages wait for the network.
const QUEUE: usize = 4;

/// A connection that has held so long is a good one.
const STEADY: Duration = Duration::from_secs(10);

/// Something for the writer.
enum Say {
    Message(Box<FromExecutor>),
    /// A question whether anybody is there, with a number that comes back.
    Ping(u64),
}

/// Connects and stays as long as it can. Why it ended.
pub async fn session(workshop: &Arc<Workshop>, greeting: &Greeting, backoff: &mut Backoff) -> LinkError {
    match connected(workshop, greeting, backoff).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn connected(
    workshop: &Arc<Workshop>,
    greeting: &Greeting,
    backoff: &mut Backoff,
) -> Result<std::convert::Infallible, LinkError> {
    let (mut reader, writer) = workshop.link.connect().await?;
    let (say, queue) = mpsc::channel(QUEUE);
    // A writer of its own: while the server takes nothing, what it says is still heard. It ends with this function.
    let mut writing = JoinSet::new();
    writing.spawn(write(writer, queue));
    let hello = FromExecutor::Hello {
        protocol: PROTOCOL,
        version: VERSION.to_owned(),
        engines: greeting.engines.clone(),
        capacity: greeting.capacity,
        containers: greeting.containers,
        holding: workshop.desk.all(),
    };
    say.send(Say::Message(Box::new(hello))).await.map_err(|_| broken())?;
    let heartbeat = welcomed(&mut reader, workshop).await?;
    let welcomed_at = Instant::now();
    let patience = workshop.patience;
    let mut session = Session {
        workshop,
        said: BTreeMap::new(),
        control: VecDeque::new(),
        last: None,
        pings: 0,
        given_back: Vec::new(),
    };
    let mut changes = workshop.desk.listen();
    let (mut heartbeats, mut pings) = (interval(heartbeat), interval(patience.ping));
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard_at = Instant::now();
    loop {
        let more = !session.control.is_empty() || workshop.desk.has_more(&session.said);
        tokio::select! {
            heard = reader.next() => {
                heard_at = Instant::now();
                match heard? {
                    Heard::Said(said) => {
                        // A server that only greets and hangs up is not asked again at once.
                        if matches!(said, FromServer::Ack { .. }) {
                            backoff.reset();
                        }
                        session.hear(said)?;
                    }
                    Heard::Pong(number) => session.has_read(number),
                    Heard::Alive => {}
                }
            }
            room = say.reserve(), if more => {
                let room = room.map_err(|_| broken())?;
                if let Some(next) = session.next() {
                    room.send(next);
                }
            }
            changed = changes.changed() => changed.map_err(|_| broken())?,
            _ = heartbeats.tick() => {
                let holding = workshop.desk.alive();
                session.control.push_back(Say::Message(Box::new(FromExecutor::Heartbeat { holding })));
            }
            _ = pings.tick() => {
                if heard_at.elapsed() > patience.silence {
                    return Err(LinkError::Unreachable(format!("nothing was heard for {:?}", patience.silence)));
                }
                if welcomed_at.elapsed() > STEADY {
                    backoff.reset();
                }
                session.ping();
                workshop.desk.rewind(&mut session.said, patience.resend);
            }
            Some(ended) = writing.join_next() => return Err(ended.unwrap_or_else(|_| broken())),
        }
    }
}

/// Waits for the answer to the greeting. How often the server wants to hear that somebody is here.
async fn welcomed(reader: &mut Reader, workshop: &Workshop) -> Result<Duration, LinkError> {
    let late = |_| LinkError::Unreachable(format!("the server did not answer the greeting within {CONNECT:?}"));
    loop {
        match timeout(CONNECT, reader.next()).await.map_err(late)?? {
            Heard::Said(FromServer::Welcome { executor_id, heartbeat_seconds, .. }) => {
                let server = workshop.link.server();
                let told = json!({ "event": "connected", "server": server.to_string(), "executorId": executor_id });
                workshop.voice.tell(&told, || format!("connected to {server} as {executor_id}"));
                return Ok(Duration::from_secs(u64::from(heartbeat_seconds.max(1))));
            }
            Heard::Said(FromServer::Revoked) => return Err(LinkError::Revoked),
            Heard::Said(_) | Heard::Pong(_) | Heard::Alive => {}
        }
    }
}

struct Session<'a> {
    workshop: &'a Arc<Workshop>,
    /// What this connection has said of each attempt.
    said: BTreeMap<AttemptId, Progress>,
    /// What is to be said before anything else.
    control: VecDeque<Say>,
    /// Whose turn was last.
    last: Option<AttemptId>,
    /// How many pings there were.
    pings: u64,
    /// What was given back, each with the ping behind it.
    given_back: Vec<(AttemptId, u64)>,
}

impl Session<'_> {
    fn next(&mut self) -> Option<Say> {
        if let Some(first) = self.control.pop_front() {
            return Some(first);
        }
        let message = self.workshop.desk.next(&mut self.said, self.last)?;
        if let FromExecutor::Refused { id, .. } = &message {
            // Nobody acknowledges this; but a server that answers the ping behind it has read it, and done what it read.
            self.ping();
            self.given_back.push((*id, self.pings));
        }
        self.last = match &message {
            FromExecutor::Started { id }
            | FromExecutor::Events { id, .. }
            | FromExecutor::Result { id, .. }
            | FromExecutor::Refused { id, .. } => Some(*id),
            FromExecutor::Hello { .. } | FromExecutor::Heartbeat { .. } => None,
        };
        Some(Say::Message(Box::new(message)))
    }

    fn ping(&mut self) {
        self.pings += 1;
        self.control.push_back(Say::Ping(self.pings));
    }

    /// The server has read everything before this ping.
    fn has_read(&mut self, number: u64) {
        for (id, _) in self.given_back.extract_if(.., |(_, ping)| *ping <= number) {
            self.workshop.desk.given_back(id);
        }
    }

    fn hear(&mut self, said: FromServer) -> Result<(), LinkError> {
        let desk = &self.workshop.desk;
        match said {
            FromServer::Run(job) => {
                let id = job.id;
                match desk.take(id, job.acknowledged) {
                    Taken::Begun(stops) => self.workshop.begin(job, stops),
                    // The server does not know that it was begun.
                    Taken::Known => self.said.entry(id).or_default().started = false,
                    Taken::Refused(reason) => self.refuse(id, reason),
                }
            }
            FromServer::Cancel { id } => {
                if !desk.cancel(id) {
                    self.refuse(id, "it is not here".to_owned());
                }
            }
            FromServer::Drop { id, reason } => {
                tracing::info!(%id, reason, "the server does not want to hear of an attempt any more");
                desk.forget(id);
            }
            FromServer::Ack { id, seq, result } => {
                if let Some(progress) = self.said.get_mut(&id) {
                    progress.moved();
                }
                desk.acknowledged(id, seq, result);
            }
            FromServer::Revoked => return Err(LinkError::Revoked),
            FromServer::Welcome { .. } => {}
        }
        Ok(())
    }

    fn refuse(&mut self, id: AttemptId, reason: String) {
        tracing::info!(%id, reason, "an attempt is not taken");
        self.control.push_back(Say::Message(Box::new(FromExecutor::Refused { id, reason })));
    }
}

async fn write(mut writer: Writer, mut queue: mpsc::Receiver<Say>) -> LinkError {
    while let Some(next) = queue.recv().await {
        let sent = match &next {
            Say::Message(message) => writer.say(message).await,
            Say::Ping(number) => writer.ping(*number).await,
        };
        if let Err(error) = sent {
            return error;
        }
    }
    broken()
}

fn broken() -> LinkError {
    LinkError::Unreachable("the connection broke".to_owned())
}
