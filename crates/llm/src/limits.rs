//! How long a provider is waited for, how much it may say and how often it is asked again.

use std::time::Duration;

/// What one question may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// To connect.
    pub connect: Duration,
    /// From the question to the first byte of the answer's stream. A machine of one's own may read a long conversation for minutes.
    pub first_byte: Duration,
    /// Between two pieces of the answer. Models that think without showing it are silent for long.
    pub idle: Duration,
    /// For everything, with all attempts and the pauses between them: a provider that sends nothing but signs of life ends, too.
    pub total: Duration,
    /// The most bytes of one event.
    pub event_bytes: usize,
    /// The most bytes of all of them.
    pub stream_bytes: usize,
    /// How often it is asked again.
    pub retry: Retry,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(300),
            total: Duration::from_secs(30 * 60),
            event_bytes: 4 * 1024 * 1024,
            stream_bytes: 64 * 1024 * 1024,
            retry: Retry::default(),
        }
    }
}

/// How often a provider that is not there now is asked again. Nothing is asked again once something of the answer was given out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retry {
    /// How often it is asked at the most, the first time counted.
    pub attempts: u32,
    /// The pause after the first attempt, about; each that follows is twice as long.
    pub first_pause: Duration,
    /// The longest pause. A provider that wants to be left alone for longer is not asked again: its answer is the error, with the time in it.
    pub longest_pause: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 4, first_pause: Duration::from_millis(500), longest_pause: Duration::from_secs(60) }
    }
}
