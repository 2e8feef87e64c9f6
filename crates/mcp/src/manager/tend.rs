//! The life of one link: asleep, connecting, serving, waiting for the next try, given up. One task per link; nothing here is
//! waited for by anybody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::Status;
use super::company::Desk;
use super::leases::{Place, Sought};
use super::link::{Ask, Hope, Link};
use super::pace::{Next, Pace};
use super::serve::{Ended, serve};
use crate::connection::{ConnectError, Connection, Hold, Notice};
use crate::endpoint::Endpoint;

pub(super) const NOT_STARTED: &str = "it is started when it is first used";
pub(super) const CONNECTING: &str = "it is being connected";
const NOT_NEEDED: &str = "it is not needed any more";

/// How long a server that is being replaced is waited for, and one that is being closed.
const LONGEST_CLOSE: Duration = Duration::from_secs(10);

/// A way to another node that lasted less is not looked for again at once.
const SHORT: Duration = Duration::from_secs(1);

/// What comes next in a link's life.
enum Step {
    Sleep,
    Connect,
    Serve(Connection, UnboundedReceiver<Notice>),
    /// Another try then; earlier if somebody needs it, but not before the second time.
    Pause(Instant, Instant),
    /// Until somebody decides something.
    Rest,
    End,
}

/// Looks after a link until nobody needs it.
pub(super) async fn tend(
    link: Arc<Link>,
    mut asks: UnboundedReceiver<Ask>,
    ended: watch::Sender<bool>,
    after: Option<watch::Receiver<bool>>,
) {
    if let Some(mut before) = after {
        // Two processes of one server might fight over a file or a port.
        let _ = timeout(LONGEST_CLOSE, before.wait_for(|done| *done)).await;
    }
    let pace = Pace::new(link.shared.settings.backoff.clone(), !link.known.is_empty());
    let wanted = Arc::new(AtomicBool::new(true));
    let mut life = Life { pace, link: link.clone(), closing: JoinSet::new(), wanted };
    let asleep = matches!(link.state().hope, Hope::Asleep);
    let mut step = if asleep { Step::Sleep } else { Step::Connect };
    loop {
        step = match step {
            Step::Sleep | Step::Rest => life.wait(&mut asks, matches!(step, Step::Sleep)).await,
            Step::Pause(until, soonest) => life.pause(&mut asks, until, soonest).await,
            Step::Connect => life.connect(&mut asks).await,
            Step::Serve(connection, notices) => life.serve(&mut asks, connection, notices).await,
            Step::End => break,
        };
    }
    life.give_back().await;
    link.becomes(Status::Disconnected, NOT_NEEDED, Hope::None, |state| state.stopping = true);
    ended.send_replace(true);
}

/// Ends a server and all that it started. It has its own limits; this one is for the case that they do not hold.
async fn close(connection: Connection) {
    let _ = timeout(LONGEST_CLOSE, connection.close()).await;
}

/// Waits until all is gone of a connection that nobody waited for: whoever works for it can tell notices.
async fn abandon(mut notices: UnboundedReceiver<Notice>) {
    let _ = timeout(LONGEST_CLOSE, async { while notices.recv().await.is_some() {} }).await;
}

struct Life {
    link: Arc<Link>,
    pace: Pace,
    /// What is left of connections that broke.
    closing: JoinSet<()>,
    /// Whether it is to be started here if no other node has it.
    wanted: Arc<AtomicBool>,
}

impl Life {
    /// Asleep or given up: until somebody asks.
    async fn wait(&mut self, asks: &mut UnboundedReceiver<Ask>, wakes: bool) -> Step {
        loop {
            match asks.recv().await {
                Some(Ask::Wake | Ask::Refresh(_)) if wakes => {
                    self.wanted.store(true, Ordering::SeqCst);
                    return Step::Connect;
                }
                Some(Ask::Reconnect) => return self.anew(),
                Some(Ask::Release(_, told)) => {
                    self.give_back().await;
                    let _ = told.send(());
                }
                Some(Ask::Wake | Ask::Refresh(_) | Ask::Check) => {}
                Some(Ask::Stop) | None => return Step::End,
            }
        }
    }

