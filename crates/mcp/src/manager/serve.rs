//! A link while its connection lives: the list of tools kept current, its pulse taken, its idleness noticed.

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::Status;
use super::link::{Ask, Hope, Link};
use super::pace::{Pace, jittered};
use crate::connection::{CallError, Connection, DONE_THERE, LOG, Notice, ToolList};

/// Why it does not serve any more.
pub(super) enum Ended {
    /// It broke.
    Died(String),
    /// It wants a token.
    SignIn(Option<String>),
    /// Nobody used it for a while. The connection was taken out already.
    Idle,
    /// It leads to another node, which takes nothing new on it.
    Moved(String),
    /// Another node is to have it.
    Release(Duration, oneshot::Sender<()>),
    /// Somebody wants a new connection.
    Again,
    /// Nobody needs it.
    Stop,
}

/// However long a server says that its list is current, it is asked again after this time.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// So long something that a server says by itself is held back, for the case that it says it again, and so much of it.
const OWED: Duration = Duration::from_millis(50);
const MOST_OWED: usize = 1000;

type Pending<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// What is under way and what comes next. Nothing of it is boxed before it happens, so a quiet connection costs little.
struct Serving<'a> {
    link: &'a Arc<Link>,
    pace: &'a mut Pace,
    connection: Connection,
    /// Another node has the process, and sees to its pulse and its idleness.
    distant: bool,
    listing: Pending<Result<ToolList, CallError>>,
    /// Who waits for the list that is under way, and who for the one after it.
    waiting: Vec<oneshot::Sender<Result<(), CallError>>>,
    next_waiting: Vec<oneshot::Sender<Result<(), CallError>>>,
    list_at: Option<Instant>,
    listed_at: Option<Instant>,
    first: bool,
    pulse: Pending<Result<(), CallError>>,
    pulse_at: Instant,
    /// Whether somebody doubts that it lives, so that its last answer does not count.
    doubted: bool,
    misses: u32,
    sign: Sign,
    /// What it said that belongs to no request, which is passed on once, however often it is said, at this time.
    owed: BTreeSet<(String, String, Option<String>)>,
    owed_at: Option<Instant>,
}

/// How a server is asked whether it lives. Some say nothing to what they do not know, and some of those do not know a ping.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Sign {
    /// By a ping that was not answered yet.
    Untried,
    /// By a ping.
    Ping,
    /// By what it must know.
    List,
}

/// Until the connection ends or somebody ends it.
pub(super) async fn serve(
    link: &Arc<Link>,
    pace: &mut Pace,
    asks: &mut UnboundedReceiver<Ask>,
    connection: Connection,
    notices: &mut UnboundedReceiver<Notice>,
) -> Ended {
    let now = Instant::now();
    let distant = connection.is_distant();
    // Calls go through from now on; it counts as connected when it has told its tools.
    link.connected(connection.clone(), now);
    let mut serving = Serving {
        link,
        pace,
        connection,
        distant,
        listing: None,
        waiting: Vec::new(),
        next_waiting: Vec::new(),
        list_at: Some(now),
        listed_at: None,
        first: true,
        pulse: None,
        pulse_at: now + jittered(link.shared.settings.health),
        doubted: false,
        misses: 0,
        sign: Sign::Untried,
        owed: BTreeSet::new(),
        owed_at: None,
    };
    loop {
        let wake = serving.due();
        let ended = tokio::select! {
            ask = asks.recv() => serving.asked(ask),
            notice = notices.recv() => serving.noticed(notice),
            listed = finished(&mut serving.listing) => serving.listed(listed),
            answered = finished(&mut serving.pulse) => serving.pulsed(answered),
            () = sleep_until(wake) => serving.tick(),
        };
        if let Some(ended) = ended {
            return ended;
        }
    }
}

async fn finished<T>(pending_: &mut Pending<T>) -> T {
    let finished = match pending_ {
        Some(future) => future.await,
        None => pending().await,
    };
    *pending_ = None;
    finished
}

