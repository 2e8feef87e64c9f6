//! What is asked of a client on account of one call that may become a task: the questions that are open, and whether the call
//! is one yet. It knows neither the call nor the client.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kitbag_model::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot};

/// The questions of one call.
pub(in crate::gateway) struct Questions {
    state: Mutex<State>,
    news: Notify,
}

struct State {
    stage: Stage,
    open: BTreeMap<u64, Question>,
    last: u64,
    changed: Timestamp,
}

/// What becomes of the call's request.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Its client waits for the answer.
    Waiting,
    /// Its client was told that it is a task.
    Task,
    /// The client gets the server's questions as its answer.
    Relayed,
}

struct Question {
    method: String,
    params: Value,
    reply: oneshot::Sender<Value>,
}

impl Questions {
    pub(in crate::gateway) fn new() -> Self {
        let state = State { stage: Stage::Waiting, open: BTreeMap::new(), last: 0, changed: Timestamp::now() };
        Self { state: Mutex::new(state), news: Notify::new() }
    }

    /// Asks something. The answer may take long.
    pub(in crate::gateway) fn ask(&self, method: &str, params: Value) -> oneshot::Receiver<Value> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        state.last += 1;
        state.changed = Timestamp::now();
        let number = state.last;
        state.open.insert(number, Question { method: method.to_owned(), params, reply });
        drop(state);
        self.news.notify_one();
        answer
    }

    /// Waits until something is asked.
    pub(in crate::gateway) async fn asked(&self) {
        while self.state().open.is_empty() {
            self.news.notified().await;
        }
    }

    /// From now on it is a task. False if the client is about to be answered with questions.
    pub(in crate::gateway) fn become_task(&self) -> bool {
        let mut state = self.state();
        if state.stage == Stage::Waiting {
            state.stage = Stage::Task;
        }
        state.stage == Stage::Task
    }

    /// Whether questions that a server has as its answer go to the client as its answer. If so it is no task any more.
    pub(in crate::gateway) fn relays(&self) -> bool {
        let mut state = self.state();
        if state.stage == Stage::Waiting {
            state.stage = Stage::Relayed;
        }
        state.stage == Stage::Relayed
    }

    /// When something was asked or answered last.
    pub(super) fn changed(&self) -> Timestamp {
        self.state().changed
    }

    /// The open questions, by the names that answers have to have, of those that the client can answer.
    pub(super) fn open(&self, can: impl Fn(&str) -> bool) -> Map<String, Value> {
        let state = self.state();
        let open = state.open.iter().filter(|(_, question)| can(&question.method));
        open.map(|(number, one)| (name(*number), json!({ "method": one.method, "params": one.params }))).collect()
    }

    /// Takes answers. Those to nothing that is asked are passed over.
    pub(super) fn answer(&self, answers: &mut Map<String, Value>) {
        let mut state = self.state();
        let numbers: Vec<u64> = state.open.keys().copied().collect();
        for number in numbers {
            let Some(answer) = answers.remove(&name(number)) else { continue };
            if let Some(question) = state.open.remove(&number) {
                state.changed = Timestamp::now();
                let _ = question.reply.send(answer);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Who asked may have lost interest.
        state.open.retain(|_, question| !question.reply.is_closed());
        state
    }
}

fn name(number: u64) -> String {
    format!("question-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn questions_are_answered_one_by_one() {
        let questions = Questions::new();
        let mut one = questions.ask("elicitation/create", json!({ "message": "one?" }));
        let two = questions.ask("sampling/createMessage", json!({}));
        questions.asked().await;
        assert_eq!(questions.open(|_| true).len(), 2);
        assert_eq!(questions.open(|method| method.starts_with("eli")).keys().collect::<Vec<_>>(), ["question-1"]);
        let mut answers = Map::from_iter([("question-2".to_owned(), json!(2)), ("unknown".to_owned(), json!(3))]);
        questions.answer(&mut answers);
        assert_eq!(two.await.unwrap(), 2);
        assert!(one.try_recv().is_err());
        assert_eq!(questions.open(|_| true).keys().collect::<Vec<_>>(), ["question-1"]);
        drop(one);
        assert!(questions.open(|_| true).is_empty(), "nobody wants that answer any more");
    }

    #[test]
    fn a_request_is_answered_in_one_way() {
        let task = Questions::new();
        assert!(task.become_task() && !task.relays() && task.become_task());
        let relayed = Questions::new();
        assert!(relayed.relays() && !relayed.become_task() && relayed.relays());
    }
}
