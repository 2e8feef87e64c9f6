//! Waiting: what a person sees of it, and how they end it. It is used for everything that may take long.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use crate::events::{Event, Events};
use crate::failure::Failure;
use crate::output::text;
use crate::signals::Signals;
use crate::visible;

/// Somebody who waits.
pub(crate) struct Watch {
    events: Option<Events>,
    stop: Signals,
    line: Line,
    tick: Interval,
}

/// Why waiting was interrupted.
pub(super) enum Woken {
    Event(Event),
    /// There will be no more events.
    Deaf,
    /// Somebody wants it to end.
    Stop,
}

impl Watch {
    pub(crate) fn new(events: Events, what: &str) -> Result<Self, Failure> {
        let second = Duration::from_secs(1);
        let mut tick = interval_at(tokio::time::Instant::now() + second, second);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { events: Some(events), stop: Signals::listen()?, line: Line::new(what), tick })
    }

    /// Waits for something to be done. If somebody wants it to end, it is dropped.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Option<T>, Failure> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done.map(Some),
                woken = self.next() => match woken {
                    Woken::Stop => return Ok(None),
                    Woken::Event(_) | Woken::Deaf => {}
                },
            }
        }
    }

    /// The next that happens. Progress is shown on the way.
    pub(super) async fn next(&mut self) -> Woken {
        loop {
            let heard = async {
                match &mut self.events {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                heard = heard => {
                    let Some(event) = heard else {
                        self.events = None;
                        return Woken::Deaf;
                    };
                    self.line.hear(&event);
                    return Woken::Event(event);
                }
                () = self.stop.next() => return Woken::Stop,
                _ = self.tick.tick() => self.line.draw(),
            }
        }
    }

    /// When somebody wants it to end.
    pub(super) async fn stopped(&mut self) {
        self.stop.next().await;
    }

    /// Only what happens to this call is shown from now on.
    pub(super) fn about(&mut self, call: &Value) {
        self.line.call = text(call, "id").to_owned();
        self.line.begun = Instant::now();
    }

    /// Takes the progress away: something else is said.
    pub(crate) fn quiet(&mut self) {
        self.line.clear();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.line.clear();
    }
}

/// One line on the terminal that says how far it is. Where nobody looks there is none.
struct Line {
    what: String,
    call: String,
    begun: Instant,
    said: String,
    is_shown: bool,
    is_seen: bool,
}

impl Line {
    /// A line that breaks cannot be taken away again.
    const WIDTH: usize = 78;

    fn new(what: &str) -> Self {
        let is_seen = io::stderr().is_terminal();
        let (what, call, said) = (visible::line(what), String::new(), String::new());
        Self { what, call, begun: Instant::now(), said, is_shown: false, is_seen }
    }

    fn hear(&mut self, event: &Event) {
        match event.name.as_str() {
            "tool_call_progress" if text(&event.data, "callId") == self.call => {
                let percent = event.data["fraction"].as_f64().map(|fraction| format!("{:.0} %", fraction * 100.0));
                let message = event.data["message"].as_str().map(visible::line);
                self.said = [percent, message].into_iter().flatten().collect::<Vec<_>>().join("  ");
            }
            "toolset_progress" => self.said = visible::line(text(&event.data, "message")),
            _ => return,
        }
        self.draw();
    }

    fn draw(&mut self) {
        if !self.is_seen {
            return;
        }
        let line = format!("{}  {} s  {}", self.what, self.begun.elapsed().as_secs(), self.said);
        let line: String = line.trim_end().chars().take(Self::WIDTH).collect();
        let _ = write!(io::stderr(), "\r\x1b[K{line}").and_then(|()| io::stderr().flush());
        self.is_shown = true;
    }

    fn clear(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K").and_then(|()| io::stderr().flush());
            self.is_shown = false;
        }
    }
}
