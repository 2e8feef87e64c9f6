//! The way to the server while a run is followed. The run goes on without us: a server that is away for a moment is waited for, and
//! found again where it listens then.

use std::time::{Duration, Instant};

use crate::cli::Place;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::Output;

/// So long a server may be away.
const AWAY: Duration = Duration::from_secs(60);

/// So often it is looked for.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Way<'a> {
    place: &'a Place,
    opened: &'a Client,
    again: Option<Client>,
    pub(super) output: &'a Output,
}

impl<'a> Way<'a> {
    pub(super) fn new(place: &'a Place, opened: &'a Client, output: &'a Output) -> Self {
        Self { place, opened, again: None, output }
    }

    /// Whom to ask now.
    pub(super) fn client(&self) -> &Client {
        self.again.as_ref().unwrap_or(self.opened)
    }

    /// Asks until there is an answer. What the server refuses stays refused; one that is not there is waited for.
    pub(super) async fn ask<T>(&mut self, question: impl AsyncFn(&Client) -> Result<T, Failure>) -> Result<T, Failure> {
        let (end, mut told) = (Instant::now() + AWAY, false);
        loop {
            let failure = match question(self.client()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if self.opened.is_inside() || !failure.may_pass() || Instant::now() > end {
                return Err(failure);
            }
            if !told {
                self.output.note("the server does not answer; trying again for a minute…");
                told = true;
            }
            tokio::time::sleep(PAUSE).await;
            self.lost()?;
        }
    }

    /// Looks for the server anew: it was gone, and may listen elsewhere now.
    pub(super) fn lost(&mut self) -> Result<(), Failure> {
        if !self.opened.is_inside() {
            self.again = Client::again(self.place)?.or(self.again.take());
        }
        Ok(())
    }
}
