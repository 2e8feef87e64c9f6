//! Making, upgrading and refusing schemas.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_store::migrate::{migrate_further, migrate_postgres, newest};
use kitbag_store::{Location, OpenError, Store};
use kitbag_testkit::cluster::{APP, Cluster, OWNER, SUPERUSER, run};
use sqlx::{Connection, Executor, SqliteConnection};

async fn open(location: Location) -> Result<Store, OpenError> {
    Store::open(&location).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_postgres_is_refused_until_it_is_migrated() {
    let cluster = Cluster::get().await;
    let name = cluster.empty_database().await;
    let app = || Location::Postgres(cluster.url(APP, &name));
    assert!(matches!(open(app()).await, Err(OpenError::NeedsMigration { found: 0, .. })));
    let done = migrate_postgres(&cluster.url(OWNER, &name), APP).await.unwrap();
    assert_eq!((done.from, done.to, done.made_role), (0, newest(), false));
    open(app()).await.unwrap().ping().await.unwrap();
    let again = migrate_postgres(&cluster.url(OWNER, &name), APP).await.unwrap();
    assert_eq!((again.from, again.to), (newest(), newest()));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_migrators_at_once_are_one() {
    let cluster = Cluster::get().await;
    let url = cluster.url(OWNER, &cluster.empty_database().await);
    let mut migrators = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let url = url.clone();
        migrators.spawn(async move { migrate_postgres(&url, APP).await.unwrap().from });
    }
    let mut from = migrators.join_all().await;
    from.sort_unstable();
    assert_eq!(from, [0, newest(), newest(), newest(), newest(), newest()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_postgres_is_refused_and_left_alone() {
    let cluster = Cluster::get().await;
    let name = cluster.migrated_database().await;
    let mut owner = cluster.connect(OWNER, &name).await;
    run(&mut owner, "INSERT INTO schema_migrations VALUES (9999, 'future', '', '', NULL)").await;
    let found = open(Location::Postgres(cluster.url(APP, &name))).await;
    assert!(matches!(found, Err(OpenError::Newer { found: 9999, .. })));
    let found = migrate_postgres(&cluster.url(OWNER, &name), APP).await;
    assert!(matches!(found, Err(OpenError::Newer { found: 9999, .. })));

    // It says that this program survives what it changed: so that works with it, and still changes nothing.
    for (oldest, survives) in [(newest(), true), (newest() + 1, false)] {
        let says = format!("UPDATE schema_migrations SET oldest_program = {oldest} WHERE version = 9999");
        run(&mut owner, &says).await;
        match open(Location::Postgres(cluster.url(APP, &name))).await {
            Ok(store) if survives => store.ping().await.unwrap(),
            Err(OpenError::Newer { .. }) if !survives => {}
            other => panic!("{oldest}: {:?}", other.err()),
        }
        let found = migrate_postgres(&cluster.url(OWNER, &name), APP).await;
        assert!(matches!(found, Err(OpenError::Newer { found: 9999, .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_works_with_what_is_to_change_is_not_ended_and_keeps_nobody_from_it() {
    let cluster = Cluster::get().await;
    let name = cluster.migrated_database().await;
    let mut worker = cluster.connect(APP, &name).await;
    run(&mut worker, "BEGIN").await;
    run(&mut worker, "SELECT count(*) FROM messages").await;
    let owner = cluster.url(OWNER, &name);
    let change = "ALTER TABLE chats ADD COLUMN future TEXT;\nALTER TABLE messages ADD COLUMN future TEXT;";
    let migrating = tokio::spawn(async move { migrate_further(&owner, APP, change).await });
    let mut looker = cluster.connect(SUPERUSER, &name).await;
    // It has the one and waits for the other.
    while sqlx::query_scalar::<_, i64>(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'messages'::regclass",
    )
    .fetch_one(&mut looker)
    .await
    .unwrap()
        == 0
    {
        assert!(!migrating.is_finished(), "{:?}", migrating.await);
    }
    // Who waits for each other ends when one of them is ended.
    run(&mut worker, "SELECT count(*) FROM chats").await;
    run(&mut worker, "COMMIT").await;
    let done = migrating.await.unwrap().unwrap();
    assert_eq!((done.from, done.to), (newest(), newest() + 1));
    run(&mut worker, "SELECT future FROM messages").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_app_role_is_made_when_it_is_missing_and_may_be() {
    let cluster = Cluster::get().await;
    let name = cluster.empty_database().await;
    let role = format!("app {name}");
    let refused = migrate_postgres(&cluster.url(OWNER, &name), &role).await;
    assert!(matches!(refused, Err(OpenError::AppRole { .. })), "an owner without CREATEROLE cannot make it");
    let mut owner = cluster.connect(OWNER, &name).await;
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        .fetch_one(&mut owner)
        .await
        .unwrap();
    assert_eq!(tables, 0, "a refused migration leaves nothing behind");
    assert!(migrate_postgres(&cluster.url(SUPERUSER, &name), &role).await.unwrap().made_role);
    for unsafe_role in [SUPERUSER, OWNER] {
        let refused = migrate_postgres(&cluster.url(unsafe_role, &name), unsafe_role).await;
        assert!(refused.is_err(), "{unsafe_role} is no app role");
    }
}

#[tokio::test]
async fn a_sqlite_file_is_made_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let location = || Location::Sqlite(folder.path().join("kitbag.db"));
    open(location()).await.unwrap().close().await;
    open(location()).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_newer_sqlite_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kitbag.db");
    open(Location::Sqlite(path.clone())).await.unwrap().close().await;
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    connection.execute("INSERT INTO schema_migrations VALUES (9999, 'future', '', '', NULL)").await.unwrap();
    let message = open(Location::Sqlite(path.clone())).await.err().unwrap().to_string();
    assert!(message.contains("9999") && message.contains("newer Kitbag"), "{message}");
    let says = "UPDATE schema_migrations SET oldest_program = $1 WHERE version = 9999";
    sqlx::query(says).bind(newest()).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    open(Location::Sqlite(path)).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kitbag.db");
    std::fs::write(&path, "this is no database, but it is long enough to have a header".repeat(20)).unwrap();
    let message = open(Location::Sqlite(path.clone())).await.err().unwrap().to_string();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is no database"), "the file was changed");
}

#[tokio::test]
async fn a_url_that_is_none_is_not_repeated() {
    for url in ["mysql://u:hunter2@h/d", "postgres://u:hunter2@h:notaport/d"] {
        let message = open(Location::Postgres(kitbag_model::Secret::new(url))).await.err().unwrap().to_string();
        assert!(!message.contains("hunter2"), "{message}");
    }
}

/// The schema that both databases end up with is one: tables, columns, nullability and keys.
#[tokio::test(flavor = "multi_thread")]
async fn both_databases_have_one_schema() {
    let cluster = Cluster::get().await;
    let name = cluster.migrated_database().await;
    let mut pg = cluster.connect(OWNER, &name).await;
    let on_postgres: Vec<String> = sqlx::query_scalar(
        "SELECT c.table_name || '.' || c.column_name || CASE WHEN c.is_nullable = 'NO' THEN ' not null' ELSE '' END
                || CASE WHEN k.column_name IS NOT NULL THEN ' key' ELSE '' END
         FROM information_schema.columns c
         LEFT JOIN (SELECT u.table_name, u.column_name FROM information_schema.key_column_usage u
                    JOIN information_schema.table_constraints t USING (constraint_name, table_schema)
                    WHERE t.constraint_type = 'PRIMARY KEY') k USING (table_name, column_name)
         WHERE c.table_schema = 'public' ORDER BY 1",
    )
    .fetch_all(&mut pg)
    .await
    .unwrap();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kitbag.db");
    open(Location::Sqlite(path.clone())).await.unwrap().close().await;
    let mut lite = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let mut on_sqlite: Vec<String> = sqlx::query_scalar(
        "SELECT m.name || '.' || c.name || CASE WHEN c.\"notnull\" THEN ' not null' ELSE '' END
                || CASE WHEN c.pk > 0 THEN ' key' ELSE '' END
         FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'",
    )
    .fetch_all(&mut lite)
    .await
    .unwrap();
    on_sqlite.sort();
    assert!(on_postgres.len() > 100);
    let mut on_postgres = on_postgres;
    on_postgres.sort();
    assert_eq!(on_postgres, on_sqlite);
}
