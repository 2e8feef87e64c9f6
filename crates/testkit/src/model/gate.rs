//! A place in an answer where it waits until the test lets go.

use std::sync::Arc;

use tokio::sync::watch;

use super::DEADLINE;

/// A gate. Copies are the same one.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Sides>);

#[derive(Debug)]
struct Sides {
    open: watch::Sender<bool>,
    reached: watch::Sender<bool>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed one.
    pub fn new() -> Self {
        Self(Arc::new(Sides { open: watch::Sender::new(false), reached: watch::Sender::new(false) }))
    }

    /// Lets go.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Waits until an answer has come so far.
    pub async fn reached(&self) {
        let mut reached = self.0.reached.subscribe();
        let reached = tokio::time::timeout(DEADLINE, reached.wait_for(|reached| *reached)).await;
        reached.expect("no answer came to the gate").expect("the gate has both its sides");
    }

    /// The answer is here, and waits.
    pub(super) async fn wait(&self) {
        self.0.reached.send_replace(true);
        self.0.open.subscribe().wait_for(|open| *open).await.expect("the gate has both its sides");
    }
}
