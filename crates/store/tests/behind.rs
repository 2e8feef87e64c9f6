//! Calls that are recorded behind, on both databases: nobody who reads can tell, and nothing of what can be written is lost.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use kitbag_model::{
    CallError, CallErrorCode, CallOutcome, CallStatus, ChatId, ManifestId, MessageId, NewChat, NewManifest, NewMessage,
    OrgId, Parent, Role, Source, Timestamp, ToolCall, ToolCallId, args_digest,
};
use kitbag_store::Store;
use kitbag_testkit::{TestDatabase, on_both};
use serde_json::{Value, json};

fn org() -> OrgId {
    OrgId::local()
}

fn node() -> Arc<str> {
    "n1".into()
}

async fn new_chat(store: &Store) -> ChatId {
    let mut tx = store.write(&org()).await.unwrap();
    let chat = tx.create_chat(&NewChat::default()).await.unwrap();
    tx.commit().await.unwrap();
    chat.id
}

fn running(chat: ChatId, args: &Value) -> Arc<ToolCall> {
    let tool_id = "mcp:a~a:echo".parse().unwrap();
    let args = args.as_object().unwrap().clone();
    Arc::new(ToolCall {
        id: ToolCallId::generate(),
        chat_id: chat,
        message_id: MessageId::generate(),
        args_sha256: args_digest(&tool_id, &args),
        tool_id,
        generation: Some("g1".to_owned()),
        args,
        status: CallStatus::Running,
        asked_by: "token x".to_owned(),
        expires_at: None,
        decision: None,
        request_sha256: None,
        started_at: Timestamp::now(),
        finished_at: None,
        outcome: CallOutcome::default(),
    })
}

fn over(call: &ToolCall, outcome: CallOutcome) -> Arc<ToolCall> {
    let status = if outcome.error.is_some() { CallStatus::Error } else { CallStatus::Success };
    Arc::new(ToolCall { status, finished_at: Some(Timestamp::now()), outcome, ..call.clone() })
}

fn said(text: &str) -> CallOutcome {
    CallOutcome { result: Some(json!({ "text": text })), warnings: vec!["w".to_owned()], ..CallOutcome::default() }
}

async fn ask(store: &Store, chat: ChatId, args: &Value) -> Arc<ToolCall> {
    let call = running(chat, args);
    assert!(store.call_asked(&org(), Arc::clone(&call), &node()).await);
    call
}

async fn make(store: &Store, chat: ChatId, text: &str) -> Arc<ToolCall> {
    let call = ask(store, chat, &json!({ "text": text })).await;
    let call = over(&call, said(text));
    store.call_over(&org(), Arc::clone(&call)).await;
    call
}

/// Everything of a call, to compare two of them.
fn all(call: &ToolCall) -> String {
    format!("{call:?}")
}