    async fn pause(&mut self, asks: &mut UnboundedReceiver<Ask>, mut until: Instant, soonest: Instant) -> Step {
        loop {
            tokio::select! {
                () = sleep_until(until) => return Step::Connect,
                ask = asks.recv() => match ask {
                    Some(Ask::Wake | Ask::Refresh(_)) => until = until.min(soonest),
                    Some(Ask::Reconnect) => return self.anew(),
                    Some(Ask::Release(_, told)) => return self.released(told).await,
                    Some(Ask::Check) => {}
                    Some(Ask::Stop) | None => return Step::End,
                }
            }
        }
    }

    /// Nothing of it runs here any more: others may have it.
    async fn give_back(&mut self) {
        while self.closing.join_next().await.is_some() {}
        let (lease, sought) = {
            let mut state = self.link.state();
            (state.lease.take(), state.sought.take())
        };
        if let Some(lease) = lease {
            lease.give_back().await;
        }
        if let (Some(key), Some(leases)) = (sought, &self.link.shared.settings.leases) {
            leases.give_up(&self.link.org, &key).await;
        }
    }

    /// The same because another node is to have it. Who needs it here is led there.
    async fn released(&mut self, told: oneshot::Sender<()>) -> Step {
        let lazy = self.link.state().is_lazy();
        let (status, reason, hope) = match lazy {
            true => (Status::Disconnected, NOT_STARTED, Hope::Asleep),
            false => (Status::Connecting, CONNECTING, Hope::Soon),
        };
        self.link.becomes(status, reason, hope, |_| ());
        self.give_back().await;
        // Who wanted that may not wait any more.
        let _ = told.send(());
        if lazy { Step::Sleep } else { Step::Connect }
    }

    /// As if for the first time: what was agreed on before does not count either.
    fn anew(&mut self) -> Step {
        self.pace.reset();
        self.link.state().revision = None;
        self.wanted.store(true, Ordering::SeqCst);
        Step::Connect
    }

