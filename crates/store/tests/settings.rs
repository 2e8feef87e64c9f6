//! What organisations say about themselves, what they gave to be kept sealed, and what goes for its age, on both databases.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_model::{Action, NewChat, OrgId, OrgSettings, Timestamp};
use kitbag_store::{Store, trim_audit_postgres};
use kitbag_testkit::cluster::OWNER;
use kitbag_testkit::on_both;
use serde_json::{Value, json};

fn settings(value: Value) -> OrgSettings {
    serde_json::from_value(value).unwrap()
}

async fn keep(store: &Store, org: &OrgId, settings: &OrgSettings) {
    let mut tx = store.write(org).await.unwrap();
    tx.put_settings(settings).await.unwrap();
    tx.commit().await.unwrap();
}

async fn actions(store: &Store, org: &OrgId) -> Vec<String> {
    let lines = store.read(org).await.unwrap().audit_trail(5_000).await.unwrap();
    lines.into_iter().map(|line| line.action).collect()
}

on_both! {
    async fn settings_are_an_organisations_own(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let local = OrgId::local();
        let kept = settings(json!({ "toolsets": { "defaultToolsetId": "files" }, "quotas": { "callsPerMinute": 5 } }));
        keep(&store, &acme, &kept).await;
        assert_eq!(store.read(&acme).await.unwrap().settings().await.unwrap().unwrap().0, kept);
        assert_eq!(store.read(&local).await.unwrap().settings().await.unwrap().unwrap().0, OrgSettings::default());
        assert!(store.read(&"none".parse().unwrap()).await.unwrap().settings().await.unwrap().is_none());
        // Another toolset that goes changes nothing, and what is not committed neither.
        for (gone, commit, left) in [("other", true, Some("files")), ("files", false, Some("files")), ("files", true, None)] {
            let mut tx = store.write(&acme).await.unwrap();
            assert_eq!(tx.replace_default_toolset(&gone.parse().unwrap(), None).await.unwrap(), gone == "files");
            if commit {
                tx.commit().await.unwrap();
            } else {
                drop(tx);
            }
            let (now, _) = store.read(&acme).await.unwrap().settings().await.unwrap().unwrap();
            assert_eq!(now.toolsets.default_toolset_id.as_ref().map(|id| id.as_str()), left);
            assert_eq!(now.quotas, kept.quotas);
        }
    }

    async fn sealed_values_are_listed_and_sealed_anew(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let mut tx = store.write(&acme).await.unwrap();
        tx.give_secret("organization", "llm.openai", b"1", "somebody").await.unwrap();
        for (kind, name) in [("organization", "llm.anthropic"), ("tokens", "a~a"), ("tokens", "b~b")] {
            tx.put_secret(kind, name, b"1").await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut tx = store.read(&acme).await.unwrap();
        let kept = tx.kept_secrets("organization").await.unwrap();
        let told: Vec<_> = kept.iter().map(|one| (one.name.as_str(), one.updated_by.as_deref())).collect();
        assert_eq!(told, [("llm.anthropic", None), ("llm.openai", Some("somebody"))]);
        let (mut all, mut after) = (Vec::new(), (String::new(), String::new()));
        loop {
            let part = tx.secrets_after((&after.0, &after.1), 3).await.unwrap();
            let Some((kind, name, _)) = part.last().cloned() else { break };
            after = (kind, name);
            all.extend(part.into_iter().map(|(kind, name, _)| format!("{kind} {name}")));
        }
        assert_eq!(all, ["organization llm.anthropic", "organization llm.openai", "tokens a~a", "tokens b~b"]);
        drop(tx);
        let mut tx = store.write(&acme).await.unwrap();
        assert!(!tx.reseal_secret("tokens", "a~a", b"0", b"2").await.unwrap(), "somebody else changed it");
        assert!(tx.reseal_secret("tokens", "a~a", b"1", b"2").await.unwrap());
        assert_eq!(tx.secret("tokens", "a~a").await.unwrap().unwrap(), b"2");
        assert_eq!(tx.secret("tokens", "b~b").await.unwrap().unwrap(), b"1");
    }

    async fn chats_that_nobody_touched_are_found_and_go(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let mut tx = store.write(&acme).await.unwrap();
        let mut chats = Vec::new();
        for _ in 0..5 {
            chats.push(tx.create_chat(&NewChat::default()).await.unwrap().id);
        }
        tx.commit().await.unwrap();
        database.make_old().await;
        let mut tx = store.write(&acme).await.unwrap();
        let young = tx.create_chat(&NewChat::default()).await.unwrap().id;
        tx.commit().await.unwrap();
        let before = Timestamp::now().minus_days(1);
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let part = store.read(&acme).await.unwrap().untouched_chats(before, after, 2).await.unwrap();
            let Some(last) = part.last().copied() else { break };
            found.extend(part.into_iter().map(|(chat, _)| chat));
            after = Some(last);
        }
        assert_eq!(found, chats, "all of them, each once, and none that is young");
        assert!(store.read(&OrgId::local()).await.unwrap().untouched_chats(before, None, 9).await.unwrap().is_empty());
        let mut tx = store.write(&acme).await.unwrap();
        assert!(!tx.expire_chat(young, before).await.unwrap());
        assert!(tx.expire_chat(chats[0], before).await.unwrap());
        tx.commit().await.unwrap();
        assert!(store.read(&acme).await.unwrap().chat(young).await.unwrap().is_some());
        assert!(store.read(&acme).await.unwrap().chat(chats[0]).await.unwrap().is_none());
    }

    async fn old_lines_of_the_audit_go_by_whoever_may(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let local = OrgId::local();
        for org in [&acme, &local] {
            let mut tx = store.write(org).await.unwrap();
            for _ in 0..1_500 {
                tx.audit("somebody", Action::ToolsetEnabled, "x", &json!({})).await.unwrap();
            }
            tx.commit().await.unwrap();
        }
        keep(&store, &acme, &settings(json!({ "retention": { "auditDays": 1 } }))).await;
        database.make_old().await;
        let mut tx = store.write(&acme).await.unwrap();
        tx.audit("somebody", Action::ToolsetDisabled, "x", &json!({})).await.unwrap();
        tx.commit().await.unwrap();
        let before = Timestamp::now().minus_days(1);
        if store.may_trim_audit() {
            assert_eq!(store.trim_audit(&acme, before, "test").await.unwrap(), 1_500);
        } else {
            assert!(store.trim_audit(&acme, before, "test").await.is_err(), "the role that serves cannot");
            let trimmed = trim_audit_postgres(&database.url(OWNER), "test").await.unwrap();
            assert_eq!(trimmed.iter().map(|one| (one.org.as_str(), one.lines)).collect::<Vec<_>>(), [("acme", 1_500)]);
            // Nothing of the way is left: a server that starts finds the table as it was.
            drop(database.open().await);
            assert!(store.trim_audit(&acme, before, "test").await.is_err());
        }
        let left = actions(&store, &acme).await;
        assert_eq!(left.iter().filter(|action| *action == "toolset.enabled").count(), 0);
        assert!(left.contains(&"toolset.disabled".to_owned()) && left.contains(&"audit.trimmed".to_owned()), "{left:?}");
        assert_eq!(actions(&store, &local).await.len(), 1_500, "nobody else's");
    }
}
