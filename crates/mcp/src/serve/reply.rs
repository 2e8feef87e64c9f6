//! What goes back over HTTP: nothing, one message, or a stream of them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::to_raw_value;
use tokio::time::timeout;

use super::Fault;
use super::exchange::{Event, Exchange, Outcome};
use super::line::Heard;
use super::message::{Id, response};
use super::session::Session;
use super::suspended::Suspended;
use crate::lasting::Lasting;

/// How often a stream with nothing to say shows that it lives.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// When a client that lost its stream should come back, in milliseconds.
const RETRY: u32 = 1000;

/// The answer to a request over HTTP.
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The session that was opened.
    pub session: Option<String>,
    /// What goes with it.
    pub body: Body,
}

/// What goes with an answer.
pub enum Body {
    /// Nothing.
    Empty,
    /// One message.
    Json(String),
    /// A stream of events.
    Events(Events),
    /// The stream of a client of the older way.
    Line(Heard),
}

impl Reply {
    pub(super) fn empty(status: u16) -> Self {
        Self { status, session: None, body: Body::Empty }
    }

    pub(super) fn json(status: u16, text: String) -> Self {
        Self { status, session: None, body: Body::Json(text) }
    }

    /// An error of the protocol, with the status that it calls for.
    pub fn fault(id: Option<&Id>, fault: Fault) -> Self {
        let status = fault.status.unwrap_or(200);
        Self::json(status, response(id, &Err(fault)))
    }

    pub(super) fn events(events: Events) -> Self {
        Self { status: 200, session: None, body: Body::Events(events) }
    }

    pub(super) fn heard(heard: Heard) -> Self {
        Self { status: 200, session: None, body: Body::Line(heard) }
    }
}

/// What becomes of an exchange whose reader goes.
pub(super) enum Ties {
    /// It goes on: the client may come back for the rest.
    Session(Arc<Session>),
    /// It is stopped, or put aside when its client must answer first.
    Stateless { suspended: Suspended, owner: String, digest: Box<dyn Fn() -> [u8; 32] + Send + Sync> },
}

/// A reader of an exchange.
pub struct Events {
    exchange: Arc<Exchange>,
    place: u64,
    /// Which of those who read it this is, where there can be many.
    reader: Option<u32>,
    ties: Ties,
    /// Whether the stream begins with the number from which it can be taken up.
    primed: bool,
    numbered: bool,
    over: bool,
    /// What makes the answer. It is done here as long as this is all that is waited for.
    work: Option<Lasting>,
}

impl Events {
    pub(super) fn new(exchange: Arc<Exchange>, place: u64, ties: Ties) -> Self {
        let numbered = matches!(ties, Ties::Session(_));
        Self { exchange, place, reader: None, ties, primed: true, numbered, over: false, work: None }
    }

    /// The same for one of many who may read.
    pub(super) fn reading(mut self, reader: Option<u32>) -> Self {
        self.reader = reader;
        self
    }

    /// The same, with the work that makes the answer.
    pub(super) fn working(mut self, work: Option<Lasting>) -> Self {
        self.work = work;
        self
    }

    /// From now on somebody else does the work: who reads may be slow, and the work must not be.
    fn hand_over(&mut self) {
        self.work = None;
    }

    /// Begins with the number from which the stream can be taken up.
    pub(super) fn prime(&mut self) {
        self.primed = false;
    }

    /// Whether what was said so far is only the answer: then it can go back as one message.
    pub(super) async fn first(&mut self, patience: Option<Duration>) -> First {
        let next = self.next_event();
        let event = match patience {
            Some(patience) => match timeout(patience, next).await {
                Ok(event) => event,
                Err(_) => return First::Stream,
            },
            None => next.await,
        };
        match event {
            Event::Answer(_, outcome) => {
                self.over = true;
                First::Answer(outcome)
            }
            Event::Asked if matches!(self.ties, Ties::Stateless { .. }) => First::Answer(Arc::new(self.ask())),
            Event::Said(..) | Event::Asked => First::Stream,
            Event::End => {
                self.over = true;
                First::Nothing
            }
        }
    }

    /// Goes on until the answer, whatever is said before: for a client that does not read streams.
    pub(super) async fn answer(&mut self) -> Option<Arc<Outcome>> {
        loop {
            match self.first(None).await {
                First::Answer(outcome) => return Some(outcome),
                First::Nothing => return None,
                First::Stream => self.place += 1,
            }
        }
    }

    pub(super) fn response(&self, outcome: &Outcome) -> String {
        self.exchange.response(outcome)
    }

    /// The next piece of the stream.
    pub async fn next(&mut self) -> Option<String> {
        self.hand_over();
        if !self.primed {
            self.primed = true;
            return Some(format!("id: {}-{}\nretry: {RETRY}\ndata:\n\n", self.exchange.number, self.place));
        }
        if self.over {
            return None;
        }
        let Ok(event) = timeout(KEEP_ALIVE, self.next_event()).await else {
            if let Ties::Session(session) = &self.ties {
                session.touch();
            }
            return Some(": \n\n".to_owned());
        };
        let (place, text) = match event {
            Event::Said(place, text) => (place, text.to_string()),
            Event::Answer(place, outcome) => {
                self.over = true;
                (place, self.exchange.response(&outcome))
            }
            Event::Asked => {
                let outcome = self.ask();
                (self.place, self.exchange.response(&outcome))
            }
            Event::End => {
                self.over = true;
                return None;
            }
        };
        self.place = place + 1;
        let number = match self.numbered {
            true => format!("id: {}-{}\n", self.exchange.number, self.place),
            false => String::new(),
        };
        Some(format!("event: message\n{number}data: {text}\n\n"))
    }

    /// What comes next. Questions to a client without a session come together.
    async fn next_event(&mut self) -> Event {
        let event = self.exchange.next(self.place, self.reader, &mut self.work).await;
        if !matches!((&event, &self.ties), (Event::Asked, Ties::Stateless { .. })) {
            return event;
        }
        self.hand_over();
        self.exchange.gathered().await;
        self.exchange.next(self.place, self.reader, &mut None).await
    }

    /// Puts the exchange aside until its client has answered.
    fn ask(&mut self) -> Outcome {
        let Ties::Stateless { suspended, owner, digest } = &self.ties else {
            return Err(Fault::new(super::code::INTERNAL, "a session is asked on its stream"));
        };
        let parked = suspended.park(&self.exchange, self.place, owner, digest());
        self.over = true;
        match parked {
            Ok(result) => to_raw_value(&result)
                .map_err(|error| Fault::new(super::code::INTERNAL, error.to_string()).with_status(500)),
            Err(fault) => {
                self.exchange.stop();
                Err(fault)
            }
        }
    }
}

/// What a reader found at first.
pub(super) enum First {
    Answer(Arc<Outcome>),
    Stream,
    Nothing,
}

impl Drop for Events {
    fn drop(&mut self) {
        // Without a session, to hang up is to cancel.
        if !self.over && matches!(self.ties, Ties::Stateless { .. }) {
            self.exchange.stop();
        }
    }
}
