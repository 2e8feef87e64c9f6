//! How long things may take. A store that does not answer is told apart from one that takes its time because much is sent.

use std::time::Duration;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// So long an answer may take to begin when all is sent, and each piece of it to come.
    pub silence: Duration,
    /// What is sent comes through at so many bytes a second at least, on each connection. Nobody sees how far it has come, so this
    /// is what a request's time grows by with its length.
    pub rate: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { silence: Duration::from_secs(30), rate: 64 << 10 }
    }
}

impl Pace {
    /// So long a request of this length may take until its answer begins.
    pub(crate) fn limit(&self, length: u64) -> Duration {
        self.silence + Duration::from_secs(length) / self.rate.max(1)
    }

    /// So long it is tried again: longer than one try takes, or what was not answered in time would never be, and not much longer, for
    /// whoever waits must be told some day.
    pub(crate) fn patience(&self, length: u64) -> Duration {
        self.limit(length) + self.silence / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_no_silence() {
        let pace = Pace::default();
        assert_eq!(pace.limit(0), Duration::from_secs(30));
        assert_eq!(pace.limit(8 << 20), Duration::from_secs(30 + 128));
        assert!(pace.patience(8 << 20) > pace.limit(8 << 20));
    }
}
