//! How many calls run or wait. Whoever comes when there are too many is told to come again: a queue without an end is a memory
//! without one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kitbag_model::{ChatId, OrgId};

use crate::api::error::{ApiError, Code};

#[derive(Default)]
struct Counted {
    all: usize,
    of_chat: HashMap<(OrgId, ChatId), usize>,
}

/// The places that there are.
pub(super) struct Queue {
    most_of_chat: usize,
    most: usize,
    counted: Arc<Mutex<Counted>>,
}

/// One place, for as long as it lives.
pub(super) struct Ticket {
    chat: (OrgId, ChatId),
    counted: Arc<Mutex<Counted>>,
}

impl Queue {
    pub(super) fn new(most_of_chat: usize, most: usize) -> Self {
        Self { most_of_chat, most, counted: Arc::default() }
    }

    /// Takes a place, if there is one. What needs its chat's workspace waits for its turn there, so of that there may be fewer.
    pub(super) fn enter(&self, org: &OrgId, chat: ChatId, waits: bool) -> Result<Ticket, ApiError> {
        let chat = (org.clone(), chat);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let of_chat = counted.of_chat.get(&chat).copied().unwrap_or_default();
        if waits && of_chat >= self.most_of_chat {
            return Err(too_many(&format!("{of_chat} calls of this chat run or wait"), self.most_of_chat));
        }
        if counted.all >= self.most {
            return Err(too_many(&format!("{} calls run or wait", counted.all), self.most));
        }
        counted.all += 1;
        *counted.of_chat.entry(chat.clone()).or_default() += 1;
        Ok(Ticket { chat, counted: Arc::clone(&self.counted) })
    }
}

pub(super) fn too_many(what: &str, most: usize) -> ApiError {
    ApiError::new(Code::RateLimited, format!("{what}, and at most {most} may; try again when some are over"))
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.all -= 1;
        if let Some(of_chat) = counted.of_chat.get_mut(&self.chat) {
            *of_chat -= 1;
            if *of_chat == 0 {
                counted.of_chat.remove(&self.chat);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back() {
        let queue = Queue::new(2, 3);
        let (org, one, two) = (OrgId::local(), ChatId::generate(), ChatId::generate());
        let first = queue.enter(&org, one, true).unwrap();
        let _second = queue.enter(&org, one, true).unwrap();
        assert!(queue.enter(&org, one, true).is_err(), "two of a chat");
        let _third = queue.enter(&org, two, true).unwrap();
        assert!(queue.enter(&org, two, true).is_err(), "three in all");
        drop(first);
        let _again = queue.enter(&org, one, true).unwrap();
        drop((_second, _third, _again));
        assert!(queue.counted.lock().unwrap().of_chat.is_empty());
    }
}
