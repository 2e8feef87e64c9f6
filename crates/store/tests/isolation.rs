//! Row-level security as it acts: what a connection of the app role reaches with its own organisation bound, with
//! another one and with none. How the schema is declared, and what the program refuses to serve, is for
//! `isolation_catalogue.rs`; what connections carry from one borrower to the next is for `isolation_pool.rs`.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_testkit::TestDatabase;
use kitbag_testkit::cluster::{APP, OWNER, SUPERUSER, run, try_run};
use sqlx::PgConnection;

/// One row of every table that row-level security protects, parents first. `{org}` is the organisation. All other ids
/// are the same in every organisation, so that a key without the organisation would collide.
const FIXTURES: &[(&str, &str)] = &[
    ("users", "(id, email, created_at) VALUES ('{org}', '{org}@example.org', now())"),
    ("identities", "(id, user_id, created_at) VALUES ('{org}', '{org}', now())"),
    (
        "user_sessions",
        "(user_id, id, secret_sha256, created_at, last_seen_at, expires_at)
         VALUES ('{org}', 'x', 'h', now(), now(), now())",
    ),
    ("organizations", "(id, created_at) VALUES ('{org}', now())"),
    ("organization_settings", "(organization_id, name, settings, updated_at) VALUES ('{org}', 'n', '{}', now())"),
    ("memberships", "(organization_id, user_id, role, created_at) VALUES ('{org}', 'x', 'member', now())"),
    (
        "invitations",
        "(organization_id, id, email, role, secret_sha256, invited_by, created_at, expires_at)
         VALUES ('{org}', 'x', 'x@example.org', 'member', 'h', 'x', now(), now())",
    ),
    // One that was taken back: it is its organisation's alone. What is published is for another test.
    (
        "gallery_toolsets",
        "(slug, organization_id) VALUES ('{org}', '{org}')",
    ),
    (
        "api_tokens",
        "(organization_id, id, user_id, name, secret_sha256, scopes, created_at)
         VALUES ('{org}', 'x', 'x', 'n', 'h', 'use', now())",
    ),
    (
        "sessions",
        "(organization_id, id, token_id, secret_sha256, created_at, expires_at)
         VALUES ('{org}', 'x', 'x', 'h', now(), now())",
    ),
    (
        "toolsets",
        "(organization_id, id, name, version, enabled, user_mcp, installed_at, updated_at, source_type,
          manifest_version, visibility)
         VALUES ('{org}', 'x', 'n', '1', true, false, now(), now(), 'zip', '1', 'org')",
    ),
    (
        "toolset_files",
        "(organization_id, toolset_id, path, kind, sha256, size, executable, stored_path)
         VALUES ('{org}', 'x', 'x', 'asset', 'h', 0, false, 'x')",
    ),
    (
        "tools",
        "(organization_id, tool_id, toolset_id, position, name, enabled)
         VALUES ('{org}', 'x', 'x', 0, 'n', true)",
    ),
    ("tool_overrides", "(organization_id, id, toolset_id, tool_id, origin) VALUES ('{org}', 'x', 'x', 'x', 'user')"),
    (
        "toolset_mcp_servers",
        "(organization_id, toolset_id, id, position, server_type, enabled, created_at)
         VALUES ('{org}', 'x', 'x', 0, 'stdio', true, now())",
    ),
    (
        "toolset_docker_containers",
        "(organization_id, toolset_id, id, position, definition, created_at) VALUES ('{org}', 'x', 'x', 0, '{}', now())",
    ),
    (
        "toolset_skills",
        "(organization_id, toolset_id, id, position, listed, name, path, enabled)
         VALUES ('{org}', 'x', 'x', 0, true, 'n', 'x', true)",
    ),
    ("builtin_overrides", "(organization_id, tool_id) VALUES ('{org}', 'x')"),
    (
        "trust_records",
        "(organization_id, toolset_id, server_id, config_sha256, trusted_at) VALUES ('{org}', 'x', 'x', 'h', now())",
    ),
    (
        "tool_pins",
        "(organization_id, toolset_id, server_id, tool_name, position, listed, state, seen_sha256, seen, accepted_sha256,
          first_seen_at, last_seen_at)
         VALUES ('{org}', 'x', 'x', 'x', 0, true, 'accepted', 'h', '{}', 'h', now(), now())",
    ),
    ("secrets", "(organization_id, kind, name, sealed, updated_at) VALUES ('{org}', 'x', 'x', '', now())"),
    ("chats", "(organization_id, id, created_at, updated_at) VALUES ('{org}', 'x', now(), now())"),
    ("mcp_chats", "(organization_id, owner, chat_id) VALUES ('{org}', 'x', 'x')"),
    (
        "workspace_manifests",
        "(organization_id, chat_id, id, root, created_at, source) VALUES ('{org}', 'x', 'x', 'r', now(), 'initial')",
    ),
    ("workspace_nodes", "(organization_id, chat_id, hash, bytes) VALUES ('{org}', 'x', 'x', '')"),
    (
        "messages",
        "(organization_id, chat_id, id, position, role, content, manifest_id, created_at)
         VALUES ('{org}', 'x', 'x', 1, 'user', '\"hi\"', 'x', now())",
    ),
    (
        "tool_calls",
        "(organization_id, chat_id, id, message_id, tool_id, args, args_sha256, asked_by, idempotency_key, node_id, status,
          logs_cut, started_at, pre_manifest_id, post_manifest_id)
         VALUES ('{org}', 'x', 'x', 'x', 'x', '{}', 'h', 'x', 'x', 'x', 'running', 0, now(), 'x', 'x')",
    ),
    (
        "tool_descriptions",
        "(organization_id, toolset_id, generation, description, made_at) VALUES ('{org}', 'x', 'g', '{}', now())",
    ),
    (
        "executor_pairings",
        "(organization_id, id, secret_sha256, pool, labels, created_by, created_at, expires_at)
         VALUES ('{org}', 'x', 'h', 'byon', '[]', 'x', now(), now())",
    ),
    (
        "executors",
        "(organization_id, id, name, pool, labels, secret_sha256, version, engines, capacity, created_at)
         VALUES ('{org}', 'x', 'n', 'byon', '[]', 'h', '1', '[]', 1, now())",
    ),
    (
        "agent_runs",
        "(organization_id, id, config, application, chat_id, pre_manifest_id, post_manifest_id, apply, state, attempt,
          max_attempts, cancel_requested, events, created_by, created_at)
         VALUES ('{org}', 'x', '{}', '{}', 'x', 'x', 'x', true, 'queued', 0, 1, false, 0, 'x', now())",
    ),
    (
        "agent_run_events",
        "(organization_id, run_id, n, attempt, seq, at, event) VALUES ('{org}', 'x', 1, 1, 1, now(), '{}')",
    ),
    (
        "run_queue",
        "(organization_id, run_id, pool, engine, since) VALUES ('{org}', 'x', 'byon', 'e', now())",
    ),
    (
        "toolset_builder_sessions",
        "(organization_id, id, status, llm, selected_component_keys, final_warnings, turns, created_by, created_at, updated_at)
         VALUES ('{org}', 'x', 'ACTIVE', '{}', '[]', '[]', 1, 'x', now(), now())",
    ),
    (
        "toolset_builder_turns",
        "(organization_id, session_id, n, role, message_text, created_at) VALUES ('{org}', 'x', 1, 'USER', 'x', now())",
    ),
    (
        "audit",
        "(organization_id, id, at, actor, action, subject, details) VALUES ('{org}', 'x', now(), 'x', 'x', 'x', '{}')",
    ),
    (
        "chat_leases",
        "(organization_id, chat_id, node_id, home, epoch, taken_at) VALUES ('{org}', 'x', 'x', 'x', 1, now())",
    ),
    ("call_budgets", "(organization_id, thousandths, at) VALUES ('{org}', 1, now())"),
    (
        "server_leases",
        "(organization_id, server_key, node_id, epoch, taken_at) VALUES ('{org}', 'x', 'x', 1, now())",
    ),
    ("deleted_chats", "(organization_id, chat_id, deleted_at) VALUES ('{org}', 'x', now())"),
    ("node_lines", "(organization_id, id, line) VALUES ('{org}', 'x', '{}')"),
];