impl Serving<'_> {
    fn asked(&mut self, ask: Option<Ask>) -> Option<Ended> {
        match ask {
            Some(Ask::Wake) => None,
            Some(Ask::Refresh(waiting)) => {
                self.next_waiting.push(waiting);
                self.list_at = Some(Instant::now());
                None
            }
            Some(Ask::Check) => {
                self.pulse_at = Instant::now();
                self.doubted = true;
                None
            }
            Some(Ask::Reconnect) => Some(Ended::Again),
            Some(Ask::Release(_, told)) if self.distant => {
                let _ = told.send(());
                None
            }
            Some(Ask::Release(patience, told)) => Some(Ended::Release(patience, told)),
            Some(Ask::Stop) | None => Some(Ended::Stop),
        }
    }

    fn noticed(&mut self, notice: Option<Notice>) -> Option<Ended> {
        match notice {
            Some(Notice::ToolsChanged) => {
                let settings = &self.link.shared.settings;
                // One that says it all the time is not asked all the time.
                let earliest = self.listed_at.map_or(Instant::now(), |at| at + settings.relist);
                let at = (Instant::now() + settings.settle).max(earliest);
                self.list_at = Some(self.list_at.map_or(at, |planned| planned.min(at)));
                None
            }
            Some(Notice::Log(text)) => {
                self.link.log(&text);
                None
            }
            // What is said to somebody is said once, and words for the log in order.
            Some(Notice::Told { method, params, whom }) if matches!(method.as_str(), LOG | DONE_THERE) => {
                // Nobody is known who would be told that something is done which nobody was sent to do.
                if method == LOG || whom.is_some() {
                    self.link.told(&method, &params, whom.as_deref());
                }
                None
            }
            Some(Notice::Told { method, params, whom }) => {
                if self.owed.len() < MOST_OWED {
                    self.owed.insert((method, params.to_string(), whom));
                    self.owed_at.get_or_insert(Instant::now() + OWED);
                }
                None
            }
            Some(Notice::Moved(reason)) => Some(Ended::Moved(reason)),
            Some(Notice::Closed(reason)) => Some(Ended::Died(reason)),
            None => Some(Ended::Died("its connection ended".to_owned())),
        }
    }

    /// When there is something to do next.
    fn due(&self) -> Instant {
        let far = Instant::now() + self.link.shared.settings.health;
        let list = self.list_at.filter(|_| self.listing.is_none());
        let pulse = Some(self.pulse_at).filter(|_| self.pulse.is_none() && !self.distant);
        [list, pulse, self.idle_at(), self.owed_at].into_iter().flatten().fold(far, Instant::min)
    }

    /// When it has not been used for so long that it is stopped.
    fn idle_at(&self) -> Option<Instant> {
        let idle = self.link.shared.settings.idle.filter(|_| !self.distant)?;
        let state = self.link.state();
        if !state.is_lazy() || self.listing.is_some() || self.list_at.is_some_and(|_| self.first) {
            return None;
        }
        let used = if state.running > 0 { Instant::now() } else { state.used };
        Some(used + idle)
    }

    fn tick(&mut self) -> Option<Ended> {
        let now = Instant::now();
        if self.owed_at.take_if(|at| *at <= now).is_some() {
            for (method, params, whom) in std::mem::take(&mut self.owed) {
                self.link.told(&method, &serde_json::from_str(&params).unwrap_or_default(), whom.as_deref());
            }
        }
        if self.listing.is_none() && self.list_at.is_some_and(|at| at <= now) {
            self.list_at = None;
            self.waiting = std::mem::take(&mut self.next_waiting);
            let connection = self.connection.clone();
            // Many pages may take long, but not for ever.
            let longest = self.link.shared.settings.options.answer * 4;
            self.listing = Some(Box::pin(async move {
                timeout(longest, connection.tools()).await.unwrap_or(Err(CallError::Timeout(longest)))
            }));
        }
        if self.pulse.is_none() && self.pulse_at <= now && !self.distant {
            self.take_pulse(now);
        }
        if self.idle_at().is_some_and(|at| at <= now) {
            let idle = self.link.shared.settings.idle.unwrap_or_default();
            let reason = format!("it was not used for {} seconds; {}", idle.as_secs_f64(), super::tend::NOT_STARTED);
            if self.link.take_if_idle(now, idle, &reason).is_some() {
                return Some(Ended::Idle);
            }
        }
        None
    }

    fn take_pulse(&mut self, now: Instant) {
        let settings = &self.link.shared.settings;
        let (running, answered) = {
            let state = self.link.state();
            (state.running, state.answered)
        };
        // One that works on something may have no time to answer; its calls have deadlines of their own.
        let rested = answered + settings.health;
        if running > 0 || (!self.doubted && rested > now) {
            self.pulse_at = if running > 0 { now + settings.health } else { rested };
            return;
        }
        self.doubted = false;
        let (connection, longest, sign) = (self.connection.clone(), settings.pulse, self.sign);
        self.pulse = Some(Box::pin(async move {
            let asked = async {
                match sign {
                    Sign::Untried | Sign::Ping => connection.ping().await,
                    Sign::List => connection.request("tools/list", Value::Null).await.map(drop),
                }
            };
            timeout(longest, asked).await.unwrap_or(Err(CallError::Timeout(longest)))
        }));
    }

    fn pulsed(&mut self, answer: Result<(), CallError>) -> Option<Ended> {
        let settings = &self.link.shared.settings;
        let (now, running) = (Instant::now(), self.link.state().running);
        match answer {
            Err(CallError::NeedsAuth { challenge }) => return Some(Ended::SignIn(challenge)),
            // Why it is over comes as a notice.
            Err(error) if self.is_over(&error) => {}
            Err(CallError::Timeout(_)) if running == 0 && self.sign == Sign::Untried => {
                self.sign = Sign::List;
                self.pulse_at = now;
                self.doubted = true;
            }
            Err(error @ (CallError::Timeout(_) | CallError::Disconnected(_) | CallError::Nonsense(_)))
                if running == 0 =>
            {
                self.misses += 1;
                if self.misses >= settings.misses {
                    return Some(Ended::Died(format!("it gave no sign of life {} times: {error}", self.misses)));
                }
                self.pulse_at = now;
                self.doubted = true;
            }
            // Even a refusal is a sign of life.
            Ok(()) | Err(_) => {
                if self.sign == Sign::Untried {
                    self.sign = Sign::Ping;
                }
                self.misses = 0;
                self.pulse_at = now + jittered(settings.health);
            }
        }
        None
    }

    /// Whether an error means the end of the connection. On the web a single answer may break off, too.
    fn is_over(&self, error: &CallError) -> bool {
        matches!(error, CallError::Disconnected(_)) && self.connection.is_closed()
    }

    fn listed(&mut self, list: Result<ToolList, CallError>) -> Option<Ended> {
        let now = Instant::now();
        self.listed_at = Some(now);
        let told = list.as_ref().map(|_| ()).map_err(|error| self.link.redactor.error(error.clone()));
        let waiting = std::mem::take(&mut self.waiting);
        let ended = self.take_list(list, now);
        for waiting in waiting {
            // Who does not wait any more misses nothing.
            let _ = waiting.send(told.clone());
        }
        ended
    }

    fn take_list(&mut self, list: Result<ToolList, CallError>, now: Instant) -> Option<Ended> {
        let settings = &self.link.shared.settings;
        let (reason, again) = match list {
            Err(CallError::NeedsAuth { challenge }) => return Some(Ended::SignIn(challenge)),
            // Why it is over comes as a notice, better put.
            Err(error) if self.is_over(&error) => return None,
            Ok(list) => {
                // It is the server that says how long: neither a moment nor for ever.
                let again = list.ttl.map(|ttl| now + ttl.clamp(settings.relist, LONGEST_TTL));
                self.link.listed(list, self.first);
                ("it is connected".to_owned(), again)
            }
            // It may be called all the same, by those who know what it has.
            Err(error) => {
                (format!("it is connected, but did not tell its tools: {error}"), Some(now + settings.health))
            }
        };
        if let Some(again) = again {
            self.list_at = Some(self.list_at.map_or(again, |planned| planned.min(again)));
        }
        self.first = false;
        self.pace.works();
        self.link.becomes(Status::Connected, &reason, Hope::Soon, |state| state.attempts = 0);
        None
    }
}
