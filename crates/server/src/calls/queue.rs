//! How many calls run or wait. Whoever comes when there are too many is told to come again. Of the places of all chats organisations have
//! their shares ([`crate::bounded`]); beside that each chat has a bound, and an organisation may have a quota.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kitbag_model::{ChatId, OrgId};

use crate::api::error::{ApiError, Code};
use crate::bounded::{Bounded, Full, Place, one_less};
use crate::ops::numbers;
use crate::rules::Quota;

/// How many calls there are of each chat.
type OfChats = Mutex<HashMap<(OrgId, ChatId), usize>>;

/// The places that there are.
pub(super) struct Queue {
    most_of_chat: usize,
    of_chats: Arc<OfChats>,
    places: Bounded,
}

/// One place, for as long as it lives.
pub(super) struct Ticket {
    chat: (OrgId, ChatId),
    of_chats: Arc<OfChats>,
    _place: Place,
}

impl Queue {
    pub(super) fn new(most_of_chat: usize, most: usize) -> Self {
        Self { most_of_chat, of_chats: Arc::default(), places: Bounded::new(most, "calls", "run or wait") }
    }

    /// How many run or wait, and how many may.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.places.counts()
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
        // Until a place is taken: of two who both see the last one of a quota, one is told no.
        let mut of_chats = locked(&self.of_chats);
        let of_org = self.places.of(org) as u64;
        if let Some(quota) = quota.filter(|quota| of_org + quota.elsewhere >= quota.most) {
            let running = of_org + quota.elsewhere;
            numbers::refused("quota");
            let message = quota.told(&format!("{running} calls of this organisation run or wait"));
            return Err(ApiError::new(Code::QuotaExceeded, message).retry_after(1));
        }
        let of_chat = of_chats.get(&chat).copied().unwrap_or_default();
        if waits && of_chat >= self.most_of_chat {
            return Err(too_many(&format!("{of_chat} calls of this chat run or wait"), self.most_of_chat));
        }
        let place = self.places.enter(org).map_err(refused)?;
        *of_chats.entry(chat.clone()).or_default() += 1;
        Ok(Ticket { chat, of_chats: Arc::clone(&self.of_chats), _place: place })
    }
}

pub(super) fn too_many(what: &str, most: usize) -> ApiError {
    refused(Full::new(what.to_owned(), most))
}

fn refused(full: Full) -> ApiError {
    numbers::refused("busy");
    full.into()
}

impl Drop for Ticket {
    fn drop(&mut self) {
        one_less(&mut locked(&self.of_chats), &self.chat);
    }
}

fn locked(of_chats: &OfChats) -> MutexGuard<'_, HashMap<(OrgId, ChatId), usize>> {
    of_chats.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert!(locked(&queue.of_chats).is_empty() && queue.counts() == (0, 3));
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
