//! An answer that is waited for as a whole: for a title, a summary, a small decision.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::time::timeout;

use crate::error::{LlmError, Waited};
use crate::heard::{Heard, Stop, Usage};

/// What an answer may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AnswerLimits {
    /// For everything, with all attempts.
    pub time: Duration,
    /// The most letters.
    pub output_chars: usize,
}

/// A whole answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Its words.
    pub text: String,
    /// What it cost, as far as the provider says.
    pub usage: Usage,
    /// Why it ends where it does.
    pub stop: Stop,
}

/// Waits for the end. Whatever goes wrong drops the stream, and with it the connection.
pub(crate) async fn gather(
    mut stream: impl Stream<Item = Result<Heard, LlmError>> + Unpin,
    limits: AnswerLimits,
) -> Result<Answer, LlmError> {
    let all = async {
        let (mut text, mut letters, mut usage) = (String::new(), 0_usize, Usage::default());
        while let Some(heard) = stream.next().await {
            match heard? {
                Heard::Text(more) => {
                    letters = letters.saturating_add(more.chars().count());
                    if letters > limits.output_chars {
                        return Err(LlmError::TooLarge { limit: limits.output_chars, unit: "letters" });
                    }
                    text.push_str(&more);
                }
                Heard::Usage(said) => usage = said,
                Heard::Done(stop) => {
                    // Who reads to the end lets the connection be used again.
                    let _ = stream.next().await;
                    return Ok(Answer { text, usage, stop });
                }
                Heard::Thinking(_) | Heard::ToolCallBegan { .. } | Heard::Part(_) => {}
            }
        }
        Err(LlmError::CutOff("the stream has no end".to_owned()))
    };
    match timeout(limits.time, all).await {
        Ok(answer) => answer,
        Err(_) => Err(LlmError::TooSlow { waited: Waited::Total, limit: limits.time }),
    }
}
