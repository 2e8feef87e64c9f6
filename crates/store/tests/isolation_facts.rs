//! Row-level security, case by case: who is bound to what, and how many rows that is worth. The matrix of all tables is in
//! `isolation.rs`; here are the few rows that more than their own organisation may read, and what a person sees of their own.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_model::{NewPerson, OrgId, OrgRole, Person, Timestamp, UserId};
use kitbag_store::Store;
use kitbag_testkit::cluster::{APP, SUPERUSER, run, try_run};
use kitbag_testkit::database::add_organization;
use kitbag_testkit::{TestDatabase, on_both};
use sqlx::PgConnection;

/// The organisations `a` and `b` with a chat, a setting, a secret, a token and a toolset each; `p` is a member of `a` alone.
async fn seeded() -> TestDatabase {
    let database = TestDatabase::postgres().await;
    let mut superuser = database.connect(SUPERUSER).await;
    for person in ["p", "q"] {
        run(
            &mut superuser,
            &format!("INSERT INTO users VALUES ('{person}', '{person}@example.org', NULL, NULL, now())"),
        )
        .await;
        let session = format!("INSERT INTO user_sessions VALUES ('{person}', 's', 'h', NULL, now(), now(), now())");
        run(&mut superuser, &session).await;
    }
    for org in ["a", "b"] {
        for sql in [
            "INSERT INTO organizations VALUES ('{org}', now())",
            "INSERT INTO organization_settings (organization_id, name, settings, updated_at) VALUES ('{org}', 'n', '{}', now())",
            "INSERT INTO chats (organization_id, id, created_at, updated_at) VALUES ('{org}', 'x', now(), now())",
            "INSERT INTO secrets (organization_id, kind, name, sealed, updated_at) VALUES ('{org}', 'x', 'x', '', now())",
            "INSERT INTO api_tokens (organization_id, id, name, secret_sha256, scopes, created_at)
             VALUES ('{org}', 'x', 'n', 'h', 'use', now())",
            "INSERT INTO toolsets (organization_id, id, name, version, enabled, user_mcp, installed_at, updated_at, source_type,
                 manifest_version, visibility) VALUES ('{org}', 'x', 'n', '1', true, false, now(), now(), 'zip', '1', 'org')",
        ] {
            run(&mut superuser, &sql.replace("{org}", org)).await;
        }
    }
    run(
        &mut superuser,
        "INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ('a', 'p', 'member', now())",
    )
    .await;
    run(
        &mut superuser,
        "INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ('b', 'q', 'owner', now())",
    )
    .await;
    database
}

