//! How many calls run or wait. Whoever comes when there are too many is told to come again: a queue without an end is a memory
//! without one. An organisation that shares the server may have as many places as are still free, so that one that takes all it can
//! get leaves room for whoever comes next; two of them leave a third, and so on.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use kitbag_model::{ChatId, OrgId};

use crate::api::error::{ApiError, Code};
use crate::ops::numbers;
use crate::rules::Quota;

#[derive(Default)]
struct Counted {
    all: usize,
    of_org: HashMap<OrgId, usize>,
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

    /// How many run or wait, and how many may.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.counted.lock().unwrap_or_else(PoisonError::into_inner).all, self.most)
    }

    /// Takes a place, if there is one. What needs its chat's workspace waits for its turn there, so of that there may be fewer.
    pub(super) fn enter(
        &self,
        org: &OrgId,
        chat: ChatId,
        waits: bool,
        quota: Option<&Quota>,
    ) -> Result<Ticket, ApiError> {
        let chat = (org.clone(), chat);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let of_org = counted.of_org.get(org).copied().unwrap_or_default();
        if let Some(quota) = quota.filter(|quota| of_org as u64 + quota.elsewhere >= quota.most) {
            let running = of_org as u64 + quota.elsewhere;
            numbers::refused("quota");
            let message = quota.told(&format!("{running} calls of this organisation run or wait"));
            return Err(ApiError::new(Code::QuotaExceeded, message).retry_after(1));
        }
        let of_chat = counted.of_chat.get(&chat).copied().unwrap_or_default();
        if waits && of_chat >= self.most_of_chat {
            return Err(too_many(&format!("{of_chat} calls of this chat run or wait"), self.most_of_chat));
        }
        if counted.all >= self.most {
            return Err(too_many(&format!("{} calls run or wait", counted.all), self.most));
        }
        // The operator's own organisation shares with nobody.
        let share = self.most - counted.all;
        if *org != OrgId::local() && of_org >= share {
            return Err(too_many(&format!("{of_org} calls of this organisation run or wait"), share));
        }
        counted.all += 1;
        *counted.of_org.entry(org.clone()).or_default() += 1;
        *counted.of_chat.entry(chat.clone()).or_default() += 1;
        Ok(Ticket { chat, counted: Arc::clone(&self.counted) })
    }
}

pub(super) fn too_many(what: &str, most: usize) -> ApiError {
    numbers::refused("busy");
    ApiError::new(Code::RateLimited, format!("{what}, and at most {most} may; try again when some are over"))
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.all -= 1;
        one_less(&mut counted.of_chat, &self.chat);
        one_less(&mut counted.of_org, &self.chat.0);
    }
}

fn one_less<K: Eq + Hash>(counted: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counted.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counted.remove(key);
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
        let first = queue.enter(&org, one, true, None).unwrap();
        let _second = queue.enter(&org, one, true, None).unwrap();
        assert!(queue.enter(&org, one, true, None).is_err(), "two of a chat");
        let _third = queue.enter(&org, two, true, None).unwrap();
        assert!(queue.enter(&org, two, true, None).is_err(), "three in all");
        drop(first);
        let _again = queue.enter(&org, one, true, None).unwrap();
        drop((_second, _third, _again));
        let counted = queue.counted.lock().unwrap();
        assert!(counted.of_chat.is_empty() && counted.of_org.is_empty() && counted.all == 0);
    }

    #[test]
    fn whoever_takes_all_leaves_room_for_others() {
        let queue = Queue::new(100, 12);
        let take_all = |org: &str| {
            let org: OrgId = org.parse().unwrap();
            std::iter::from_fn(|| queue.enter(&org, ChatId::generate(), true, None).ok()).collect::<Vec<_>>()
        };
        let first = take_all("acme");
        assert_eq!(first.len(), 6);
        let second = take_all("bolt");
        assert_eq!(second.len(), 3);
        let third = take_all("cord");
        assert_eq!(third.len(), 2);
        assert_eq!(take_all("acme").len(), 0, "it has more than its share by now");
        assert_eq!(take_all("local").len(), 1, "the operator's own takes what is left");
        drop((first, second, third));
        assert_eq!(take_all("local").len(), 12);
    }
}
