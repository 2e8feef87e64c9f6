//! Every attempt that this executor knows of: those that it works at, those whose end the server has not heard of, and those that it had
//! begun before it was started anew. Connections come and go; what is here stays.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kitbag_model::WorkPath;
use kitbag_model::run::wire::{AttemptId, FileRef, FromExecutor};
use kitbag_model::run::{RunEventKind, RunOutcome};
use tokio::sync::watch;

use super::progress::Progress;
use crate::{Outbox, Spool};

/// So many events of an attempt are on their way at once. Who does not acknowledge gets no more.
const WINDOW: u64 = 2000;

/// So many attempts that are over and known to the server are remembered, for messages that come twice.
const REMEMBERED: usize = 1000;

/// All attempts. Clones are the same desk.
#[derive(Clone, Debug)]
pub struct Desk {
    inner: Arc<Mutex<Inner>>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Inner {
    spool: Spool,
    capacity: usize,
    closed: Option<&'static str>,
    held: BTreeMap<AttemptId, Held>,
    done: VecDeque<AttemptId>,
}

/// What is known of one.
#[derive(Debug)]
struct Held {
    outbox: Outbox,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Somebody works at it.
    Working(Stops),
    /// It is over, and the server has not said that it knows.
    Over,
    /// It was begun, and cannot be gone on with.
    Lost(String),
}

/// The two ways to end what goes on.
#[derive(Clone, Debug)]
pub struct Stops {
    /// The agent is to stop; that is the attempt's end.
    pub cancel: watch::Sender<bool>,
    /// Nobody wants to know its end.
    pub gone: watch::Sender<bool>,
    /// What becomes of it then.
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// Its end is told.
    Told,
    /// It is forgotten.
    Forgotten,
    /// Somebody else is to do it.
    GivenBack,
}

/// What came of an offer.
#[derive(Debug)]
pub enum Taken {
    /// It is to be begun.
    Begun(Stops),
    /// It was taken before.
    Known,
    /// It is not taken.
    Refused(String),
}

impl Desk {
    /// With what was left from before. What has no end can have none any more.
    pub fn open(spool: Spool, capacity: usize) -> io::Result<Self> {
        let held = spool.left()?.into_iter().map(|outbox| {
            let stage = if outbox.is_over() {
                Stage::Over
            } else {
                Stage::Lost("the executor was stopped while it worked at it".to_owned())
            };
            (outbox.id(), Held { outbox, stage })
        });
        let inner = Inner { held: held.collect(), spool, capacity, closed: None, done: VecDeque::new() };
        Ok(Self { inner: Arc::new(Mutex::new(inner)), changed: watch::Sender::new(()) })
    }

