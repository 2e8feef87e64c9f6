//! Nodes, leases of chats and MCP servers, and what their fences refuse. PostgreSQL alone: SQLite is one process's.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use kitbag_model::{ChatId, NewChat, OrgId, ServerKey, Timestamp};
use kitbag_store::{ChatClaim, Fence, Node, Nodes, ServerClaim, Store, StoreError};
use kitbag_testkit::TestDatabase;

const LEASE: Duration = Duration::from_secs(600);

async fn join(nodes: &Nodes, id: &str, home: &str) {
    let node = Node {
        id: id.to_owned(),
        home: home.to_owned(),
        address: None,
        version: "1".to_owned(),
        started_at: Timestamp::now(),
        draining: false,
        is_late: false,
        is_dead: false,
    };
    nodes.join(&node, LEASE).await.unwrap();
}

async fn new_chat(store: &Store, org: &OrgId) -> ChatId {
    let mut tx = store.write(org).await.unwrap();
    let chat = tx.create_chat(&NewChat::default()).await.unwrap().id;
    tx.commit().await.unwrap();
    chat
}

/// Claims a chat, which must go well: the fence, and whether another folder had it.
async fn claim(nodes: &Nodes, org: &OrgId, chat: ChatId, node: &str, home: &str) -> (Fence, bool) {
    match nodes.claim(org, chat, node, home).await.unwrap() {
        ChatClaim::Held { fence, moved } => (fence, moved),
        other => panic!("{other:?}"),
    }
}