/// How many rows a statement is worth to whoever is bound so; nothing of it stays. Or the code of the refusal.
async fn worth(app: &mut PgConnection, org: &str, user: &str, sql: &str) -> Result<u64, String> {
    run(app, "BEGIN").await;
    run(app, &format!("SELECT set_config('kitbag.org', '{org}', true), set_config('kitbag.user', '{user}', true)"))
        .await;
    let done = try_run(app, sql).await;
    run(app, "ROLLBACK").await;
    done.map_err(|error| error.as_database_error().and_then(|cause| cause.code()).unwrap_or_default().into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_each_binding_is_worth() {
    let database = seeded().await;
    let mut app = database.connect(APP).await;
    let refused = || Err("42501".to_owned());
    for (who, org, user, sql, rows) in [
        ("nobody", "", "", "SELECT FROM organizations WHERE id = 'a'", Ok(0)),
        ("nobody", "", "", "SELECT FROM memberships", Ok(0)),
        ("nobody", "", "", "SELECT FROM users", Ok(0)),
        ("a person alone", "", "p", "SELECT FROM memberships", Ok(1)),
        ("a person alone", "", "p", "SELECT FROM memberships WHERE organization_id = 'b'", Ok(0)),
        ("a person alone", "", "p", "SELECT FROM users", Ok(1)),
        ("a person alone", "", "p", "SELECT FROM users WHERE id = 'q'", Ok(0)),
        ("a person alone", "", "p", "SELECT FROM user_sessions", Ok(1)),
        // To be a member lets one see the membership, and change nothing: not one's own role, not where one is a member.
        ("a person alone", "", "p", "UPDATE memberships SET role = 'owner'", Ok(0)),
        ("a person alone", "", "p", "DELETE FROM memberships", Ok(0)),
        (
            "a person alone",
            "",
            "p",
            "INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ('b', 'p', 'owner', now())",
            refused(),
        ),
        ("a person alone", "", "p", "SELECT FROM organizations", Ok(0)),
        ("a person alone", "", "p", "SELECT FROM chats", Ok(0)),
        ("a person alone", "", "p", "SELECT FROM organization_settings", Ok(0)),
        ("b", "b", "q", "SELECT FROM organizations WHERE id = 'a'", Ok(0)),
        ("b", "b", "q", "SELECT FROM organization_settings WHERE organization_id = 'a'", Ok(0)),
        ("b", "b", "q", "SELECT FROM chats WHERE organization_id = 'a'", Ok(0)),
        ("b", "b", "q", "SELECT FROM secrets WHERE organization_id = 'a'", Ok(0)),
        ("b", "b", "q", "SELECT FROM api_tokens WHERE organization_id = 'a'", Ok(0)),
        ("b", "b", "q", "SELECT FROM toolsets WHERE organization_id = 'a'", Ok(0)),
        ("b", "b", "q", "SELECT FROM memberships WHERE organization_id = 'a'", Ok(0)),
        ("b", "b", "q", "UPDATE toolsets SET name = 'theirs' WHERE organization_id = 'a'", Ok(0)),
        (
            "b",
            "b",
            "q",
            "INSERT INTO chats (organization_id, id, created_at, updated_at) VALUES ('a', 'y', now(), now())",
            refused(),
        ),
        ("a", "a", "p", "UPDATE toolsets SET name = 'ours'", Ok(1)),
        ("a", "a", "p", "SELECT FROM chats", Ok(1)),
        // Bound to an organisation and to a person: the rows of both, and of nobody else.
        ("a with a stranger", "a", "q", "SELECT FROM memberships", Ok(2)),
        ("a with a stranger", "a", "q", "UPDATE memberships SET role = 'owner'", Ok(1)),
    ] {
        assert_eq!(worth(&mut app, org, user, sql).await, rows, "{who}: {sql}");
    }
}

async fn member(store: &Store, email: &str, orgs: &[&OrgId]) -> UserId {
    let id = UserId::generate();
    let email: kitbag_model::Email = email.parse().unwrap();
    let new = NewPerson { id, email: email.clone(), display_name: None, password_hash: None };
    let mut tx = store.person(id).await.unwrap();
    tx.create(&new, &[]).await.unwrap();
    tx.commit().await.unwrap();
    let person = Person { id, email, display_name: None, password_hash: None, created_at: Timestamp::now() };
    for org in orgs {
        let mut tx = store.write(org).await.unwrap();
        tx.add_member(&person, OrgRole::Member).await.unwrap();
        tx.commit().await.unwrap();
    }
    id
}

on_both! {
    async fn a_person_sees_where_they_are_a_member(database: TestDatabase) {
        let (store, a) = database.open_with("a").await;
        let (b, _) = (add_organization(&store, "b").await, add_organization(&store, "c").await);
        let both = member(&store, "both@example.org", &[&a, &b]).await;
        let one = member(&store, "one@example.org", &[&b]).await;
        let none = member(&store, "none@example.org", &[]).await;
        for (user, expected) in [(both, vec!["a", "b"]), (one, vec!["b"]), (none, vec![]), (UserId::generate(), vec![])] {
            let found = store.read_person(user).await.unwrap().memberships().await.unwrap();
            assert_eq!(found.iter().map(|(org, _)| org.as_str()).collect::<Vec<_>>(), expected);
        }
        assert!(store.read(&a).await.unwrap().member(one).await.unwrap().is_none());
    }
}
