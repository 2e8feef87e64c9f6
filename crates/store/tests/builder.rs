//! Conversations in which toolsets are put together, on both databases.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_model::Maker;
use kitbag_model::builder::{BuilderLlm, BuilderRole, BuilderStatus, MOST_TURNS, NewBuilderSession};
use kitbag_model::{BuilderSessionId, OrgId};
use kitbag_testkit::on_both;
use serde_json::json;

fn new() -> NewBuilderSession {
    let llm = BuilderLlm { provider: Maker::Anthropic, model: "a-model".to_owned() };
    NewBuilderSession { id: BuilderSessionId::generate(), llm, user: None, created_by: "somebody".to_owned() }
}

on_both! {
    async fn what_is_said_is_kept_in_order_and_the_newest_is_read(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let session = new();
        let mut tx = store.write(&acme).await.unwrap();
        tx.create_builder_session(&session).await.unwrap();
        for n in 0..MOST_TURNS / 2 {
            let (asked, said, chosen) = (format!("asked {n}"), format!("said {n}"), vec![format!("key.{n}")]);
            let turns = [(BuilderRole::User, asked.as_str()), (BuilderRole::Assistant, said.as_str())];
            assert!(tx.add_builder_turns(session.id, &turns, Some(&asked), &chosen).await.unwrap());
        }
        let more = tx.add_builder_turns(session.id, &[(BuilderRole::User, "more")], None, &[]).await.unwrap();
        assert!(!more, "it is long enough");
        tx.commit().await.unwrap();
        let mut tx = store.read(&acme).await.unwrap();
        let kept = tx.builder_session(session.id).await.unwrap().unwrap();
        assert_eq!((kept.status, kept.turns, kept.llm), (BuilderStatus::Active, MOST_TURNS, session.llm));
        assert_eq!((kept.latest_intent.as_deref(), kept.selected), (Some("asked 49"), vec!["key.49".to_owned()]));
        let turns = tx.builder_turns(session.id, 3).await.unwrap();
        let said: Vec<_> = turns.iter().map(|turn| (turn.role, turn.text.as_str())).collect();
        use BuilderRole::{Assistant, User};
        assert_eq!(said, [(Assistant, "said 48"), (User, "asked 49"), (Assistant, "said 49")]);
        drop(tx);
        let mut other = store.read(&OrgId::local()).await.unwrap();
        assert!(other.builder_session(session.id).await.unwrap().is_none());
        assert!(other.builder_turns(session.id, 9).await.unwrap().is_empty());
    }

    async fn what_is_over_stays_as_it_is(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let session = new();
        let mut tx = store.write(&acme).await.unwrap();
        tx.create_builder_session(&session).await.unwrap();
        let (draft, warnings) = (json!({ "name": "it" }), vec!["It wants \"X\".".to_owned()]);
        assert!(tx.finalize_builder_session(session.id, &["a".to_owned()], &draft, &warnings).await.unwrap());
        assert!(!tx.finalize_builder_session(session.id, &[], &json!({}), &[]).await.unwrap());
        assert!(!tx.add_builder_turns(session.id, &[(BuilderRole::User, "more")], None, &[]).await.unwrap());
        let kept = tx.builder_session(session.id).await.unwrap().unwrap();
        assert_eq!((kept.status, kept.final_draft, kept.turns), (BuilderStatus::Finalized, Some(draft), 0));
        assert_eq!((kept.selected, kept.final_warnings), (vec!["a".to_owned()], warnings));
        assert_eq!((kept.user, kept.created_by.as_str()), (None, "somebody"));
    }
}