    /// Hears whenever something is different.
    pub fn listen(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Takes an attempt, if there is room.
    pub fn take(&self, id: AttemptId, acknowledged: u64) -> Taken {
        let mut inner = self.lock();
        match inner.held.get(&id).map(|held| &held.stage) {
            Some(Stage::Lost(reason)) => return Taken::Refused(reason.clone()),
            Some(Stage::Working(stops)) if stops.then != Then::Told => {
                return Taken::Refused("it is just being ended here".to_owned());
            }
            Some(_) => return Taken::Known,
            None => {}
        }
        if inner.done.contains(&id) {
            return Taken::Refused("it was done here already".to_owned());
        }
        if let Some(reason) = inner.closed {
            return Taken::Refused(reason.to_owned());
        }
        let working = inner.working();
        if working >= inner.capacity {
            return Taken::Refused(format!("it works at {working} attempts, which is its capacity"));
        }
        // On disk first: after a crash it must be known that this had begun.
        match inner.spool.begin(id, acknowledged) {
            Ok(outbox) => {
                let stops =
                    Stops { cancel: watch::Sender::new(false), gone: watch::Sender::new(false), then: Then::Told };
                inner.held.insert(id, Held { outbox, stage: Stage::Working(stops.clone()) });
                drop(inner);
                self.changed.send_replace(());
                Taken::Begun(stops)
            }
            Err(error) => Taken::Refused(format!("its disk does not take it: {error}")),
        }
    }

    /// Something happened in an attempt.
    pub fn tell(&self, id: AttemptId, kind: RunEventKind) {
        if let Some(held) = self.lock().held.get_mut(&id)
            && let Err(error) = held.outbox.push(kind)
        {
            tracing::error!(%id, %error, "an event cannot be written to disk; it is sent all the same");
        }
        self.changed.send_replace(());
    }

    /// An attempt is over. Whether its end is to be told.
    pub fn end(&self, id: AttemptId, outcome: RunOutcome, files: Option<BTreeMap<WorkPath, FileRef>>) -> bool {
        let mut inner = self.lock();
        let Some(held) = inner.held.get_mut(&id) else { return false };
        let then = match &held.stage {
            Stage::Working(stops) => stops.then,
            _ => Then::Told,
        };
        match then {
            Then::Told => {
                if let Err(error) = held.outbox.end(outcome, files) {
                    tracing::error!(%id, %error, "a result cannot be written to disk; it is sent all the same");
                }
                held.stage = Stage::Over;
            }
            Then::GivenBack => held.stage = Stage::Lost("the executor stops".to_owned()),
            Then::Forgotten => inner.forget(id),
        }
        drop(inner);
        self.changed.send_replace(());
        then == Then::Told
    }

    /// Somebody ended it. Whether it was known.
    pub fn cancel(&self, id: AttemptId) -> bool {
        let inner = self.lock();
        let Some(held) = inner.held.get(&id) else { return inner.done.contains(&id) };
        if let Stage::Working(stops) = &held.stage {
            stops.cancel.send_replace(true);
        }
        true
    }

    /// It is not this executor's any more: nothing more is said of it.
    pub fn forget(&self, id: AttemptId) {
        let mut inner = self.lock();
        match inner.held.get_mut(&id).map(|held| &mut held.stage) {
            Some(Stage::Working(stops)) => stops.end(Then::Forgotten),
            Some(_) => inner.forget(id),
            None => {}
        }
        drop(inner);
        self.changed.send_replace(());
    }

    /// Everything up to here was written down. Whether that was the end of it.
    pub fn acknowledged(&self, id: AttemptId, seq: u64, result: bool) -> bool {
        let mut inner = self.lock();
        let Some(held) = inner.held.get_mut(&id) else { return false };
        let done = match &mut held.stage {
            // It ended without us, so nobody waits for what goes on here.
            Stage::Working(stops) if result => {
                stops.end(Then::Forgotten);
                false
            }
            // Nor for what cannot be gone on with.
            Stage::Lost(_) if result => true,
            _ => held.outbox.acknowledged(seq, result),
        };
        if done {
            inner.forget(id);
        }
        drop(inner);
        self.changed.send_replace(());
        done
    }

    /// Takes nothing more, and says why.
    pub fn close(&self, reason: &'static str) {
        self.lock().closed = Some(reason);
        self.changed.send_replace(());
    }

    /// Ends all that goes on, so that others can do it.
    pub fn give_back(&self) {
        self.end_all(Then::GivenBack);
    }

    fn end_all(&self, then: Then) {
        let mut inner = self.lock();
        for held in inner.held.values_mut() {
            if let Stage::Working(stops) = &mut held.stage {
                stops.end(then);
            }
        }
        drop(inner);
        self.changed.send_replace(());
    }

    /// How many attempts are worked at.
    pub fn working(&self) -> usize {
        self.lock().working()
    }

    /// How many are held in whatever way.
    pub fn held(&self) -> usize {
        self.lock().held.len()
    }

    /// What a greeting names: everything of which something is to be said.
    pub fn all(&self) -> Vec<AttemptId> {
        self.lock().held.keys().copied().collect()
    }

    /// What a heartbeat names: not what cannot be gone on with. Whoever names something keeps its lease, or gets it back.
    pub fn alive(&self) -> Vec<AttemptId> {
        let inner = self.lock();
        inner.held.iter().filter(|(_, held)| !matches!(held.stage, Stage::Lost(_))).map(|(id, _)| *id).collect()
    }

    /// The server knows that it cannot be gone on with.
    pub fn given_back(&self, id: AttemptId) {
        let mut inner = self.lock();
        if inner.held.get(&id).is_some_and(|held| matches!(held.stage, Stage::Lost(_))) {
            inner.forget(id);
        }
        drop(inner);
        self.changed.send_replace(());
    }

    /// Whether there is something that this connection has not said.
    pub fn has_more(&self, said: &BTreeMap<AttemptId, Progress>) -> bool {
        let inner = self.lock();
        inner.held.iter().any(|(id, held)| held.next(said.get(id).copied().unwrap_or_default()).is_some())
    }

    /// The next thing to say on a connection that has said this much. Attempts take turns.
    pub fn next(&self, said: &mut BTreeMap<AttemptId, Progress>, after: Option<AttemptId>) -> Option<FromExecutor> {
        let inner = self.lock();
        said.retain(|id, _| inner.held.contains_key(id));
        let later = inner.held.iter().filter(|(id, _)| after.is_some_and(|after| **id > after));
        let (id, next) = later
            .chain(&inner.held)
            .find_map(|(id, held)| Some((*id, held.next(said.get(id).copied().unwrap_or_default())?)))?;
        let held = inner.held.get(&id)?;
        let progress = said.entry(id).or_default();
        match next {
            Next::Started => {
                progress.started = true;
                Some(FromExecutor::Started { id })
            }
            Next::Events => {
                let events = held.outbox.events(progress.said);
                progress.said = events.last().map_or(progress.said, |event| event.seq);
                progress.moved();
                Some(FromExecutor::Events { id, events })
            }
            Next::End => {
                progress.ended = true;
                progress.moved();
                match &held.stage {
                    Stage::Lost(reason) => Some(FromExecutor::Refused { id, reason: reason.clone() }),
                    _ => held.outbox.result(),
                }
            }
        }
    }

    /// What was sent long ago and never acknowledged is to be sent again.
    pub fn rewind(&self, said: &mut BTreeMap<AttemptId, Progress>, long: std::time::Duration) {
        let inner = self.lock();
        for (id, progress) in said {
            let Some(held) = inner.held.get(id).filter(|held| !matches!(held.stage, Stage::Lost(_))) else { continue };
            let acknowledged = held.outbox.acknowledged_up_to();
            if (progress.said > acknowledged || progress.ended) && progress.is_older_than(long) {
                progress.rewind(acknowledged);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Next {
    Started,
    Events,
    End,
}

impl Held {
    fn next(&self, said: Progress) -> Option<Next> {
        if let Stage::Working(stops) = &self.stage {
            match () {
                // Of what is not ours any more nothing is said.
                () if stops.then != Then::Told => return None,
                () if !said.started => return Some(Next::Started),
                () => {}
            }
        }
        let acknowledged = self.outbox.acknowledged_up_to();
        if self.outbox.has_behind(said.said) {
            return (said.said.saturating_sub(acknowledged) < WINDOW).then_some(Next::Events);
        }
        (!said.ended && !matches!(self.stage, Stage::Working(_))).then_some(Next::End)
    }
}

impl Inner {
    fn working(&self) -> usize {
        self.held.values().filter(|held| matches!(held.stage, Stage::Working(_))).count()
    }

    fn forget(&mut self, id: AttemptId) {
        if let Some(mut held) = self.held.remove(&id) {
            held.outbox.discard();
        }
        self.done.push_back(id);
        if self.done.len() > REMEMBERED {
            self.done.pop_front();
        }
    }
}

impl Stops {
    fn end(&mut self, then: Then) {
        // What is forgotten stays so, also when the executor stops.
        if self.then != Then::Forgotten {
            self.then = then;
        }
        self.cancel.send_replace(true);
        self.gone.send_replace(true);
    }
}