/// Tables whose rows may be added and read, and no more.
const APPEND_ONLY: &[&str] = &["audit"];

const REFUSED: Result<u64, &str> = Err("42501");
const BROKEN_REFERENCE: Result<u64, &str> = Err("23503");

/// The tables that must be protected, as the catalogue has them, and the column that says whose a row is.
async fn tables(connection: &mut PgConnection) -> Vec<(String, String)> {
    sqlx::query_as(
        "SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
           AND a.attname = CASE WHEN c.relname IN ('organizations', 'users') THEN 'id'
                                WHEN c.relname IN ('identities', 'user_sessions') THEN 'user_id' ELSE 'organization_id' END
         ORDER BY 1",
    )
    .fetch_all(connection)
    .await
    .unwrap()
}

fn insert(table: &str, values: &str, org: &str) -> String {
    format!("INSERT INTO {table} {}", values.replace("{org}", org))
}

/// A database with the organisations `a` and `b`, each with one row in every table, and a member `x` of both.
async fn seeded() -> TestDatabase {
    let database = TestDatabase::postgres().await;
    let mut superuser = database.connect(SUPERUSER).await;
    run(&mut superuser, &insert("users", FIXTURES[0].1, "x")).await;
    for org in ["a", "b"] {
        for (table, values) in FIXTURES {
            run(&mut superuser, &insert(table, values, org)).await;
        }
    }
    database
}

