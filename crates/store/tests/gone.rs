//! What is left of nodes that are gone, and what they tell with clocks that go wrong. PostgreSQL alone: SQLite is one process's.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;

use kitbag_model::{ChatId, Content, NewChat, NewMessage, NewToolCall, OrgId, Parent, Role, Timestamp, ToolCallId};
use kitbag_store::{ChatClaim, Fence, Node, Nodes, Store};
use kitbag_testkit::TestDatabase;
use kitbag_testkit::cluster::SUPERUSER;
use serde_json::json;

const LEASE: Duration = Duration::from_secs(600);

async fn join(nodes: &Nodes, id: &str) {
    let node = Node {
        id: id.to_owned(),
        home: id.to_owned(),
        address: None,
        version: "1".to_owned(),
        started_at: Timestamp::now(),
        draining: false,
        is_late: false,
        is_dead: false,
    };
    nodes.join(&node, LEASE).await.unwrap();
}

async fn new_chat(store: &Store) -> ChatId {
    let mut tx = store.write(&OrgId::local()).await.unwrap();
    let chat = tx.create_chat(&NewChat::default()).await.unwrap().id;
    tx.commit().await.unwrap();
    chat
}

/// A call that runs at a node, or waits for a yes that was asked for there.
async fn call(store: &Store, chat: ChatId, node: &str, waits: bool) -> ToolCallId {
    let mut tx = store.write(&OrgId::local()).await.unwrap();
    let content = Content::try_from(json!("a call")).unwrap();
    let message = tx.add_message(chat, &NewMessage { parent: Parent::ActiveLeaf, role: Role::Tool, content }).await;
    let new = NewToolCall {
        id: ToolCallId::generate(),
        chat_id: chat,
        message_id: message.unwrap().id,
        tool_id: "app:run".parse().unwrap(),
        generation: None,
        args: serde_json::Map::new(),
        expires_at: waits.then(|| Timestamp::now().plus_seconds(600)),
        asked_by: "somebody".to_owned(),
        idempotency: None,
        node: node.to_owned(),
    };
    let id = tx.insert_call(&new).await.unwrap().id;
    tx.commit().await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_nodes_that_nobody_has_are_found() {
    let database = TestDatabase::postgres().await;
    let store = database.open().await;
    let nodes = store.nodes().unwrap();
    for id in ["alive", "dead", "buried"] {
        join(&nodes, id).await;
    }
    let chat = new_chat(&store).await;
    for node in ["alive", "dead", "buried", "never"] {
        call(&store, chat, node, node == "never").await;
    }
    let gone = async || {
        let mut gone = store.read(&OrgId::local()).await.unwrap().nodes_gone().await.unwrap();
        gone.sort_unstable();
        gone
    };
    assert_eq!(gone().await, ["never"]);
    for id in ["dead", "buried"] {
        assert!(nodes.declare_dead(id, true).await.unwrap());
    }
    nodes.bury("buried").await.unwrap();
    assert_eq!(gone().await, ["buried", "never"], "who declared the other dead ends what it had begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_counted_that_run_elsewhere_and_are_not_counted_here() {
    let database = TestDatabase::postgres().await;
    let store = database.open().await;
    let nodes = store.nodes().unwrap();
    let chat = new_chat(&store).await;
    call(&store, chat, "here", false).await;
    call(&store, chat, "there", true).await;
    let handed = call(&store, chat, "there", false).await;
    let org = OrgId::local();
    assert_eq!(nodes.running_elsewhere(&org, "here", &[]).await.unwrap(), 1);
    assert_eq!(nodes.running_elsewhere(&org, "here", &[handed.to_string()]).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_chats_are_given_back_at_once_and_none_that_is_anothers_by_now() {
    let database = TestDatabase::postgres().await;
    let store = database.open().await;
    let (nodes, org) = (store.nodes().unwrap(), OrgId::local());
    for id in ["one", "two"] {
        join(&nodes, id).await;
    }
    let claim = async |chat, node: &str| match nodes.claim(&org, chat, node, node).await.unwrap() {
        ChatClaim::Held { fence, .. } => fence,
        other => panic!("{other:?}"),
    };
    let mut held: Vec<(ChatId, Fence)> = Vec::new();
    for _ in 0..3 {
        let chat = new_chat(&store).await;
        held.push((chat, claim(chat, "one").await));
    }
    // One of them went to the other node meanwhile.
    let (theirs, fence) = held[1].clone();
    nodes.give_back(&org, &[(theirs, fence)]).await.unwrap();
    claim(theirs, "two").await;
    nodes.give_back(&org, &held).await.unwrap();
    for (chat, fence) in &held {
        let holder = nodes.holder(&org, *chat).await.unwrap();
        assert_eq!(holder.as_deref(), (*chat == theirs).then_some("two"));
        assert!(store.write(&org).await.unwrap().hold_chat(*chat, fence).await.is_err());
    }
    let again = claim(held[0].0, "one").await;
    assert!(again.epoch > held[0].1.epoch);
}

/// A node whose clock is ahead by an hour, which here is a database whose clock is behind by as much.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_clock_is_ahead_removes_nothing_that_was_told_just_now() {
    let database = TestDatabase::postgres().await;
    database
        .change(
            "CREATE SCHEMA behind;
             CREATE FUNCTION behind.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
             $$ SELECT pg_catalog.clock_timestamp() - interval '1 hour' $$;
             GRANT USAGE ON SCHEMA behind TO PUBLIC;
             DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = behind, pg_catalog, public', current_database()); END $$",
        )
        .await;
    let store = database.open().await;
    let (nodes, org) = (store.nodes().unwrap(), OrgId::local());
    // As a node tells it whose clock is right.
    database
        .change(
            "INSERT INTO node_lines (organization_id, id, line)
             SELECT 'local', left(ms, 8) || '-' || right(ms, 4) || '-7abc', '{}'
             FROM (SELECT lpad(to_hex(floor(extract(epoch FROM behind.clock_timestamp()) * 1000)::bigint), 12, '0') AS ms) AS at",
        )
        .await;
    nodes.tell(&org, "one", &["{}".to_owned()]).await.unwrap();
    nodes.forget_told(&org).await.unwrap();
    let mut looking = database.connect(SUPERUSER).await;
    let count = async |looking: &mut sqlx::PgConnection| {
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM public.node_lines");
        count.fetch_one(looking).await.unwrap()
    };
    assert_eq!(count(&mut looking).await, 2, "it was told just now");
    database.change("UPDATE node_lines SET id = '00' || substr(id, 3)").await;
    nodes.forget_told(&org).await.unwrap();
    assert_eq!(count(&mut looking).await, 0);
}
