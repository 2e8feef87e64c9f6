//! Generations of a chat's blobs: whoever keeps a state and whoever collects wait for each other, and the one who comes second notices.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use kitbag_model::{ChatId, NewChat, OrgId};
use kitbag_store::{Store, StoreError};
use kitbag_testkit::{TestDatabase, on_both};
use tokio::task::JoinHandle;

async fn new_chat(store: &Store, org: &OrgId) -> ChatId {
    let mut tx = store.write(org).await.unwrap();
    let chat = tx.create_chat(&NewChat::default()).await.unwrap().id;
    tx.commit().await.unwrap();
    chat
}

/// Whether a state may be kept that was taken in a generation.
async fn may_keep(store: Store, org: OrgId, chat: ChatId, generation: u64) -> Result<bool, StoreError> {
    let mut tx = store.write(&org).await?;
    let held = tx.hold_blob_generation(chat, generation).await?;
    tx.commit().await?;
    Ok(held)
}

async fn collect(store: Store, org: OrgId, chat: ChatId) -> Result<Option<u64>, StoreError> {
    let mut tx = store.write(&org).await?;
    let next = tx.next_blob_generation(chat).await?;
    tx.commit().await?;
    Ok(next)
}

/// Waits until somebody waits for somebody else's row, or is through without. On SQLite one transaction that writes waits for the other before it
/// begins, so there is nothing to see.
async fn until_it_waits<T>(database: &TestDatabase, other: &JoinHandle<T>) {
    const WAITING: &str =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    if !matches!(database.location(), kitbag_store::Location::Postgres(_)) {
        return;
    }
    for _ in 0..1200 {
        if other.is_finished() || database.count(WAITING).await > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it neither waits nor ends");
}

on_both! {
    async fn a_state_of_an_older_generation_is_not_kept(database: TestDatabase) {
        let (store, org) = (database.open().await, OrgId::local());
        let (chat, other) = (new_chat(&store, &org).await, new_chat(&store, &org).await);
        let ask = async |generation| may_keep(store.clone(), org.clone(), chat, generation).await.unwrap();
        assert!(ask(0).await && !ask(1).await);
        assert_eq!(collect(store.clone(), org.clone(), chat).await.unwrap(), Some(1));
        assert!(!ask(0).await && ask(1).await);
        assert_eq!(store.read(&org).await.unwrap().blob_generation(chat).await.unwrap(), Some(1));
        assert!(may_keep(store.clone(), org.clone(), other, 0).await.unwrap(), "another chat has its own");
        // What is not there has no generation, neither for those that keep nor for those that collect.
        let acme = kitbag_testkit::database::add_organization(&store, "acme").await;
        for (org, chat) in [(&org, ChatId::generate()), (&acme, chat)] {
            assert!(!may_keep(store.clone(), org.clone(), chat, 1).await.unwrap());
            assert_eq!(collect(store.clone(), org.clone(), chat).await.unwrap(), None);
        }
        assert!(ask(1).await);
    }

    async fn who_keeps_a_state_waits_for_a_collection_and_notices(database: TestDatabase) {
        let (store, org) = (database.open().await, OrgId::local());
        let chat = new_chat(&store, &org).await;
        let mut collecting = store.write(&org).await.unwrap();
        assert_eq!(collecting.next_blob_generation(chat).await.unwrap(), Some(1));
        let keeping = tokio::spawn(may_keep(store.clone(), org.clone(), chat, 0));
        until_it_waits(&database, &keeping).await;
        assert!(!keeping.is_finished(), "it did not wait: {:?}", keeping.await);
        collecting.commit().await.unwrap();
        assert!(!keeping.await.unwrap().unwrap(), "what it relied on may be gone");
    }

    async fn a_collection_waits_for_who_keeps_a_state(database: TestDatabase) {
        let (store, org) = (database.open().await, OrgId::local());
        let chat = new_chat(&store, &org).await;
        let mut keeping = store.write(&org).await.unwrap();
        assert!(keeping.hold_blob_generation(chat, 0).await.unwrap());
        let collecting = tokio::spawn(collect(store.clone(), org.clone(), chat));
        until_it_waits(&database, &collecting).await;
        assert!(!collecting.is_finished(), "it did not wait: {:?}", collecting.await);
        keeping.commit().await.unwrap();
        assert_eq!(collecting.await.unwrap().unwrap(), Some(1));
    }
}
