//! What was read lately and is still true. Only where nobody else writes to the database: elsewhere nothing is remembered.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// So many are remembered.
const MOST: usize = 1024;

/// Values by key, all of one edition of the database.
pub(crate) struct Recent<K, V>(Mutex<(u64, HashMap<K, V>)>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::new((0, HashMap::new())))
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// What is remembered of this edition (`Store::edition`, `Store::chat_edition`), or what `read` finds, which is remembered then
    /// if it is something. Reading is boxed: those who find what they want remembered should not have room for it.
    pub(crate) async fn get<E, F>(&self, edition: Option<u64>, key: K, read: impl FnOnce() -> F) -> Result<Option<V>, E>
    where
        F: Future<Output = Result<Option<V>, E>>,
    {
        let Some(edition) = edition else { return Box::pin(read()).await };
        if let Some(known) = self.known(edition, &key) {
            return Ok(Some(known));
        }
        let found = Box::pin(read()).await?;
        if let Some(found) = &found {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.0 != edition || kept.1.len() >= MOST {
                *kept = (edition, HashMap::new());
            }
            kept.1.insert(key, found.clone());
        }
        Ok(found)
    }

    fn known(&self, edition: u64, key: &K) -> Option<V> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.0 == edition).then(|| kept.1.get(key).cloned()).flatten()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use kitbag_model::OrgId;
    use kitbag_store::{Location, Store, StoreError};

    #[tokio::test]
    async fn nothing_is_remembered_beyond_a_write() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Location::Sqlite(folder.path().join("kitbag.db"))).await.unwrap();
        let (recent, org) = (Recent::default(), OrgId::local());
        let ask = |answer: Option<u32>| {
            let (recent, store) = (&recent, &store);
            async move { recent.get(store.edition(), "a", async || Ok::<_, StoreError>(answer)).await.unwrap() }
        };
        assert_eq!(ask(None).await, None);
        assert_eq!(ask(Some(1)).await, Some(1), "nothing is not remembered");
        assert_eq!(ask(Some(2)).await, Some(1));
        store.write(&org).await.unwrap().commit_chat().await.unwrap();
        assert_eq!(ask(Some(3)).await, Some(1), "only a chat was written to");
        store.write(&org).await.unwrap().commit().await.unwrap();
        assert_eq!(ask(Some(4)).await, Some(4));
    }
}
