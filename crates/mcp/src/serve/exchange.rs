//! One request and all that is said before its answer, in order. Who reads has a place in it, so a reader that broke off can be
//! followed by another one that goes on where it was.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::sleep;

use super::Fault;
use super::message::{Id, response};
use crate::lasting::Lasting;

/// How much of what was said is kept for a reader that comes back or is slow. The answer itself always is.
const MOST_EVENTS: usize = 1000;
const MOST_BYTES: usize = 4 << 20;

/// So long no question comes after the last one of several.
const MOMENT: Duration = Duration::from_millis(30);

/// So often is waited for more.
const MOST_MOMENTS: usize = 10;

/// What a request came to.
pub(super) type Outcome = Result<Box<RawValue>, Fault>;

/// A question to the client that waits for its answer.
pub(super) struct Question {
    pub key: String,
    pub method: String,
    pub params: Value,
    pub reply: oneshot::Sender<Result<Value, Value>>,
}

/// One request and what is said about it, or what is said without one.
pub(super) struct Exchange {
    /// Tells it apart from the others of its session.
    pub number: u64,
    state: Mutex<State>,
    news: Notify,
    /// Turns to true when nobody wants the answer any more.
    stop: watch::Sender<bool>,
    keys: AtomicU64,
}

#[derive(Default)]
struct State {
    id: Option<Id>,
    progress_token: Option<Value>,
    /// The place of the first that is kept.
    first: u64,
    said: VecDeque<Arc<str>>,
    /// Who took each of them, where there can be many who read. Nobody is 0.
    taken: VecDeque<u32>,
    readers: u32,
    /// Those who were followed by another.
    followed: HashSet<u32>,
    bytes: usize,
    questions: Vec<Question>,
    outcome: Option<Arc<Outcome>>,
    over: bool,
}

/// What a reader finds next.
pub(super) enum Event {
    /// Something that was said, and its place.
    Said(u64, Arc<str>),
    /// The client must answer something first.
    Asked,
    /// The answer, and its place.
    Answer(u64, Arc<Outcome>),
    /// Nothing comes any more.
    End,
}

impl Exchange {
    pub(super) fn new(number: u64, id: Option<Id>, progress_token: Option<Value>) -> Arc<Self> {
        Arc::new(Self {
            number,
            state: Mutex::new(State { id, progress_token, ..State::default() }),
            news: Notify::new(),
            stop: watch::Sender::new(false),
            keys: AtomicU64::new(0),
        })
    }

    /// Says something before the answer. After it nothing is said.
    pub(super) fn say(&self, text: String) {
        let mut state = self.state();
        if state.outcome.is_some() || state.over {
            return;
        }
        state.bytes += text.len();
        state.said.push_back(text.into());
        state.taken.push_back(0);
        while state.said.len() > 1 && (state.said.len() > MOST_EVENTS || state.bytes > MOST_BYTES) {
            let Some(gone) = state.said.pop_front() else { break };
            state.taken.pop_front();
            state.bytes -= gone.len();
            state.first += 1;
        }
        drop(state);
        self.news.notify_waiters();
    }

    /// The answer is there.
    pub(super) fn answer(&self, outcome: Outcome) {
        let mut state = self.state();
        state.outcome.get_or_insert_with(|| Arc::new(outcome));
        drop(state);
        self.news.notify_waiters();
    }

    /// Answers with this if nobody has.
    pub(super) fn answer_if_none(&self, fault: impl FnOnce() -> Fault) {
        if self.state().outcome.is_none() {
            self.answer(Err(fault()));
        }
    }

    /// Nothing comes any more, answered or not.
    pub(super) fn end(&self) {
        self.state().over = true;
        self.news.notify_waiters();
    }

    /// Asks the client something that it has to answer by asking again.
    pub(super) fn ask(&self, method: &str, params: Value) -> oneshot::Receiver<Result<Value, Value>> {
        let (reply, answer) = oneshot::channel();
        let key = format!("kitbag-{}", self.keys.fetch_add(1, Ordering::Relaxed) + 1);
        self.state().questions.push(Question { key, method: method.to_owned(), params, reply });
        self.news.notify_waiters();
        answer
    }

    /// The questions that wait, for who passes them on.
    pub(super) fn questions<T>(&self, look: impl FnOnce(&mut Vec<Question>) -> T) -> T {
        let mut state = self.state();
        // Who asked may have lost interest.
        state.questions.retain(|question| !question.reply.is_closed());
        look(&mut state.questions)
    }

    /// Waits until no more questions come for a moment: a server that has several asks them one right after the other, and
    /// the client should get them together.
    pub(super) async fn gathered(&self) {
        let mut known = self.questions(|questions| questions.len());
        for _ in 0..MOST_MOMENTS {
            sleep(MOMENT).await;
            let now = self.questions(|questions| questions.len());
            if now == known || self.is_over() {
                return;
            }
            known = now;
        }
    }

    /// The same request was made again under another number.
    pub(super) fn continued(&self, id: Id, progress_token: Option<Value>) {
        let mut state = self.state();
        state.id = Some(id);
        state.progress_token = progress_token;
    }

    pub(super) fn id(&self) -> Option<Id> {
        self.state().id.clone()
    }

