//! How long to wait before trying again: longer each time, and never as long as everybody else.

use std::time::Duration;

/// How patient an executor is.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// After the first failure.
    pub first: Duration,
    /// After many.
    pub most: Duration,
    /// Up to so much is added by chance, so that the executors of a server that was restarted do not all come at once.
    pub jitter: Duration,
    /// How often the other side is asked whether it is there.
    pub ping: Duration,
    /// When nothing was heard for so long the connection is dead.
    pub silence: Duration,
    /// When something was not acknowledged for so long it is sent again.
    pub resend: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            most: Duration::from_secs(30),
            jitter: Duration::from_millis(250),
            ping: Duration::from_secs(15),
            silence: Duration::from_secs(45),
            resend: Duration::from_secs(30),
        }
    }
}

/// Failures in a row.
#[derive(Clone, Debug)]
pub struct Backoff {
    patience: Patience,
    failures: u32,
}

impl Backoff {
    /// None yet.
    pub fn new(patience: Patience) -> Self {
        Self { patience, failures: 0 }
    }

    /// It worked.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// It failed once more: how long to wait.
    pub fn failed(&mut self) -> Duration {
        let mut bytes = [0; 2];
        // Without chance the wait is a little less fair, and nothing else.
        let _ = getrandom::fill(&mut bytes);
        self.wait(f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX))
    }

    fn wait(&mut self, chance: f64) -> Duration {
        let factor = 2_u32.saturating_pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.patience.first.saturating_mul(factor).min(self.patience.most) + self.patience.jitter.mul_f64(chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_most_and_begins_anew() {
        let mut backoff = Backoff::new(Patience::default());
        let waits: Vec<u128> = (0..8).map(|_| backoff.wait(0.0).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff.wait(1.0).as_millis(), 30_250);
        assert!((0..100).all(|_| backoff.failed() <= Duration::from_millis(30_250)));
        backoff.reset();
        assert_eq!(backoff.wait(0.5).as_millis(), 625);
    }
}