    async fn connect(&mut self, asks: &mut UnboundedReceiver<Ask>) -> Step {
        let attempts = self.pace.failures();
        // Why it is connected again is worth more than that it is.
        let reason = match &*self.link.state() {
            state if state.status == Status::Connecting => state.reason.clone(),
            _ => CONNECTING.to_owned(),
        };
        self.link.becomes(Status::Connecting, &reason, Hope::Soon, |state| {
            state.challenge = None;
            state.attempts = attempts;
        });
        let (told, mut notices) = mpsc::unbounded_channel();
        // Boxed: it is large, and it is needed for a moment only.
        let (link, wanted) = (self.link.clone(), self.wanted.clone());
        let mut opening = Box::pin(open(&link, &wanted, told));
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                ask = asks.recv() => {
                    let (step, released) = match ask {
                        // Whoever asks for a new connection does not want to wait for one that hangs.
                        Some(Ask::Reconnect) => (self.anew(), None),
                        Some(Ask::Stop) | None => (Step::End, None),
                        Some(Ask::Release(_, told)) => (Step::Sleep, Some(told)),
                        Some(Ask::Wake | Ask::Refresh(_)) => {
                            wanted.store(true, Ordering::SeqCst);
                            continue;
                        }
                        Some(Ask::Check) => continue,
                    };
                    drop(opening);
                    abandon(notices).await;
                    return match released {
                        Some(told) => self.released(told).await,
                        None => step,
                    };
                }
            }
        };
        drop(opening);
        match opened {
            Ok(Some(connection)) => Step::Serve(connection, notices),
            Ok(None) => {
                self.link.becomes(Status::Disconnected, NOT_STARTED, Hope::Asleep, |state| state.distant = false);
                Step::Sleep
            }
            Err(ConnectError::NeedsAuth { challenge }) => self.sign_in(challenge),
            Err(ConnectError::Failed(reason)) if self.link.state().distant => self.unled(&reason),
            Err(ConnectError::Failed(reason)) => {
                self.keep_last_words(&mut notices);
                // It may be another program by now, of which nothing is known.
                self.link.state().revision = None;
                let next = self.pace.failed();
                self.retry(next, &reason)
            }
        }
    }

    async fn serve(
        &mut self,
        asks: &mut UnboundedReceiver<Ask>,
        connection: Connection,
        mut notices: UnboundedReceiver<Notice>,
    ) -> Step {
        let began = Instant::now();
        let ended = serve(&self.link, &mut self.pace, asks, connection.clone(), &mut notices).await;
        match ended {
            // Whoever has it from now on is looked for, and nobody starts it who does not need it.
            Ended::Died(reason) | Ended::Moved(reason) if connection.is_distant() => {
                self.link.take();
                self.wanted.store(!self.link.state().is_lazy(), Ordering::SeqCst);
                let reason = format!("it is being connected again: {reason}");
                if began.elapsed() >= SHORT {
                    self.link.becomes(Status::Connecting, &reason, Hope::Soon, |_| ());
                    return Step::Connect;
                }
                let until = Instant::now() + self.link.shared.settings.backoff.first;
                self.link.becomes(Status::Connecting, &reason, Hope::At(until), |_| ());
                Step::Pause(until, until)
            }
            Ended::Release(patience, told) => {
                self.link.take();
                self.link.becomes(Status::Connecting, "it is about to be another node's", Hope::Soon, |_| ());
                let _ = timeout(patience, self.link.unused()).await;
                close(connection).await;
                self.released(told).await
            }
            Ended::Died(reason) | Ended::Moved(reason) => {
                self.link.take();
                // What is left of it must not delay the next one. What it said last comes to light when it is gone.
                let link = self.link.clone();
                while self.closing.try_join_next().is_some() {}
                self.closing.spawn(async move {
                    close(connection.clone()).await;
                    link.keep_tail(&connection);
                });
                let next = self.pace.ended(Instant::now(), began.elapsed());
                self.retry(next, &reason)
            }
            Ended::SignIn(challenge) => {
                self.link.take();
                let step = self.sign_in(challenge);
                close(connection).await;
                step
            }
            Ended::Idle => {
                close(connection).await;
                self.give_back().await;
                Step::Sleep
            }
            Ended::Again => {
                self.link.take();
                self.link.becomes(Status::Connecting, CONNECTING, Hope::Soon, |_| ());
                close(connection).await;
                self.anew()
            }
            Ended::Stop => {
                self.link.take();
                close(connection).await;
                Step::End
            }
        }
    }

    /// Another node has it and cannot be asked, or says that it cannot be used. It is that node that tries again; here, whoever needs it.
    fn unled(&mut self, reason: &str) -> Step {
        if self.link.state().is_lazy() {
            self.link.becomes(Status::Error, reason, Hope::Asleep, |_| ());
            return Step::Sleep;
        }
        let settings = &self.link.shared.settings.backoff;
        let (soonest, until) = (Instant::now() + settings.first, Instant::now() + settings.longest);
        self.link.becomes(Status::Error, reason, Hope::At(soonest), |_| ());
        Step::Pause(until, soonest)
    }

    /// A process that did not make it left what it said in the notices.
    fn keep_last_words(&self, notices: &mut UnboundedReceiver<Notice>) {
        let mut lines = Vec::new();
        while let Ok(notice) = notices.try_recv() {
            if let Notice::Log(line) = notice {
                lines.push(self.link.redactor.text(&line));
            }
        }
        self.link.state().stderr = lines;
    }

    fn sign_in(&mut self, challenge: Option<String>) -> Step {
        let challenge = challenge.map(|challenge| self.link.redactor.exact(&challenge));
        let reason = "the server wants somebody to sign in";
        self.link.becomes(Status::RequiresAuth, reason, Hope::None, |state| state.challenge = challenge);
        Step::Rest
    }

    fn retry(&mut self, next: Next, reason: &str) -> Step {
        let attempts = self.pace.failures();
        let count = |state: &mut super::link::State| state.attempts = attempts;
        let now = Instant::now();
        let lazy = self.link.state().is_lazy();
        let settings = &self.link.shared.settings.backoff;
        let looped = match next {
            Next::Looping(_, ends) => {
                let window = settings.window.as_secs_f64();
                Some(format!("it ended {ends} times within {window} seconds; the last time: {reason}"))
            }
            Next::After(_) | Next::GiveUp => None,
        };
        let reason = looped.as_deref().unwrap_or(reason);
        match next {
            // Nobody needs it before it is used, and then it is tried again.
            Next::After(_) | Next::Looping(..) if lazy && attempts >= settings.tries => {
                self.link.becomes(Status::Error, reason, Hope::Asleep, count);
                Step::Sleep
            }
            Next::After(delay) if delay.is_zero() => {
                let reason = format!("it is being connected again: {reason}");
                self.link.becomes(Status::Connecting, &reason, Hope::Soon, count);
                Step::Connect
            }
            Next::After(delay) => {
                let until = now + delay;
                let soonest = until.min(now + settings.first);
                self.link.becomes(Status::Error, reason, Hope::At(soonest), count);
                Step::Pause(until, soonest)
            }
            Next::Looping(delay, _) => {
                let until = now + delay;
                self.link.becomes(Status::Error, reason, Hope::At(until), count);
                Step::Pause(until, until)
            }
            Next::GiveUp => {
                let reason = format!("{reason} (tried {attempts} times)");
                self.link.becomes(Status::Error, &reason, Hope::None, count);
                Step::Rest
            }
        }
    }
}