/// What somebody else sees, who has nothing to do with what waits here.
async fn until_seen_elsewhere(database: &TestDatabase, call: &ToolCall) -> ToolCall {
    let elsewhere = database.open().await;
    for _ in 0..1000 {
        let found = elsewhere.read(&org()).await.unwrap().tool_call(call.chat_id, call.id).await.unwrap();
        if let Some(found) = found {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it was never written");
}

on_both! {
    async fn whoever_reads_sees_all_of_it(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let editions = (store.edition(), store.chat_edition());
        let calls = [make(&store, chat, "a").await, ask(&store, chat, &json!({ "n": 1 })).await, make(&store, chat, "\u{0}é").await];
        let mut tx = store.read(&org()).await.unwrap();
        for call in &calls {
            assert_eq!(all(&tx.tool_call(chat, call.id).await.unwrap().unwrap()), all(call));
        }
        let messages = tx.messages(chat, None, 10).await.unwrap().items;
        let mut parent = None;
        for (message, call) in messages.iter().zip(&calls) {
            assert_eq!((message.id, message.parent_id, message.role), (call.message_id, parent, Role::Tool));
            assert_eq!(message.content.as_json()[0]["toolCallId"], call.id.to_string());
            parent = Some(message.id);
        }
        assert_eq!(messages.len(), 3);
        assert_eq!(tx.chat(chat).await.unwrap().unwrap().active_leaf_message_id, parent);
        let audit = tx.audit_trail(10).await.unwrap();
        let asked: Vec<_> = audit.iter().rev().map(|line| (line.actor.as_str(), line.action.as_str(), line.subject.clone())).collect();
        assert_eq!(asked, calls.each_ref().map(|call| ("token x", "tool_call.asked", call.id.to_string())));
        assert!(audit.iter().all(|line| line.details["status"] == "running" && line.details["generation"] == "g1"));
        drop(tx);
        assert_eq!((store.edition(), store.chat_edition()), editions, "what is remembered stays true");

        // The end of one whose beginning is written.
        let error = CallError::new(CallErrorCode::Timeout, "too long");
        let ended = over(&calls[1], CallOutcome::failed(error));
        store.call_over(&org(), Arc::clone(&ended)).await;
        let found = store.read(&org()).await.unwrap().tool_call(chat, ended.id).await.unwrap().unwrap();
        assert_eq!(all(&found), all(&ended));

        // Whoever adds something comes after what waits.
        let last = make(&store, chat, "last").await;
        let mut tx = store.write(&org()).await.unwrap();
        let content = "next".to_owned();
        let new = NewMessage { parent: Parent::ActiveLeaf, role: Role::User, content: json!(content).try_into().unwrap() };
        assert_eq!(tx.add_message(chat, &new).await.unwrap().parent_id, Some(last.message_id));
    }

    async fn many_of_several_callers_are_each_their_own(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let user = kitbag_model::UserId::generate();
        let mut calls = Vec::new();
        // All sizes of statements, and between them one of somebody else.
        for (who, count) in [("token x".to_owned(), 45), (format!("me@example.com (user {user})"), 1), ("token x".to_owned(), 9)] {
            for number in 0..count {
                let mut call = ToolCall { asked_by: who.clone(), ..ToolCall::clone(&running(chat, &json!({ "n": number }))) };
                assert!(store.call_asked(&org(), Arc::new(call.clone()), &node()).await);
                if number % 3 != 0 {
                    call = ToolCall::clone(&over(&call, said(&number.to_string())));
                    store.call_over(&org(), Arc::new(call.clone())).await;
                }
                calls.push(call);
            }
        }
        let mut tx = store.read(&org()).await.unwrap();
        let audit = tx.audit_trail(100).await.unwrap();
        for call in &calls {
            assert_eq!(all(&tx.tool_call(chat, call.id).await.unwrap().unwrap()), all(call));
            let line = audit.iter().find(|line| line.subject == call.id.to_string()).unwrap();
            assert_eq!((&line.actor, line.user), (&call.asked_by, (call.asked_by != "token x").then_some(user)));
            assert_eq!((line.action.as_str(), line.at), ("tool_call.asked", call.started_at));
        }
        let messages = tx.messages(chat, None, 100).await.unwrap().items;
        assert!(messages.iter().map(|message| message.id).eq(calls.iter().map(|call| call.message_id)));
    }

    async fn it_is_written_if_nobody_reads(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let running = ask(&store, chat, &json!({})).await;
        assert_eq!(until_seen_elsewhere(&database, &running).await.status, CallStatus::Running);
        let done = make(&store, chat, "done").await;
        assert_eq!(all(&until_seen_elsewhere(&database, &done).await), all(&done));
    }

    async fn a_store_that_is_closed_has_written_all(database: TestDatabase) {
        let store = database.open().await;
        let (one, two) = (new_chat(&store).await, new_chat(&store).await);
        let mut calls = Vec::new();
        for n in 0..700 {
            calls.push(make(&store, if n % 3 == 0 { one } else { two }, &n.to_string()).await);
        }
        store.close().await;
        let store = database.open().await;
        let mut tx = store.read(&org()).await.unwrap();
        for call in calls {
            assert_eq!(all(&tx.tool_call(call.chat_id, call.id).await.unwrap().unwrap()), all(&call));
        }
    }

    async fn one_that_cannot_be_written_does_not_sink_the_others(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let first = make(&store, chat, "first").await;
        let gone = make(&store, ChatId::generate(), "no such chat").await;
        let call = ask(&store, chat, &json!({})).await;
        let state = Some(ManifestId::generate());
        let poisoned = over(&call, CallOutcome { pre_manifest_id: state, post_manifest_id: state, ..said("no such state") });
        store.call_over(&org(), Arc::clone(&poisoned)).await;
        let last = make(&store, chat, "last").await;
        let mut tx = store.read(&org()).await.unwrap();
        for call in [&first, &last] {
            assert_eq!(all(&tx.tool_call(chat, call.id).await.unwrap().unwrap()), all(call));
        }
        for call in [&gone, &poisoned] {
            assert!(tx.tool_call(call.chat_id, call.id).await.unwrap().is_none());
        }
        let messages = tx.messages(chat, None, 10).await.unwrap().items;
        assert_eq!(messages.iter().map(|one| one.id).collect::<Vec<_>>(), [first.message_id, last.message_id], "none is half there");
    }

    async fn what_was_there_before_the_first_message_is_that_message_s(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let mut tx = store.write(&org()).await.unwrap();
        let root = kitbag_model::ContentHash::of(b"");
        let new = NewManifest { parent: None, root, source: Source::Edit, source_ref: None };
        let state = tx.keep_manifest(chat, &new).await.map(|kept| kept.id);
        tx.commit().await.unwrap();
        let Ok(state) = state else { panic!("a state is kept: {state:?}") };
        make(&store, chat, "one").await;
        make(&store, chat, "two").await;
        let messages = store.read(&org()).await.unwrap().messages(chat, None, 10).await.unwrap().items;
        assert_eq!(messages.iter().map(|one| one.manifest_id).collect::<Vec<_>>(), [Some(state), None]);
    }

    async fn who_comes_when_it_is_full_waits(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        // Together they are more than may wait.
        let one = running(chat, &json!({ "text": "x".repeat(8 << 20) }));
        let mut making = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (id, message_id) = (ToolCallId::generate(), MessageId::generate());
            let (store, call) = (store.clone(), Arc::new(ToolCall { id, message_id, ..(*one).clone() }));
            making.spawn(async move {
                assert!(store.call_asked(&org(), Arc::clone(&call), &node()).await);
                store.call_over(&org(), over(&call, said("done"))).await;
                id
            });
        }
        let made = making.join_all().await;
        let mut tx = store.read(&org()).await.unwrap();
        for id in made {
            assert_eq!(tx.tool_call(chat, id).await.unwrap().unwrap().status, CallStatus::Success);
        }
    }
}
