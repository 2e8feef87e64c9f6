//! Chats that this node gives back. Between letting go of one in memory and in the database nobody here may hold it: they would hold it under the
//! number that is about to be given back, and lose it in the middle of their work.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use kitbag_model::{ChatId, OrgId};
use kitbag_store::{Fence, StoreError};
use tokio::sync::watch;

use super::{HeldChat, Nodes};

/// Which chat.
pub(super) type Key = (OrgId, ChatId);

/// So many are given back in one statement.
const AT_ONCE: usize = 1000;

/// The chats that are on their way out.
pub(super) struct Leaving(watch::Sender<HashSet<Key>>);

impl Default for Leaving {
    fn default() -> Self {
        Self(watch::Sender::new(HashSet::new()))
    }
}

impl Leaving {
    /// Whether this one is.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.0.borrow().contains(key)
    }

    /// Waits until it is not.
    pub(super) async fn left(&self, key: &Key) {
        // It ends with this, which has the sender.
        let _ = self.0.subscribe().wait_for(|leaving| !leaving.contains(key)).await;
    }

    /// How many wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.0.receiver_count()
    }
}

/// Some that are: until it is written, or tried, or cut off.
pub(super) struct Parting {
    nodes: Nodes,
    org: OrgId,
    chats: Vec<(ChatId, Arc<HeldChat>)>,
}

impl Drop for Parting {
    fn drop(&mut self) {
        self.nodes.0.leaving.0.send_modify(|leaving| {
            for (chat, _) in &self.chats {
                leaving.remove(&(self.org.clone(), *chat));
            }
        });
    }
}

impl Nodes {
    /// Lets go of those of these chats that nobody uses. What comes back is to be written, an organisation at a time.
    pub(super) fn part_with(&self, keys: Vec<Key>) -> Vec<Parting> {
        let mut of_org: BTreeMap<OrgId, Vec<(ChatId, Arc<HeldChat>)>> = BTreeMap::new();
        let mut held = self.held();
        for key in keys {
            if held.get(&key).is_some_and(|chat| Arc::strong_count(chat) == 1)
                && let Some(chat) = held.remove(&key)
            {
                of_org.entry(key.0).or_default().push((key.1, chat));
            }
        }
        // While nobody can look: a chat is held, or leaves, or is neither.
        self.0.leaving.0.send_modify(|leaving| {
            for (org, chats) in &of_org {
                leaving.extend(chats.iter().map(|(chat, _)| (org.clone(), *chat)));
            }
        });
        drop(held);
        let mut partings = Vec::new();
        for (org, mut chats) in of_org {
            while !chats.is_empty() {
                let some = chats.split_off(chats.len().saturating_sub(AT_ONCE));
                partings.push(Parting { nodes: self.clone(), org: org.clone(), chats: some });
            }
        }
        partings
    }

    /// Writes that they are given back.
    pub(super) async fn give_back(&self, partings: Vec<Parting>) -> Result<(), StoreError> {
        let Some(store) = &self.0.store else { return Ok(()) };
        for parting in partings {
            let fenced = |(chat, held): &(ChatId, Arc<HeldChat>)| (*chat, held.fence().clone());
            let chats: Vec<(ChatId, Fence)> = parting.chats.iter().map(fenced).collect();
            store.give_back(&parting.org, &chats).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use kitbag_model::NewChat;
    use kitbag_testkit::TestDatabase;

    use super::*;
    use crate::nodes::NodeSettings;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_chat_that_is_given_back_is_not_held_again_under_the_same_number() {
        let database = TestDatabase::postgres().await;
        let (store, org, folder) = (database.open().await, OrgId::local(), tempfile::tempdir().unwrap());
        let nodes = Nodes::new(folder.path(), &store, NodeSettings::default());
        let mut tx = store.write(&org).await.unwrap();
        let chat = tx.create_chat(&NewChat::default()).await.unwrap().id;
        tx.commit().await.unwrap();
        let may_write = async |held: &HeldChat| {
            let mut tx = store.write(&org).await.unwrap();
            tx.hold_chat(chat, held.fence()).await.is_ok()
        };
        let first = nodes.hold(&org, chat).await.unwrap().unwrap();
        assert!(nodes.part_with(vec![(org.clone(), chat)]).is_empty(), "somebody uses it");
        assert!(may_write(&first).await);
        let before = first.fence().clone();
        drop(first);

        let parting = nodes.part_with(vec![(org.clone(), chat)]);
        assert_eq!(parting.len(), 1);
        let (again, whose) = (nodes.clone(), org.clone());
        let holding = tokio::spawn(async move { again.hold(&whose, chat).await });
        // It waits, or has it already.
        while nodes.0.leaving.waiting() == 0 && !holding.is_finished() {
            tokio::task::yield_now().await;
        }
        nodes.give_back(parting).await.unwrap();
        let second = holding.await.unwrap().unwrap().unwrap();
        assert!(may_write(&second).await, "it was held as {before:?} and is as {:?}", second.fence());

        // This is what whoever does not wait gets.
        drop(second);
        let parting = nodes.part_with(vec![(org.clone(), chat)]);
        nodes.0.leaving.0.send_modify(HashSet::clear);
        let hasty = nodes.hold(&org, chat).await.unwrap().unwrap();
        nodes.give_back(parting).await.unwrap();
        assert!(!may_write(&hasty).await);
        nodes.lost_chat(&org, chat, &hasty);
        let second = nodes.hold(&org, chat).await.unwrap().unwrap();

        // Also if nobody ever writes it.
        drop(second);
        drop(nodes.part_with(vec![(org.clone(), chat)]));
        let third = nodes.hold(&org, chat).await.unwrap().unwrap();
        assert!(may_write(&third).await);
    }
}