    pub(super) fn progress_token(&self) -> Option<Value> {
        self.state().progress_token.clone()
    }

    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.over || state.outcome.is_some()
    }

    /// Nobody wants the answer any more.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// One more reads what is said by itself. Each message is for one of them: what nobody took yet is for whoever comes.
    pub(super) fn reader(&self) -> u32 {
        let mut state = self.state();
        state.readers += 1;
        state.readers
    }

    /// The same for one who goes on at this place, where another one broke off: what that one was sent from there on is sent again, and
    /// it gets nothing more.
    pub(super) fn follower(&self, place: u64) -> u32 {
        let reader = self.reader();
        let mut state = self.state();
        let at = |place: u64| usize::try_from(place.checked_sub(state.first)?).ok();
        let last = place.checked_sub(1).and_then(at).and_then(|at| state.taken.get(at).copied());
        let Some(before) = last.filter(|before| *before != 0) else { return reader };
        let from = at(place).unwrap_or_default();
        state.taken.iter_mut().skip(from).filter(|taken| **taken == before).for_each(|taken| *taken = reader);
        // Nobody follows whoever took the last one unless that is this one's.
        if let Some(taken) = state.taken.get_mut(from.saturating_sub(1)) {
            *taken = reader;
        }
        state.followed.insert(before);
        drop(state);
        self.news.notify_waiters();
        reader
    }

    /// What comes at this place or after it, for this reader where there can be many. Waits for it, and meanwhile does the work that it may
    /// come from.
    pub(super) async fn next(&self, place: u64, reader: Option<u32>, work: &mut Option<Lasting>) -> Event {
        let mut news: Pin<&mut Option<Notified<'_>>> = pin!(None);
        poll_fn(|context| {
            // First the work, while nobody listens: its news would wake the very task that does it.
            if let Some(doing) = work {
                news.set(None);
                if Pin::new(doing).poll(context).is_ready() {
                    *work = None;
                }
            }
            loop {
                if let Some(event) = self.peek(place, reader) {
                    return Poll::Ready(event);
                }
                match news.as_mut().as_pin_mut() {
                    // What came since somebody listened is seen above.
                    Some(listening) => {
                        ready!(listening.poll(context));
                        news.set(None);
                    }
                    None => {
                        news.set(Some(self.news.notified()));
                        news.as_mut().as_pin_mut().map(Notified::enable);
                    }
                }
            }
        })
        .await
    }

    fn peek(&self, place: u64, reader: Option<u32>) -> Option<Event> {
        let mut state = self.state();
        let at = match reader {
            Some(reader) if state.followed.contains(&reader) => return Some(Event::End),
            Some(reader) => state.take(place, reader),
            None => place.max(state.first),
        };
        let index = usize::try_from(at - state.first).unwrap_or(usize::MAX);
        if let Some(text) = state.said.get(index) {
            return Some(Event::Said(at, text.clone()));
        }
        let end = state.first + state.said.len() as u64;
        match &state.outcome {
            Some(_) if place > end => return Some(Event::End),
            Some(outcome) => return Some(Event::Answer(end, outcome.clone())),
            None => {}
        }
        state.questions.retain(|question| !question.reply.is_closed());
        match (state.questions.is_empty(), state.over) {
            (false, false) => Some(Event::Asked),
            (_, true) => Some(Event::End),
            (true, false) => None,
        }
    }

    /// The answer as a message.
    pub(super) fn response(&self, outcome: &Outcome) -> String {
        response(self.state().id.as_ref(), outcome)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The first place from this one on that is for this reader, which has it now.
    fn take(&mut self, place: u64, reader: u32) -> u64 {
        let at = place.max(self.first);
        let from = usize::try_from(at - self.first).unwrap_or(usize::MAX);
        let own = |taken: &u32| [0, reader].contains(taken);
        let found = self.taken.iter().skip(from).position(own);
        let index = found.map_or(self.taken.len(), |found| from + found);
        if let Some(taken) = self.taken.get_mut(index) {
            *taken = reader;
        }
        self.first + index as u64
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    async fn read(exchange: &Exchange, reader: u32, place: &mut u64) -> String {
        let Event::Said(at, text) = exchange.next(*place, Some(reader), &mut None).await else { panic!("an end") };
        *place = at + 1;
        text.to_string()
    }

    fn is_silent(exchange: &Exchange, reader: u32, place: u64) -> bool {
        exchange.peek(place, Some(reader)).is_none()
    }

    #[tokio::test]
    async fn each_message_is_for_one_reader() {
        let exchange = Exchange::new(0, None, None);
        exchange.say("before anybody came".to_owned());
        let (one, mut at_one) = (exchange.reader(), 0);
        let (two, mut at_two) = (exchange.reader(), 0);
        assert_eq!(read(&exchange, one, &mut at_one).await, "before anybody came");
        assert!(is_silent(&exchange, two, at_two));
        exchange.say("b".to_owned());
        assert_eq!(read(&exchange, two, &mut at_two).await, "b");
        assert!(is_silent(&exchange, one, at_one) && is_silent(&exchange, two, at_two));
        exchange.say("c".to_owned());
        exchange.say("d".to_owned());
        assert_eq!(read(&exchange, one, &mut at_one).await, "c");
        assert_eq!(read(&exchange, one, &mut at_one).await, "d");
        // Who comes later hears what comes then, and nothing of what was.
        let later = exchange.reader();
        assert!(is_silent(&exchange, later, 0));
        // Who goes on where the first one got its first message gets the first one's others again, and not the second one's.
        let (again, mut at) = (exchange.follower(1), 1);
        assert_eq!(read(&exchange, again, &mut at).await, "c");
        assert!(matches!(exchange.next(at_one, Some(one), &mut None).await, Event::End));
        // So does who follows that one.
        let (third, mut at) = (exchange.follower(at), at);
        assert_eq!(read(&exchange, third, &mut at).await, "d");
        assert!(is_silent(&exchange, third, at));
    }
}
