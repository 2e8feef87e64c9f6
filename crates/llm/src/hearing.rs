//! One answer as it comes: pieces become events, events become what is heard. As long as nothing was given out, a provider that fails is
//! asked again; afterwards never, for who listens would hear things twice.

use std::collections::VecDeque;
use std::time::Duration;

use kitbag_guard::dial::{Answer, Events};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::error::{LlmError, Waited};
use crate::heard::Heard;
use crate::question::{Question, lost};
use crate::retry::luck;
use crate::wire::Reader;

/// How long the end of a body is waited for after the answer's, so that the connection can serve again.
const LINGER: Duration = Duration::from_millis(100);

pub(crate) struct Hearing {
    question: Question,
    /// How many attempts there were, and when time is up for all of them.
    attempts: u32,
    deadline: Option<Instant>,
    listening: Option<Listening>,
    /// What was heard and not given out yet.
    ready: VecDeque<Heard>,
    /// Something was given out.
    given: bool,
    /// What went wrong; who listens hears first what came before it.
    failed: Option<LlmError>,
    over: bool,
}

/// An answer under way.
struct Listening {
    answer: Answer,
    events: Events,
    reader: Reader,
    bytes: usize,
}

impl Hearing {
    pub(crate) fn new(question: Question) -> Self {
        Self {
            question,
            attempts: 0,
            deadline: None,
            listening: None,
            ready: VecDeque::new(),
            given: false,
            failed: None,
            over: false,
        }
    }

    /// The next of it; none after the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Heard, LlmError>> {
        let total = self.question.models.limits.total;
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + total);
        loop {
            if let Some(heard) = self.ready.pop_front() {
                self.given = true;
                return Some(Ok(heard));
            }
            if let Some(error) = self.failed.take() {
                // Whatever comes now belongs to nobody: the connection goes.
                self.listening = None;
                let Some(pause) = self.pause(&error, deadline) else {
                    self.over = true;
                    return Some(Err(error));
                };
                tracing::debug!(%error, attempt = self.attempts, ?pause, "a model's provider is asked again");
                sleep(pause).await;
            }
            if self.over {
                self.linger().await;
                return None;
            }
            let advanced = timeout_at(deadline, self.advance()).await;
            let late = || Err(LlmError::TooSlow { waited: Waited::Total, limit: total });
            self.failed = advanced.unwrap_or_else(|_| late()).err();
        }
    }

    /// How long to wait before the provider is asked again; none: it is not.
    fn pause(&self, error: &LlmError, deadline: Instant) -> Option<Duration> {
        if self.given || !error.is_passing() {
            return None;
        }
        let pause = self.question.models.limits.retry.pause(self.attempts, error.retry_after(), luck())?;
        // Who would find no time left had better hear why.
        (Instant::now() + pause < deadline).then_some(pause)
    }

    /// Takes the next piece in, or asks first.
    async fn advance(&mut self) -> Result<(), LlmError> {
        let limits = self.question.models.limits;
        let listening = match &mut self.listening {
            Some(listening) => listening,
            none => {
                self.attempts += 1;
                let answer = self.question.send_for_events().await?;
                let events = Events::new(limits.event_bytes);
                let reader = Reader::new(self.question.provider.wire);
                none.insert(Listening { answer, events, reader, bytes: 0 })
            }
        };
        let (waited, limit) = match listening.bytes {
            0 => (Waited::FirstByte, limits.first_byte),
            _ => (Waited::Idle, limits.idle),
        };
        let piece = match timeout(limit, listening.answer.chunk()).await {
            Ok(Ok(Some(piece))) => piece,
            Ok(ended) => {
                let reason = match ended {
                    Err(error) => lost(&self.question.provider, &error.reason),
                    Ok(_) => "the connection ended in good order, the answer did not".to_owned(),
                };
                self.over = listening.reader.end(&mut self.ready);
                return if self.over { Ok(()) } else { Err(LlmError::CutOff(reason)) };
            }
            Err(_) => return Err(LlmError::TooSlow { waited, limit }),
        };
        listening.bytes = listening.bytes.saturating_add(piece.len());
        if listening.bytes > limits.stream_bytes {
            return Err(LlmError::TooLarge { limit: limits.stream_bytes, unit: "bytes" });
        }
        let too_long = |_| LlmError::TooLarge { limit: limits.event_bytes, unit: "bytes at once" };
        for event in listening.events.push(&piece).map_err(too_long)? {
            let taken = listening.reader.take(&event, &mut self.ready);
            self.over = taken.map_err(|broken| broken.into_error(&self.question.provider))?;
            if self.over {
                break;
            }
        }
        Ok(())
    }

    /// Reads what is left of the body.
    async fn linger(&mut self) {
        if let Some(mut listening) = self.listening.take() {
            let _ = timeout(LINGER, async { while let Ok(Some(_)) = listening.answer.chunk().await {} }).await;
        }
    }
}