async fn may_write(store: &Store, org: &OrgId, chat: ChatId, fence: &Fence) -> bool {
    match store.write(org).await.unwrap().hold_chat(chat, fence).await {
        Ok(()) => true,
        Err(StoreError::LeaseLost) => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_has_one_holder_and_only_the_latest_writes() {
    let database = TestDatabase::postgres().await;
    let store = database.open().await;
    let (nodes, org) = (store.nodes().unwrap(), OrgId::local());
    join(&nodes, "one", "a").await;
    join(&nodes, "two", "b").await;
    let chat = new_chat(&store, &org).await;
    let (first, moved) = claim(&nodes, &org, chat, "one", "a").await;
    assert!(!moved && may_write(&store, &org, chat, &first).await);
    assert_eq!(claim(&nodes, &org, chat, "one", "a").await, (first.clone(), false), "it has it already");
    assert!(matches!(nodes.claim(&org, chat, "two", "b").await.unwrap(), ChatClaim::Elsewhere(node) if node == "one"));
    assert_eq!(nodes.holder(&org, chat).await.unwrap().as_deref(), Some("one"));

    assert!(!nodes.declare_dead("one", false).await.unwrap(), "it was heard of in time");
    assert!(nodes.declare_dead("one", true).await.unwrap());
    assert!(!may_write(&store, &org, chat, &first).await, "the dead write nothing, though nobody took the chat");
    assert!(!nodes.renew("one", LEASE).await.unwrap());
    assert!(matches!(nodes.claim(&org, chat, "one", "a").await.unwrap(), ChatClaim::Dead));
    let (second, moved) = claim(&nodes, &org, chat, "two", "b").await;
    assert!(moved && second.epoch > first.epoch);
    assert!(may_write(&store, &org, chat, &second).await && !may_write(&store, &org, chat, &first).await);

    // What was given back is anybody's, and what it was given back with is good no more.
    nodes.give_back(&org, &[(chat, second.clone())]).await.unwrap();
    assert!(!may_write(&store, &org, chat, &second).await);
    join(&nodes, "three", "b").await;
    let (third, moved) = claim(&nodes, &org, chat, "three", "b").await;
    assert!(!moved && third.epoch > second.epoch, "the folder had it last");

    nodes.leave("three").await.unwrap();
    assert!(!may_write(&store, &org, chat, &third).await);
    assert!(matches!(nodes.claim(&org, ChatId::generate(), "two", "b").await.unwrap(), ChatClaim::NoChat));
    let left: Vec<String> = nodes.all().await.unwrap().into_iter().map(|node| node.id).collect();
    assert_eq!(left, ["one", "two"]);
    nodes.bury("one").await.unwrap();
    nodes.bury("two").await.unwrap();
    assert_eq!(nodes.all().await.unwrap().len(), 1, "only the dead are buried");
}

/// Claims a server, which must go well.
async fn claim_server(nodes: &Nodes, org: &OrgId, key: &ServerKey, node: &str) -> Fence {
    match nodes.claim_server(org, key, node).await.unwrap() {
        ServerClaim::Held(fence) => fence,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_has_one_holder_until_it_is_dead_or_gives_it_back() {
    let database = TestDatabase::postgres().await;
    let (store, acme) = database.open_with("acme").await;
    let (nodes, org) = (store.nodes().unwrap(), OrgId::local());
    for id in ["one", "two", "three"] {
        join(&nodes, id, id).await;
    }
    let [key, more]: [ServerKey; 2] = ["keeps~keeps", "more~more"].map(|key| key.parse().unwrap());
    assert_eq!(nodes.server_holder(&org, &key).await.unwrap(), None);
    // Whoever asks at the same moment, one gets it.
    let claims = ["one", "two", "three"].map(|node| nodes.claim_server(&org, &key, node));
    let claims = futures_util::future::join_all(claims).await;
    let held: Vec<Fence> = claims
        .into_iter()
        .filter_map(|claim| match claim.unwrap() {
            ServerClaim::Held(fence) => Some(fence),
            ServerClaim::Elsewhere(_) => None,
            ServerClaim::Dead => panic!("nobody is dead"),
        })
        .collect();
    let [early] = &held[..] else { panic!("{held:?}") };
    // It has it already, and a process of before that ends late gives back nothing of the one that runs now.
    let first = &claim_server(&nodes, &org, &key, &early.node).await;
    assert!(first.node == early.node && first.epoch > early.epoch, "{first:?} {early:?}");
    nodes.give_back_server(&org, &key, early).await.unwrap();
    assert_eq!(nodes.server_holder(&org, &key).await.unwrap(), Some(first.node.clone()));
    // The same name of another organisation's is another server.
    let other = ["one", "two", "three"].into_iter().find(|id| *id != first.node).unwrap();
    claim_server(&nodes, &acme, &key, other).await;
    assert_eq!(nodes.server_holders(&org).await.unwrap(), [(key.clone(), first.node.clone())]);
    assert_eq!(nodes.server_holders(&acme).await.unwrap(), [(key.clone(), other.to_owned())]);

    nodes.declare_dead(&first.node, true).await.unwrap();
    assert!(matches!(nodes.claim_server(&org, &key, &first.node).await.unwrap(), ServerClaim::Dead));
    assert_eq!(nodes.server_holder(&org, &key).await.unwrap(), None);
    let second = claim_server(&nodes, &org, &key, other).await;
    assert!(second.epoch > first.epoch);
    // What the dead give back is not theirs any more.
    nodes.give_back_server(&org, &key, first).await.unwrap();
    assert_eq!(nodes.server_holder(&org, &key).await.unwrap().as_deref(), Some(other));
    nodes.give_back_server(&org, &key, &second).await.unwrap();
    assert_eq!(nodes.server_holder(&org, &key).await.unwrap(), None);
    let third = claim_server(&nodes, &org, &key, other).await;
    assert!(third.epoch > second.epoch);
    nodes.give_back_server(&org, &key, &second).await.unwrap();
    assert_eq!(nodes.server_holder(&org, &key).await.unwrap().as_deref(), Some(other), "that was an earlier holding");

    // Of servers that are gone nothing stays, when nobody holds them any more.
    let fence = claim_server(&nodes, &org, &more, other).await;
    nodes.forget_servers(&org, &[key.to_string()]).await.unwrap();
    assert_eq!(nodes.server_holder(&org, &more).await.unwrap().as_deref(), Some(other));
    nodes.give_back_server(&org, &more, &fence).await.unwrap();
    nodes.forget_servers(&org, &[key.to_string()]).await.unwrap();
    assert_eq!(claim_server(&nodes, &org, &more, other).await.epoch, 1, "it is as if it had never been");
    // Nor of one whose holder never gave it back, and is gone.
    let lost = ["one", "two", "three"].into_iter().find(|id| ![other, &*first.node].contains(id)).unwrap();
    let gone: ServerKey = "gone~gone".parse().unwrap();
    assert_eq!(claim_server(&nodes, &org, &gone, lost).await.epoch, 1);
    nodes.forget_servers(&org, &[]).await.unwrap();
    assert_eq!(claim_server(&nodes, &org, &gone, lost).await.epoch, 2, "its holder lives");
    nodes.declare_dead(lost, true).await.unwrap();
    nodes.forget_servers(&org, &[]).await.unwrap();
    assert_eq!(claim_server(&nodes, &org, &gone, other).await.epoch, 1);
    // Whoever does not know the number frees what is its own, and nothing else.
    nodes.give_up_server(&org, &gone, "somebody").await.unwrap();
    assert_eq!(nodes.server_holder(&org, &gone).await.unwrap().as_deref(), Some(other));
    nodes.give_up_server(&org, &gone, other).await.unwrap();
    assert_eq!(nodes.server_holder(&org, &gone).await.unwrap(), None);
    nodes.leave(other).await.unwrap();
    assert_eq!(nodes.server_holders(&org).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_a_chat_in_the_middle_of_a_write() {
    let database = TestDatabase::postgres().await;
    let store = database.open().await;
    let (nodes, org) = (store.nodes().unwrap(), OrgId::local());
    join(&nodes, "one", "a").await;
    join(&nodes, "two", "b").await;
    let chat = new_chat(&store, &org).await;
    let (fence, _) = claim(&nodes, &org, chat, "one", "a").await;
    let mut tx = store.write(&org).await.unwrap();
    tx.hold_chat(chat, &fence).await.unwrap();
    nodes.declare_dead("one", true).await.unwrap();
    let taking = tokio::spawn({
        let (nodes, org) = (nodes.clone(), org.clone());
        async move { nodes.claim(&org, chat, "two", "b").await.unwrap() }
    });
    let mut looking = database.connect(kitbag_testkit::cluster::SUPERUSER).await;
    while sqlx::query_scalar::<_, i64>(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')",
    )
    .fetch_one(&mut looking)
    .await
    .unwrap()
        == 0
    {
        assert!(!taking.is_finished(), "it was taken");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tx.commit_chat().await.unwrap();
    assert!(matches!(taking.await.unwrap(), ChatClaim::Held { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_read_as_its_organisation() {
    let database = TestDatabase::postgres().await;
    let (store, acme) = database.open_with("acme").await;
    let nodes = store.nodes().unwrap();
    let mut listening = nodes.listen(LEASE).await.unwrap();
    let lines: Vec<String> = (0..400).map(|n| format!("{{\"n\":{n}}}")).collect();
    nodes.tell(&acme, "one", &lines).await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < lines.len() {
        let news = listening.next().await.unwrap();
        assert_eq!((&*news.from, news.org.as_ref()), ("one", Some(&acme)));
        assert_eq!(nodes.told(&OrgId::local(), &news.ids).await.unwrap(), Vec::<String>::new(), "it is another's");
        heard.extend(nodes.told(&acme, &news.ids).await.unwrap());
    }
    assert_eq!(heard, lines, "all of it, in order");
    nodes.forget_told(&acme).await.unwrap();
    let mut looking = database.connect(kitbag_testkit::cluster::SUPERUSER).await;
    let count = "SELECT count(*) FROM node_lines";
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut looking).await.unwrap(), 400, "not yet");
    database.change("UPDATE node_lines SET id = '00' || substr(id, 3)").await;
    nodes.forget_told(&acme).await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut looking).await.unwrap(), 0);
}
