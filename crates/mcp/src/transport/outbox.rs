//! The order of what is posted: every message has a request of its own, so nothing by itself keeps one from overtaking another.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::Outgoing;
use crate::lasting::Lasting;

/// How many answers to a server's questions may be on their way. A server that asks more without taking answers gets none.
const ANSWERS: usize = 64;

pub(super) struct Outbox {
    /// False while the word that ends the greeting is on its way: nothing may overtake it.
    greeted: watch::Sender<bool>,
    answers: Arc<Semaphore>,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { greeted: watch::Sender::new(true), answers: Arc::new(Semaphore::new(ANSWERS)) }
    }

    /// Posts a message by `post`, when it is its turn. A request is posted by whoever waits for its answer.
    pub(super) fn send<F: Future<Output = ()> + Send + 'static>(
        &self,
        message: Outgoing,
        post: impl FnOnce(Outgoing) -> F + Send + 'static,
    ) -> Option<Lasting> {
        let is_answer = message.id.is_none() && message.method.is_empty();
        let room = match is_answer.then(|| self.answers.clone().try_acquire_owned()) {
            Some(Err(_)) => return None,
            room => room.and_then(Result::ok),
        };
        let (greeted, greeting) = (self.greeted.clone(), message.method == "notifications/initialized");
        if greeting {
            greeted.send_replace(false);
        }
        let is_asked = message.id.is_some();
        let posting = Lasting::new(async move {
            // Nearly always it is over.
            if !greeting && !*greeted.borrow() {
                let _ = greeted.subscribe().wait_for(|greeted| *greeted).await;
            }
            post(message).await;
            if greeting {
                greeted.send_replace(true);
            }
            drop(room);
        });
        // What is not answered is waited for by nobody.
        is_asked.then_some(posting)
    }
}
