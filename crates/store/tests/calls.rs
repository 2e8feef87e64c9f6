//! Tool calls, descriptions and the audit, on both databases.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_model::{
    Action, CallError, CallErrorCode, CallOutcome, CallStatus, Chat, Content, ContentHash, Decision, LogLine,
    LogStream, MessageId, NewChat, NewManifest, NewMessage, NewToolCall, OrgId, Parent, Role, SandboxReport, Source,
    Timestamp, ToolCall, ToolCallId, args_digest,
};
use kitbag_store::{FinishError, KeepError, Store, StoreError};
use kitbag_testkit::on_both;
use serde_json::{Map, Value, json};

fn org() -> OrgId {
    OrgId::local()
}

async fn new_chat(store: &Store) -> Chat {
    let mut tx = store.write(&org()).await.unwrap();
    let chat = tx.create_chat(&NewChat::default()).await.unwrap();
    tx.commit().await.unwrap();
    chat
}

async fn message(store: &Store, chat: &Chat) -> MessageId {
    let mut tx = store.write(&org()).await.unwrap();
    let content = Content::try_from(json!("a call")).unwrap();
    let new = NewMessage { parent: Parent::ActiveLeaf, role: Role::Tool, content };
    let id = tx.add_message(chat.id, &new).await.unwrap().id;
    tx.commit().await.unwrap();
    id
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn call(chat: &Chat, message: MessageId) -> NewToolCall {
    NewToolCall {
        id: ToolCallId::generate(),
        chat_id: chat.id,
        message_id: message,
        tool_id: "app:run".parse().unwrap(),
        generation: Some("g1".to_owned()),
        args: object(json!({ "b": 1, "a": "\u{0}é" })),
        expires_at: None,
        asked_by: "token x".to_owned(),
        idempotency: None,
        node: "n1".to_owned(),
    }
}

async fn insert(store: &Store, new: &NewToolCall) -> Result<ToolCall, StoreError> {
    let mut tx = store.write(&org()).await.unwrap();
    let call = tx.insert_call(new).await?;
    tx.commit().await.unwrap();
    Ok(call)
}

async fn read(store: &Store, call: &NewToolCall) -> ToolCall {
    store.read(&org()).await.unwrap().tool_call(call.chat_id, call.id).await.unwrap().unwrap()
}

fn now_by(who: &str) -> Decision {
    Decision { approved: true, by: who.to_owned(), at: Timestamp::now() }
}

fn error(code: CallErrorCode) -> CallError {
    CallError::new(code, "why")
}

on_both! {
    async fn a_call_is_recorded_and_finished_with_the_state_it_left(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let at = message(&store, &chat).await;
        let new = call(&chat, at);
        let made = insert(&store, &new).await.unwrap();
        assert_eq!((made.status, made.args.clone(), made.asked_by.as_str()), (CallStatus::Running, new.args.clone(), "token x"));
        assert_eq!(made.args_sha256, args_digest(&new.tool_id, &new.args));
        // Somebody says something while it runs: the state is that message's too.
        let later = message(&store, &chat).await;

        let outcome = CallOutcome {
            result: Some(json!({ "ok": true })),
            result_sha256: Some(ContentHash::of(b"result")),
            artifact_sha256: Some(ContentHash::of(b"artifact")),
            render_plan: Some(json!({ "renderer": "code", "config": {} })),
            warnings: vec!["odd".to_owned()],
            logs: vec![LogLine { stream: LogStream::Stdout, text: "hello".to_owned() }],
            logs_cut: 7,
            sandbox: Some(SandboxReport { layers: vec!["landlock".to_owned()], missing: Vec::new() }),
            ..CallOutcome::default()
        };
        let left = NewManifest { parent: None, root: ContentHash::of(b"root"), source: Source::ToolRun, source_ref: Some(new.id.to_string()) };
        let mut tx = store.write(&org()).await.unwrap();
        let (done, manifest) = tx.finish_call(chat.id, new.id, &outcome, Some(&left)).await.unwrap();
        tx.commit().await.unwrap();
        let manifest = manifest.unwrap();
        assert_eq!((done.status, done.outcome.post_manifest_id), (CallStatus::Success, Some(manifest.id)));
        let kept = read(&store, &new).await;
        assert_eq!(kept.outcome.result, outcome.result);
        assert_eq!((kept.outcome.logs, kept.outcome.logs_cut, kept.outcome.warnings), (outcome.logs.clone(), 7, outcome.warnings.clone()));
        assert_eq!(kept.outcome.sandbox, outcome.sandbox);
        assert!(kept.finished_at.is_some());
        let mut tx = store.read(&org()).await.unwrap();
        assert_eq!(tx.chat(chat.id).await.unwrap().unwrap().active_manifest_id, Some(manifest.id));
        for message in [at, later] {
            assert_eq!(tx.manifest_of_message(chat.id, message).await.unwrap(), Some(manifest.id));
        }
        let mut blobs = tx.call_blobs(chat.id).await.unwrap();
        blobs.sort();
        let mut expected = vec![ContentHash::of(b"result"), ContentHash::of(b"artifact")];
        expected.sort();
        assert_eq!(blobs, expected);
        drop(tx);
        // It is finished once.
        let mut tx = store.write(&org()).await.unwrap();
        assert!(matches!(tx.finish_call(chat.id, new.id, &outcome, None).await, Err(FinishError::NotRunning)));
    }

    async fn a_state_that_does_not_follow_keeps_the_call_running(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let new = call(&chat, message(&store, &chat).await);
        insert(&store, &new).await.unwrap();
        let kept = NewManifest { parent: None, root: ContentHash::of(b"1"), source: Source::Edit, source_ref: None };
        let mut tx = store.write(&org()).await.unwrap();
        tx.keep_manifest(chat.id, &kept).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = store.write(&org()).await.unwrap();
        let finished = tx.finish_call(chat.id, new.id, &CallOutcome::default(), Some(&kept)).await;
        assert!(matches!(finished, Err(FinishError::Keep(KeepError::Conflict))));
        drop(tx);
        assert_eq!(read(&store, &new).await.status, CallStatus::Running);
    }

    async fn a_call_is_decided_once_and_in_time(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let at = message(&store, &chat).await;
        let pending = || NewToolCall { expires_at: Some(Timestamp::now().plus_seconds(60)), ..call(&chat, at) };
        let (yes, no, late) = (pending(), pending(), NewToolCall { expires_at: Some(Timestamp::now()), ..call(&chat, at) });
        for new in [&yes, &no, &late] {
            assert_eq!(insert(&store, new).await.unwrap().status, CallStatus::Pending);
        }
        assert_eq!(store.read(&org()).await.unwrap().pending_calls(chat.id).await.unwrap(), 3);
        let mut tx = store.write(&org()).await.unwrap();
        let edited = object(json!({ "b": 2 }));
        let digest = args_digest(&yes.tool_id, &edited);
        let run = tx.approve_call(chat.id, yes.id, &now_by("me"), Some((&edited, digest)), "n2").await.unwrap().unwrap();
        assert_eq!((run.status, run.args, run.args_sha256), (CallStatus::Running, edited, digest));
        assert_eq!(run.decision.map(|decision| (decision.approved, decision.by)), Some((true, "me".to_owned())));
        assert!(tx.approve_call(chat.id, yes.id, &now_by("me"), None, "n2").await.unwrap().is_none());
        assert!(tx.deny_call(chat.id, yes.id, &now_by("me"), &error(CallErrorCode::Denied)).await.unwrap().is_none());
        let denied = tx.deny_call(chat.id, no.id, &now_by("me"), &error(CallErrorCode::Denied)).await.unwrap().unwrap();
        assert_eq!((denied.status, denied.outcome.error), (CallStatus::Error, Some(error(CallErrorCode::Denied))));
        assert_eq!(denied.decision.map(|decision| decision.approved), Some(false));
        assert!(tx.approve_call(chat.id, no.id, &now_by("me"), None, "n2").await.unwrap().is_none());
        assert!(tx.approve_call(chat.id, late.id, &now_by("me"), None, "n2").await.unwrap().is_none(), "it is too late");
        let expired = tx.expire_calls(Timestamp::now(), &error(CallErrorCode::Denied)).await.unwrap();
        assert_eq!(expired.iter().map(|call| call.id).collect::<Vec<_>>(), [late.id]);
        assert!(tx.expire_calls(Timestamp::now(), &error(CallErrorCode::Denied)).await.unwrap().is_empty());
        tx.commit().await.unwrap();
    }

    async fn a_restart_ends_the_calls_of_its_own_server_only(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let at = message(&store, &chat).await;
        let mine = call(&chat, at);
        let others = NewToolCall { node: "n2".to_owned(), ..call(&chat, at) };
        let waits = NewToolCall { expires_at: Some(Timestamp::now().plus_seconds(60)), ..call(&chat, at) };
        for new in [&mine, &others, &waits] {
            insert(&store, new).await.unwrap();
        }
        let mut tx = store.write(&org()).await.unwrap();
        let ended = tx.interrupt_calls("n1", &error(CallErrorCode::Interrupted)).await.unwrap();
        assert_eq!(ended.iter().map(|call| call.id).collect::<Vec<_>>(), [mine.id]);
        let taken_back = tx.end_call(chat.id, waits.id, CallStatus::Pending, &error(CallErrorCode::Cancelled)).await.unwrap();
        assert_eq!(taken_back.unwrap().status, CallStatus::Error);
        assert!(tx.end_call(chat.id, waits.id, CallStatus::Pending, &error(CallErrorCode::Cancelled)).await.unwrap().is_none());
        tx.commit().await.unwrap();
        assert_eq!(read(&store, &others).await.status, CallStatus::Running);
    }

    async fn a_key_names_one_call_of_a_chat(database: TestDatabase) {
        let store = database.open().await;
        let (chat, other) = (new_chat(&store).await, new_chat(&store).await);
        let digest = ContentHash::of(b"request");
        let keyed = |new: NewToolCall| NewToolCall { idempotency: Some(("k".to_owned(), digest)), ..new };
        let first = keyed(call(&chat, message(&store, &chat).await));
        insert(&store, &first).await.unwrap();
        let second = keyed(call(&chat, message(&store, &chat).await));
        assert!(matches!(insert(&store, &second).await, Err(StoreError::Exists)));
        insert(&store, &keyed(call(&other, message(&store, &other).await))).await.unwrap();
        let found = store.read(&org()).await.unwrap().tool_call_by_key(chat.id, "k").await.unwrap().unwrap();
        assert_eq!((found.id, found.request_sha256), (first.id, Some(digest)));
        assert!(store.read(&org()).await.unwrap().tool_call_by_key(chat.id, "j").await.unwrap().is_none());
    }

    async fn calls_are_listed_in_parts_and_by_message(database: TestDatabase) {
        let store = database.open().await;
        let chat = new_chat(&store).await;
        let (one, two) = (message(&store, &chat).await, message(&store, &chat).await);
        let mut ids = Vec::new();
        for at in [one, two, one, two, one] {
            ids.push(insert(&store, &call(&chat, at)).await.unwrap().id);
        }
        let mut tx = store.read(&org()).await.unwrap();
        let page = tx.tool_calls(chat.id, None, None, 3).await.unwrap();
        assert_eq!((page.items.iter().map(|call| call.id).collect::<Vec<_>>(), page.has_more), (ids[..3].to_vec(), true));
        let page = tx.tool_calls(chat.id, None, Some(ids[2]), 3).await.unwrap();
        assert_eq!((page.items.iter().map(|call| call.id).collect::<Vec<_>>(), page.has_more), (ids[3..].to_vec(), false));
        let page = tx.tool_calls(chat.id, Some(two), None, 3).await.unwrap();
        assert_eq!((page.items.iter().map(|call| call.id).collect::<Vec<_>>(), page.has_more), (vec![ids[1], ids[3]], false));
    }

    async fn the_audit_is_kept_with_what_it_speaks_of(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let mut tx = store.write(&org()).await.unwrap();
        tx.audit("me", Action::ToolCallApproved, "a call", &json!({ "n": 1 })).await.unwrap();
        drop(tx);
        assert!(store.read(&org()).await.unwrap().audit_trail(9).await.unwrap().is_empty(), "it was rolled back");
        let mut tx = store.write(&org()).await.unwrap();
        tx.audit("me", Action::ToolCallAsked, "x", &json!({ "n": 1 })).await.unwrap();
        tx.audit("me", Action::ToolCallDenied, "x", &json!({})).await.unwrap();
        tx.commit().await.unwrap();
        let lines = store.read(&org()).await.unwrap().audit_trail(9).await.unwrap();
        assert_eq!(lines.iter().map(|line| line.action.as_str()).collect::<Vec<_>>(), ["tool_call.denied", "tool_call.asked"]);
        assert_eq!(lines[1].details, json!({ "n": 1 }));
        assert!(store.read(&acme).await.unwrap().audit_trail(9).await.unwrap().is_empty());
    }
}