/// Binds the open transaction to an organisation, and to the person of the same id.
async fn bind(connection: &mut PgConnection, org: &str) {
    let sql = format!("SELECT set_config('kitbag.org', '{org}', true), set_config('kitbag.user', '{org}', true)");
    run(connection, &sql).await;
}

/// How many rows a statement touched, or the SQLSTATE of its refusal.
async fn outcome(connection: &mut PgConnection, sql: &str) -> Result<u64, String> {
    let code = |error: sqlx::Error| match error.as_database_error().and_then(|cause| cause.code()) {
        Some(code) => code.into_owned(),
        None => panic!("{sql}: {error}"),
    };
    try_run(connection, sql).await.map_err(code)
}

/// The outcome of one statement in a transaction that is bound to `org` and rolled back.
async fn attempt(connection: &mut PgConnection, org: Option<&str>, sql: &str) -> Result<u64, String> {
    run(connection, "BEGIN").await;
    if let Some(org) = org {
        bind(connection, org).await;
    }
    let outcome = outcome(connection, sql).await;
    run(connection, "ROLLBACK").await;
    outcome
}

async fn strings(connection: &mut PgConnection, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(connection).await.unwrap()
}

/// One cell of the matrix: who tries what, and what may come of it.
struct Cell {
    who: &'static str,
    org: Option<&'static str>,
    sql: String,
    allowed: &'static [Result<u64, &'static str>],
}

