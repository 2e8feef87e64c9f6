//! The calls that run here, or wait here for their turn.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kitbag_model::{CallError, ChatId, OrgId, ToolCall, ToolCallId};
use kitbag_python::Stop;
use tokio::sync::{Notify, watch};

use super::company::{Answered, Company};

pub(super) type Key = (OrgId, ChatId, ToolCallId);

/// A call that is not over.
pub(super) struct Live {
    pub(super) key: Key,
    /// The toolset whose tool it is.
    pub(super) toolset: String,
    stop: watch::Sender<bool>,
    over: AtomicBool,
    /// Whether its end could not be recorded for so long that nobody should wait for that.
    late: AtomicBool,
    /// Those who wait for either.
    waiting: Notify,
    /// Why it is to end before its time. The first reason counts.
    why: Mutex<Option<CallError>>,
    /// As it was when it ended.
    ended: Mutex<Option<Arc<ToolCall>>>,
    /// Who made it, if that matters to how it is made.
    pub(super) company: Option<Arc<Company>>,
    answered: Mutex<Option<Answered>>,
    /// Whether another node was asked to run it.
    handed_over: AtomicBool,
}

impl Live {
    /// Asks it to end, and says why.
    pub(super) fn end(&self, why: CallError) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.stop.send_replace(true);
    }

    /// Why it is to end before its time.
    pub(super) fn why(&self) -> Option<CallError> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a worker listens to.
    pub(super) fn stop(&self) -> Stop {
        self.stop.subscribe()
    }

    /// Waits until it is to end before its time.
    pub(super) async fn stopped(&self) {
        let _ = self.stop().wait_for(|stop| *stop).await;
    }

    /// It ended like this.
    pub(super) fn ended(&self, call: Arc<ToolCall>) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }

    /// How it ended, if it ran to its end.
    pub(super) fn end_of_it(&self) -> Option<Arc<ToolCall>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its server answered this.
    pub(super) fn was_answered(&self, answer: Answered) {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(answer);
    }

    /// What it answered does not count.
    pub(super) fn take_answer_back(&self) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What its server answered.
    pub(super) fn answered(&self) -> Option<Answered> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another node is asked to run it.
    pub(super) fn hands_over(&self) {
        self.handed_over.store(true, Ordering::SeqCst);
    }

    /// Whether one was.
    pub(super) fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::SeqCst)
    }

    /// Its end could not be recorded for long. Whether that is said for the first time.
    pub(super) fn is_late(&self) -> bool {
        let is_first = !self.late.swap(true, Ordering::SeqCst);
        self.waiting.notify_waiters();
        is_first
    }

    /// Waits until that was said.
    pub(super) async fn late(&self) {
        self.comes_true(&self.late).await;
    }

    /// Waits until it is over, and recorded or about to be.
    pub(super) async fn over(&self) {
        self.comes_true(&self.over).await;
    }

    async fn comes_true(&self, flag: &AtomicBool) {
        loop {
            let mut told = pin!(self.waiting.notified());
            // It listens before it looks, or it would miss what is said in between.
            told.as_mut().enable();
            if flag.load(Ordering::SeqCst) {
                return;
            }
            told.await;
        }
    }
}

/// Why a call is not taken.
pub(super) enum NotTaken {
    /// The server stops.
    Closed,
    /// It is there already.
    There,
}

/// All of them.
#[derive(Default)]
pub(super) struct Lives {
    known: Mutex<HashMap<Key, Arc<Live>>>,
    /// Whether no more are taken.
    closed: Mutex<bool>,
}

impl Lives {
    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Live>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that is about to be recorded as running.
    pub(super) fn add(
        &self,
        org: &OrgId,
        chat: ChatId,
        id: ToolCallId,
        toolset: &str,
        company: Option<Arc<Company>>,
    ) -> Result<Arc<Live>, NotTaken> {
        let live = Arc::new(Live {
            key: (org.clone(), chat, id),
            toolset: toolset.to_owned(),
            stop: watch::channel(false).0,
            over: AtomicBool::new(false),
            late: AtomicBool::new(false),
            waiting: Notify::new(),
            why: Mutex::default(),
            ended: Mutex::default(),
            company,
            answered: Mutex::default(),
            handed_over: AtomicBool::new(false),
        });
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(NotTaken::Closed);
        }
        // Two may say yes to one call at the same moment; the second must not take the first one's place.
        match self.known().entry(live.key.clone()) {
            Entry::Occupied(_) => Err(NotTaken::There),
            Entry::Vacant(place) => Ok(Arc::clone(place.insert(live))),
        }
    }

    /// It is over, or was never begun.
    pub(super) fn remove(&self, live: &Live) {
        self.known().remove(&live.key);
        live.over.store(true, Ordering::SeqCst);
        live.waiting.notify_waiters();
    }

    pub(super) fn find(&self, org: &OrgId, chat: ChatId, id: ToolCallId) -> Option<Arc<Live>> {
        self.known().get(&(org.clone(), chat, id)).cloned()
    }

    /// Those that fit.
    pub(super) fn all(&self, fits: impl Fn(&Live) -> bool) -> Vec<Arc<Live>> {
        self.known().values().filter(|live| fits(live)).cloned().collect()
    }

    /// From now on no more are taken.
    pub(super) fn close(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