/// Opens a connection. Processes that are starting need places, of which there are few; one that hangs gives its place back
/// after a while.
async fn open(
    link: &Link,
    wanted: &AtomicBool,
    told: mpsc::UnboundedSender<Notice>,
) -> Result<Option<Connection>, ConnectError> {
    let settings = &link.shared.settings;
    let endpoint = &link.identity.endpoint;
    let mut hold = None;
    if let (Endpoint::Stdio { .. }, Some(leases)) = (endpoint, &settings.leases) {
        let Some((key, mark)) = link.known_as() else { return Ok(None) };
        let sought = Sought { org: &link.org, key: &key, mark: &mark };
        link.state().sought = Some(key.clone());
        let place = leases.find(sought, wanted).await;
        let before = {
            let mut state = link.state();
            // What is not found is somewhere else, too.
            state.distant = matches!(place, Ok(Place::There(_)) | Err(_));
            match &place {
                Ok(Place::Here(lease)) => {
                    state.sought = None;
                    // It is the same with another number.
                    state.lease = Some(lease.clone());
                    None
                }
                Ok(_) => {
                    state.sought = None;
                    state.lease.take()
                }
                // What was held is still held, as far as anybody knows.
                Err(_) => None,
            }
        };
        if let Some(before) = before {
            before.give_back().await;
        }
        match place.map_err(ConnectError::Failed)? {
            Place::Own => {}
            Place::Here(lease) => hold = Some(lease as Arc<dyn Hold>),
            Place::There(wire) => {
                let options = settings.options_of(&link.org);
                return Connection::open_distant(wire, &options, told, Arc::new(Desk)).await.map(Some);
            }
            Place::Nowhere => return Ok(None),
        }
    }
    let place = match endpoint {
        Endpoint::Stdio { .. } => link.shared.starts.clone().acquire_owned().await.ok(),
        Endpoint::Remote { .. } => None,
    };
    let last = link.state().revision.clone();
    let (tokens, answers) = (link.tokens.clone(), Arc::new(Desk));
    let options = settings.options_of(&link.org);
    let opening = async {
        match hold {
            Some(hold) => Connection::open_held(endpoint, &options, told, answers, last.as_deref(), hold).await,
            None => Connection::open_again(endpoint, &options, tokens, told, answers, last.as_deref()).await,
        }
    };
    let mut opening = std::pin::pin!(opening);
    if place.is_some()
        && let Ok(opened) = timeout(settings.place, &mut opening).await
    {
        return opened.map(Some);
    }
    drop(place);
    opening.await.map(Some)
}