/// What is tried on one table. The rows aimed at are those of `a`.
fn cells(table: &str, column: &str, values: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |who, org, sql: &str, allowed| cells.push(Cell { who, org, sql: sql.to_owned(), allowed });
    let (select, update, delete) =
        (format!("SELECT FROM {table}"), format!("UPDATE {table} SET {column} = 'a'"), format!("DELETE FROM {table}"));
    for all in [select, update, delete] {
        // A condition reads the column, and then the policy for SELECT guards UPDATE and DELETE too. Only a statement
        // without one shows what their own policies are worth.
        let one = format!("{all} WHERE {column} = 'a'");
        // What other rows refer to cannot be deleted, but it was reached.
        let (reached, missed): (&[_], &[_]) = match &all {
            all if APPEND_ONLY.contains(&table) && !all.starts_with("SELECT") => (&[REFUSED], &[REFUSED]),
            all if all.starts_with("DELETE") => (&[Ok(1), BROKEN_REFERENCE], &[Ok(0)]),
            _ => (&[Ok(1)], &[Ok(0)]),
        };
        for sql in [&all, &one] {
            add("own", Some("a"), sql, reached);
            add("none", None, sql, missed);
        }
        add("other", Some("b"), &one, missed);
        add("other, without rows", Some("stranger"), &all, missed);
    }
    add("other", Some("b"), &insert(table, values, "a"), &[REFUSED]);
    add("other, a new one", Some("b"), &insert(table, values, "new"), &[REFUSED]);
    add("none", None, &insert(table, values, "a"), &[REFUSED]);
    add("own, given away", Some("a"), &format!("UPDATE {table} SET {column} = 'b'"), &[REFUSED]);
    cells
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_shows_and_changes_rows_of_the_bound_organisation_only() {
    let database = seeded().await;
    let mut app = database.connect(APP).await;
    // A connection that was bound before has an empty setting, one that never was has none.
    let mut never_bound = database.connect(APP).await;
    let mut failures = Vec::new();
    for (table, column) in tables(&mut app).await {
        let Some((_, values)) = FIXTURES.iter().find(|(name, _)| *name == table) else {
            failures.push(format!("{table}: it has no fixture in this test"));
            continue;
        };
        for Cell { who, org, sql, allowed } in cells(&table, &column, values) {
            let mut outcomes = vec![attempt(&mut app, org, &sql).await];
            if org.is_none() {
                outcomes.push(attempt(&mut never_bound, org, &sql).await);
            }
            outcomes.retain(|outcome| !allowed.contains(&outcome.as_ref().copied().map_err(String::as_str)));
            failures.extend(outcomes.iter().map(|was| format!("{table}, {who}: {sql}: {was:?}, not {allowed:?}")));
        }
    }
    run(&mut app, "BEGIN").await;
    bind(&mut app, "c").await;
    for (table, values) in FIXTURES {
        let outcome = outcome(&mut app, &insert(table, values, "c")).await;
        if outcome != Ok(1) {
            failures
                .push(format!("{table}, own: a row of a new organisation: {outcome:?}, and what follows is not tried"));
            break;
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_organisation_takes_its_own_rows_along_and_no_others() {
    let database = seeded().await;
    let mut app = database.connect(APP).await;
    run(&mut app, "BEGIN").await;
    bind(&mut app, "a").await;
    assert_eq!(outcome(&mut app, "DELETE FROM organizations").await, Ok(1));
    run(&mut app, "COMMIT").await;
    let mut superuser = database.connect(SUPERUSER).await;
    for (table, column) in
        tables(&mut superuser).await.iter().filter(|(table, column)| table != "users" && column != "user_id")
    {
        let count = |org| format!("SELECT FROM {table} WHERE {column} = '{org}'");
        assert_eq!(outcome(&mut superuser, &count("a")).await, Ok(0), "{table} keeps rows");
        assert_eq!(outcome(&mut superuser, &count("b")).await, Ok(1), "{table} lost the other's row");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_is_bound_too_because_row_level_security_is_forced() {
    let database = seeded().await;
    let mut owner = database.connect(OWNER).await;
    for (table, _) in tables(&mut owner).await {
        let select = format!("SELECT FROM {table}");
        assert_eq!(attempt(&mut owner, None, &select).await, Ok(0), "{table}");
        assert_eq!(attempt(&mut owner, Some("a"), &select).await, Ok(1), "{table}");
        run(&mut owner, &format!("ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")).await;
        let unforced = attempt(&mut owner, None, &select).await.unwrap();
        assert!(unforced >= 2, "{table}: without FORCE an owner sees every row, else this test proves nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bound_organisation_there_are_no_rows_and_no_errors() {
    let database = seeded().await;
    let mut app = database.connect(APP).await;
    let tables = tables(&mut app).await;
    for (end, left_behind) in [("", None), ("COMMIT", Some("")), ("ROLLBACK", Some(""))] {
        if !end.is_empty() {
            run(&mut app, "BEGIN").await;
            bind(&mut app, "a").await;
            run(&mut app, end).await;
        }
        let setting: Option<String> =
            sqlx::query_scalar("SELECT current_setting('kitbag.org', true)").fetch_one(&mut app).await.unwrap();
        assert_eq!(setting.as_deref(), left_behind, "after {end:?}");
        for (table, _) in &tables {
            assert_eq!(outcome(&mut app, &format!("SELECT FROM {table}")).await, Ok(0), "{table} after {end:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_another_organisation_is_as_free_as_any() {
    let database = TestDatabase::postgres().await;
    let mut superuser = database.connect(SUPERUSER).await;
    let chat = "INSERT INTO chats (organization_id, id, created_at, updated_at) VALUES";
    run(&mut superuser, "INSERT INTO organizations VALUES ('a', now()), ('b', now())").await;
    run(&mut superuser, &format!("{chat} ('b', 'taken', now(), now())")).await;
    let mut app = database.connect(APP).await;
    for id in ["taken", "free"] {
        for conflict in ["", "ON CONFLICT DO NOTHING", "ON CONFLICT (organization_id, id) DO UPDATE SET title = 'mine'"]
        {
            let own = format!("{chat} ('a', '{id}', now(), now()) {conflict}");
            assert_eq!(attempt(&mut app, Some("a"), &own).await, Ok(1), "{own}");
            let others = format!("{chat} ('b', '{id}', now(), now()) {conflict}");
            assert_eq!(attempt(&mut app, Some("a"), &others).await, Err("42501".to_owned()), "{others}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_cannot_lead_into_another_organisation() {
    let database = seeded().await;
    let mut superuser = database.connect(SUPERUSER).await;
    for only_in_b in [
        "users (id, email, created_at) VALUES ('only', 'only@example.org', now())",
        "memberships (organization_id, user_id, role, created_at) VALUES ('b', 'only', 'member', now())",
        "toolsets SELECT (jsonb_populate_record(t, '{\"id\": \"only\"}')).*
         FROM toolsets t WHERE organization_id = 'b'",
        "toolset_mcp_servers SELECT (jsonb_populate_record(t, '{\"id\": \"only\"}')).*
         FROM toolset_mcp_servers t WHERE organization_id = 'b'",
        "chats (organization_id, id, created_at, updated_at) VALUES ('b', 'only', now(), now())",
        "workspace_manifests SELECT (jsonb_populate_record(t, '{\"id\": \"only\"}')).*
         FROM workspace_manifests t WHERE organization_id = 'b'",
        "messages SELECT (jsonb_populate_record(t, '{\"id\": \"only\", \"position\": 2}')).*
         FROM messages t WHERE organization_id = 'b'",
    ] {
        run(&mut superuser, &format!("INSERT INTO {only_in_b}")).await;
    }
    let mut app = database.connect(APP).await;
    for statement in [
        "INSERT INTO messages (organization_id, chat_id, id, position, role, content, created_at)
         VALUES ('{org}', 'only', 'new', 3, 'user', '1', now())",
        "UPDATE messages SET parent_id = 'only' WHERE id = 'x'",
        "UPDATE messages SET manifest_id = 'only' WHERE id = 'x'",
        "UPDATE chats SET active_leaf_message_id = 'only' WHERE id = 'x'",
        "UPDATE chats SET active_manifest_id = 'only' WHERE id = 'x'",
        "UPDATE workspace_manifests SET parent_id = 'only' WHERE id = 'x'",
        "UPDATE tool_calls SET message_id = 'only'",
        "UPDATE tool_calls SET pre_manifest_id = 'only'",
        "UPDATE tool_calls SET post_manifest_id = 'only'",
        "UPDATE api_tokens SET user_id = 'only'",
        "UPDATE toolset_files SET toolset_id = 'only'",
        "UPDATE tools SET toolset_id = 'only'",
        "UPDATE tool_overrides SET toolset_id = 'only'",
        "UPDATE toolset_skills SET toolset_id = 'only'",
        "UPDATE trust_records SET toolset_id = 'only'",
        "UPDATE tool_descriptions SET toolset_id = 'only'",
        "UPDATE tool_pins SET server_id = 'only'",
        "UPDATE gallery_toolsets SET published_at = now(), toolset_id = 'only', name = 'n', version = '1', tool_count = 0,
             server_count = 0, skill_count = 0, words = '', summary = '{}', bundle_sha256 = 'h', bundle_size = 0",
    ] {
        let into = async |app: &mut PgConnection, org| attempt(app, Some(org), &statement.replace("{org}", org)).await;
        assert_eq!(into(&mut app, "b").await, Ok(1), "where the row is: {statement}");
        assert_eq!(into(&mut app, "a").await, Err("23503".to_owned()), "from another organisation: {statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_app_role_cannot_truncate() {
    let database = seeded().await;
    let mut app = database.connect(APP).await;
    for (table, _) in tables(&mut app).await {
        let truncate = format!("TRUNCATE {table}");
        assert_eq!(attempt(&mut app, Some("a"), &truncate).await, Err("42501".to_owned()), "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_system_door_shows_the_ids_of_organisations_and_the_queue_and_opens_nothing_else() {
    let database = seeded().await;
    let mut app = database.connect(APP).await;
    let tables = tables(&mut app).await;
    let ids = "SELECT id FROM organizations ORDER BY id";
    for closed in ["off", "", "true", "ON"] {
        run(&mut app, &format!("SELECT set_config('kitbag.system', '{closed}', false)")).await;
        assert!(strings(&mut app, ids).await.is_empty(), "{closed:?} opens the door");
    }
    run(&mut app, "SELECT set_config('kitbag.system', 'on', false)").await;
    assert_eq!(strings(&mut app, ids).await, ["a", "b", "local"]);
    // Which organisations there are, and which of their runs wait: so many rows, to be read.
    let shown = std::collections::HashMap::from([("organizations", 3), ("run_queue", 2)]);
    for org in [None, Some("stranger")] {
        for (table, column) in &tables {
            for (sql, rows) in [
                (format!("SELECT FROM {table}"), shown.get(table.as_str()).copied()),
                (format!("SELECT FROM {table} FOR UPDATE"), None),
                (format!("UPDATE {table} SET {column} = 'a'"), None),
                (format!("UPDATE {table} SET {column} = 'a' WHERE {column} = 'a'"), None),
                (format!("DELETE FROM {table}"), None),
                (format!("DELETE FROM {table} WHERE {column} = 'a'"), None),
            ] {
                let changes = !sql.starts_with("SELECT") || sql.ends_with("FOR UPDATE");
                let expected = match rows {
                    _ if changes && APPEND_ONLY.contains(&table.as_str()) => Err("42501".to_owned()),
                    rows => Ok(rows.unwrap_or(0)),
                };
                assert_eq!(attempt(&mut app, org, &sql).await, expected, "{sql}");
            }
        }
        let made = attempt(&mut app, org, "INSERT INTO organizations VALUES ('new', now())").await;
        assert_eq!(made, Err("42501".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_not_shown_to_an_organisation() {
    let database = seeded().await;
    let mut app = database.connect(APP).await;
    run(&mut app, "SELECT set_config('kitbag.org', 'a', false), set_config('kitbag.system', 'on', false)").await;
    assert!(strings(&mut app, "SELECT id FROM users").await.is_empty());
    run(&mut app, "SELECT set_config('kitbag.org', '', false), set_config('kitbag.user', 'a', false)").await;
    assert_eq!(strings(&mut app, "SELECT id FROM users").await, ["a"]);
    assert!(strings(&mut app, "SELECT id FROM chats").await.is_empty(), "a person's id opens an organisation");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_app_role_cannot_become_another_or_switch_row_level_security_off() {
    let database = seeded().await;
    let mut app = database.connect(APP).await;
    for role in [OWNER, SUPERUSER] {
        for sql in [format!("SET ROLE {role}"), format!("SET SESSION AUTHORIZATION {role}")] {
            assert_eq!(outcome(&mut app, &sql).await, Err("42501".to_owned()), "{sql}");
        }
    }
    let tables = tables(&mut app).await;
    for (table, column) in &tables {
        for sql in [
            format!("ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"),
            format!("ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY"),
            format!("CREATE POLICY mine ON {table} USING (true)"),
            format!("SET LOCAL row_security = off; SELECT FROM {table}"),
            format!("SET LOCAL row_security = off; UPDATE {table} SET {column} = 'a'"),
            format!("SET LOCAL row_security = off; DELETE FROM {table}"),
        ] {
            assert_eq!(attempt(&mut app, Some("a"), &sql).await, Err("42501".to_owned()), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_leaky_function_nor_statistics_show_rows_of_others() {
    let database = seeded().await;
    let leak = "CREATE TEMP TABLE seen (value TEXT); CREATE FUNCTION pg_temp.peek(value TEXT) RETURNS BOOLEAN
        LANGUAGE plpgsql COST 0.000001 AS $$ BEGIN INSERT INTO pg_temp.seen VALUES (value); RETURN true; END $$";
    let stats = "SELECT tablename::text FROM pg_stats WHERE schemaname = 'public'";
    let (mut superuser, mut app) = (database.connect(SUPERUSER).await, database.connect(APP).await);
    run(&mut superuser, "ANALYZE").await;
    for (connection, seen_by_it) in [(&mut superuser, ["a", "b"].as_slice()), (&mut app, &["a"])] {
        run(connection, leak).await;
        for statement in ["SELECT FROM chats", "UPDATE chats SET title = 'x'", "DELETE FROM toolset_files"] {
            run(connection, "TRUNCATE pg_temp.seen; BEGIN").await;
            bind(connection, "a").await;
            run(connection, &format!("{statement} WHERE pg_temp.peek(organization_id)")).await;
            let seen = strings(connection, "SELECT DISTINCT value FROM pg_temp.seen ORDER BY 1").await;
            run(connection, "ROLLBACK").await;
            assert_eq!(seen, seen_by_it, "{statement}");
        }
    }
    assert!(!strings(&mut superuser, stats).await.is_empty(), "there are no statistics to hide");
    let shown = strings(&mut app, stats).await;
    assert!(shown.iter().all(|table| table == "schema_migrations"), "{shown:?}");
}
