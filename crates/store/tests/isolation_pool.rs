//! Connections of one pool serve one organisation after the other: what a borrower left behind, above all one that
//! went away in the middle, must not reach the next.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;
use std::time::{Duration, Instant};

use kitbag_model::{NewChat, OrgId};
use kitbag_store::Store;
use kitbag_testkit::TestDatabase;
use kitbag_testkit::cluster::{OWNER, SUPERUSER, run};
use kitbag_testkit::database::add_organization;
use sqlx::PgConnection;

/// How far a transaction came before its client went away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    NotCommitted,
    MayBeCommitted,
    Committed,
}

/// Drops `future` when it has to wait more than `waits` times: a client that hangs up in the middle. Whether it stayed
/// to the end.
async fn hang_up_after(waits: usize, future: impl Future<Output = ()>) -> bool {
    let mut future = pin!(future);
    let mut waited = 0;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending if waited == waits => Poll::Ready(false),
        Poll::Pending => {
            waited += 1;
            Poll::Pending
        }
    })
    .await
}

/// Organisations `a` and `b`, in a database without the policy of the system door. There, the door is a transaction
/// that nothing binds: it shows an organisation only if an earlier borrower of the connection left it bound.
async fn two_organisations() -> (TestDatabase, Store, [OrgId; 2]) {
    let database = TestDatabase::postgres().await;
    let (store, a) = database.open_with("a").await;
    let b = add_organization(&store, "b").await;
    run(&mut database.connect(OWNER).await, "DROP POLICY kitbag_system_select ON organizations").await;
    (database, store, [a, b])
}

async fn see_nothing_unbound(store: &Store) {
    let left_behind = store.system().await.unwrap().organization_ids().await.unwrap();
    assert_eq!(left_behind, [], "a connection came from the pool with an organisation bound to it");
}

/// Makes a chat and looks around, in several transactions.
async fn work(store: &Store, org: &OrgId, other: &OrgId, title: &str, fate: &Mutex<Fate>) {
    let mut tx = store.write(org).await.unwrap();
    let new = NewChat { title: Some(title.parse().unwrap()), ..NewChat::default() };
    let chat = tx.create_chat(&new).await.unwrap().id;
    *fate.lock().unwrap() = Fate::MayBeCommitted;
    tx.commit().await.unwrap();
    *fate.lock().unwrap() = Fate::Committed;

    see_nothing_unbound(store).await;
    let mut tx = store.read(org).await.unwrap();
    assert!(tx.chat(chat).await.unwrap().is_some(), "{title} was committed and is gone");
    for seen in tx.chats(None, 50).await.unwrap().items {
        let seen = seen.title.unwrap();
        assert!(seen.starts_with(&format!("{org} ")), "{org} sees {seen}");
    }
    drop(tx);
    assert_eq!(store.read(other).await.unwrap().chat(chat).await.unwrap(), None, "{other} sees {title}");
    see_nothing_unbound(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_organisation_stays_bound_when_many_share_the_pool_and_some_hang_up() {
    let (database, store, orgs) = two_organisations().await;
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..50 {
        let (store, org, other) = (store.clone(), orgs[client % 2].clone(), orgs[1 - client % 2].clone());
        clients.spawn(async move {
            let mut fates = Vec::new();
            for round in 0..20 {
                let title = format!("{org} {client} {round}");
                // A third hangs up, each time at another of the points at which the work waits for the database.
                let waits = if (client + round) % 3 == 0 { (client * 7 + round) % 12 } else { usize::MAX };
                let fate = Mutex::new(Fate::NotCommitted);
                let stayed = hang_up_after(waits, work(&store, &org, &other, &title, &fate)).await;
                fates.push((title, fate.into_inner().unwrap(), stayed));
            }
            fates
        });
    }
    let fates = clients.join_all().await.concat();
    let hung_up = |fate| fates.iter().filter(|(_, was, stayed)| *was == fate && !stayed).count();
    let (early, late) = (hung_up(Fate::NotCommitted), hung_up(Fate::Committed));
    assert!(early > 10 && late > 10, "{early} hung up before they committed and {late} after it: too few");

    let mut probes = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let store = store.clone();
        probes.spawn(async move { see_nothing_unbound(&store).await });
    }
    probes.join_all().await;
    let third: OrgId = "c".parse().unwrap();
    let mut tx = store.read(&third).await.unwrap();
    assert!(tx.organization().await.unwrap().is_none() && tx.chats(None, 9).await.unwrap().items.is_empty());

    let kept: Vec<(String, String)> = sqlx::query_as("SELECT title, organization_id FROM chats")
        .fetch_all(&mut database.connect(SUPERUSER).await)
        .await
        .unwrap();
    let kept: BTreeMap<String, String> = kept.into_iter().collect();
    for (title, org) in &kept {
        assert!(title.starts_with(&format!("{org} ")), "{title} is a chat of {org}");
    }
    for (title, fate, _) in &fates {
        assert!(*fate != Fate::NotCommitted || !kept.contains_key(title), "{title} was never committed and is there");
        assert!(*fate != Fate::Committed || kept.contains_key(title), "{title} was committed and is gone");
    }
}

/// Fails unless every connection of the pool leaves its transaction within some seconds.
async fn see_none_open(superuser: &mut PgConnection, what: &str) {
    let start = Instant::now();
    loop {
        // First a moment for what was dropped to reach the database.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let open: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'kitbag' AND xact_start IS NOT NULL",
        )
        .fetch_one(&mut *superuser)
        .await
        .unwrap();
        if open == 0 {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{what} leaves a transaction open");
    }
}

/// What stays open keeps its locks and its mode: the next borrower's write would end in a read-only transaction.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_hangs_up_at_whatever_point_leaves_no_transaction_open() {
    let (database, store, [a, b]) = two_organisations().await;
    let mut superuser = database.connect(SUPERUSER).await;
    let mut hung_up = 0;
    // An answer that is there already costs no wait, so one number of waits does not always end at one point.
    for round in 0..24 {
        let waits = round % 6;
        let write = async {
            let mut tx = store.write(&a).await.unwrap();
            tx.create_chat(&NewChat::default()).await.unwrap();
            tx.commit().await.unwrap();
        };
        hung_up += u32::from(!hang_up_after(waits, write).await);
        see_none_open(&mut superuser, &format!("a writer that waited {waits} times")).await;
        let read = async { drop(store.read(&b).await.unwrap().chats(None, 9).await.unwrap()) };
        hung_up += u32::from(!hang_up_after(waits, read).await);
        see_none_open(&mut superuser, &format!("a reader that waited {waits} times")).await;
        hung_up += u32::from(!hang_up_after(waits, see_nothing_unbound(&store)).await);
        see_none_open(&mut superuser, &format!("a system task that waited {waits} times")).await;
        see_nothing_unbound(&store).await;
    }
    assert!(hung_up > 5, "only {hung_up} hung up in the middle");
}
