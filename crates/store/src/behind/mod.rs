//! Calls that are recorded behind: what happened waits in memory for a moment, and many calls are written in one transaction.
//!
//! Nobody sees the difference. Whoever opens a transaction of an organisation has everything written first that waits
//! ([`crate::Store::read`], [`crate::Store::write`]), so a call is there for whoever heard of it. What waits is bounded: who
//! comes when it is full waits for room. What cannot be written is kept and tried again; only a crash loses it.

mod batch;
mod queue;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitbag_model::{OrgId, ToolCall};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::error::StoreError;
use crate::store::{Database, PATIENCE};
use queue::{Line, Queue};

/// So long the first of a batch waits for others. Writing them takes its time too, and both together must stay below a tenth of a
/// second.
const DELAY: Duration = Duration::from_millis(50);

/// So many calls are a batch, however early.
const MANY: usize = 500;

/// So much may wait, in units of a kibibyte. It is far more than the calls of a moment.
const ROOM: usize = 64 << 10;

/// The longest time between two tries to write what could not be written.
const SLOWEST: Duration = Duration::from_secs(5);

/// So long a store that is closed tries to write what waits.
const LAST_TRIES: Duration = Duration::from_secs(15);

/// All that waits. Clones share it.
#[derive(Clone)]
pub(crate) struct Behind(Arc<Inner>);

struct Inner {
    queues: Mutex<HashMap<OrgId, Arc<Queue>>>,
    /// How many lines of all queues are not written yet: mostly none, and then nobody has to look further.
    unwritten: AtomicUsize,
    room: Arc<Semaphore>,
    closed: AtomicBool,
}

impl Default for Behind {
    fn default() -> Self {
        let room = Arc::new(Semaphore::new(ROOM));
        let (queues, unwritten, closed) = (Mutex::default(), AtomicUsize::new(0), AtomicBool::new(false));
        Self(Arc::new(Inner { queues, unwritten, room, closed }))
    }
}

impl Behind {
    /// How many lines wait.
    pub(crate) fn unwritten(&self) -> usize {
        self.0.unwritten.load(Ordering::SeqCst)
    }

    /// A call was asked for, in a message of its own. Whether it was taken: while what waits cannot be written, nothing is.
    pub(crate) async fn asked(&self, database: &Database, org: &OrgId, call: Arc<ToolCall>, node: &Arc<str>) -> bool {
        let queue = self.queue(org);
        let weight = weight(&call.args);
        let room = loop {
            if queue.is_stuck() || self.0.closed.load(Ordering::SeqCst) {
                return false;
            }
            if let Some(room) = self.free_room(weight) {
                break room;
            }
            queue.hurry();
            if let Ok(room) = timeout(PATIENCE, self.room(weight)).await {
                break room;
            }
        };
        self.0.unwritten.fetch_add(1, Ordering::SeqCst);
        let tended = queue.add(Line::asked(call, Arc::clone(node), room));
        self.look_after(database, queue, tended);
        true
    }

    /// A call that was taken is over.
    pub(crate) async fn over(&self, database: &Database, org: &OrgId, call: Arc<ToolCall>) {
        let queue = self.queue(org);
        let weight = call.outcome.result.as_ref().map_or(0, size) + call.outcome.render_plan.as_ref().map_or(0, size);
        let room = match self.free_room(weight) {
            Some(room) => room,
            None => {
                queue.hurry();
                self.room(weight).await
            }
        };
        if let Some(line) = queue.join(Line::over(call, room)) {
            self.0.unwritten.fetch_add(1, Ordering::SeqCst);
            let tended = queue.add(line);
            self.look_after(database, queue, tended);
        }
    }

    /// Has everything of an organisation written that waits.
    pub(crate) async fn settle(&self, database: &Database, org: &OrgId) -> Result<(), StoreError> {
        if self.0.unwritten.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let queue = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner).get(org).cloned();
        match queue {
            Some(queue) => self.write(database, &queue).await,
            None => Ok(()),
        }
    }

    /// Has everything written, for the last time.
    pub(crate) async fn close(&self, database: &Database) {
        self.0.closed.store(true, Ordering::SeqCst);
        let queues: Vec<Arc<Queue>> =
            self.0.queues.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let end = Instant::now() + LAST_TRIES;
        for queue in queues {
            while let Err(error) = self.write(database, &queue).await {
                if Instant::now() > end {
                    tracing::error!(%error, org = %queue.org, lines = queue.unwritten(), "calls were not recorded");
                    break;
                }
                sleep(2 * DELAY).await;
            }
        }
    }

    /// Writes what waits, once. Whoever waits for a try that fails meanwhile does not try again.
    async fn write(&self, database: &Database, queue: &Queue) -> Result<(), StoreError> {
        if queue.unwritten() == 0 {
            return Ok(());
        }
        let came = queue.tries();
        let _turn = queue.turn().await;
        if let Some(error) = queue.failed_since(came) {
            return Err(error);
        }
        let mut lines = queue.take();
        if lines.is_empty() {
            return Ok(());
        }
        let before = lines.len();
        let done = batch::write(database, &queue.org, &mut lines).await;
        // What is left of them was not written.
        self.0.unwritten.fetch_sub(before - lines.len(), Ordering::SeqCst);
        queue.tried(lines, done.as_ref().err());
        done
    }

    /// Sees to it that what waits is written in time, if nobody does yet.
    fn look_after(&self, database: &Database, queue: Arc<Queue>, tended: bool) {
        if tended {
            return;
        }
        let (behind, database) = (self.clone(), database.clone());
        tokio::spawn(async move {
            let mut pause = DELAY;
            loop {
                if pause == DELAY {
                    let _ = timeout(pause, queue.hurried()).await;
                } else {
                    sleep(pause).await;
                }
                match behind.write(&database, &queue).await {
                    Ok(()) => pause = DELAY,
                    Err(_) if behind.0.closed.load(Ordering::SeqCst) => return,
                    Err(error) => {
                        let (org, lines) = (&queue.org, queue.unwritten());
                        tracing::warn!(%error, %org, lines, "calls could not be recorded; trying again");
                        pause = (pause * 2).min(SLOWEST);
                    }
                }
                if queue.rest() {
                    return;
                }
            }
        });
    }

    fn queue(&self, org: &OrgId) -> Arc<Queue> {
        let mut queues = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner);
        match queues.get(org) {
            Some(queue) => Arc::clone(queue),
            None => Arc::clone(queues.entry(org.clone()).or_insert_with(|| Arc::new(Queue::new(org.clone())))),
        }
    }

    fn free_room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.room).try_acquire_many_owned(units(bytes)).ok()
    }

    async fn room(&self, bytes: usize) -> OwnedSemaphorePermit {
        let room = Arc::clone(&self.0.room).acquire_many_owned(units(bytes)).await;
        room.expect("nobody closes the semaphore")
    }
}

/// What a line takes of the room. However large it is, it fits when there is nothing else.
fn units(bytes: usize) -> u32 {
    u32::try_from((1 + bytes / 1024).min(ROOM)).unwrap_or(u32::MAX)
}

fn weight(args: &serde_json::Map<String, Value>) -> usize {
    args.iter().map(|(name, value)| name.len() + size(value)).sum()
}

/// About how many bytes a value needs.
fn size(value: &Value) -> usize {
    const ONE: usize = 32;
    match value {
        Value::String(text) => ONE + text.len(),
        Value::Array(values) => ONE + values.iter().map(size).sum::<usize>(),
        Value::Object(fields) => ONE + fields.iter().map(|(name, value)| ONE + name.len() + size(value)).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) => ONE,
    }
}
