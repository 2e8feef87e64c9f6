//! Row-level security as it is declared: the catalogue of a migrated database has no table, key, grant, role or side
//! door that the policies do not cover, and the program refuses to serve where that is not so. What the policies do is
//! for `isolation.rs`.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_model::Secret;
use kitbag_store::migrate::migrate_postgres;
use kitbag_store::{Location, OpenError, Store};
use kitbag_testkit::TestDatabase;
use kitbag_testkit::cluster::{APP, OWNER, SUPERUSER, run, try_run};
use sqlx::PgConnection;

/// Our tables. `org` is the number of the column that says whose a row is, and null where there is none.
const OURS: &str = "CREATE TEMP VIEW ours AS
    SELECT c.oid, c.relname::text AS name, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity,
           a.attnum AS org
    FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid
        AND a.attname = CASE c.relname WHEN 'organizations' THEN 'id' ELSE 'organization_id' END
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')";

/// Whatever is not PostgreSQL's own, nor a temporary object of this connection.
const NAMESPACES: &str = "CREATE TEMP VIEW namespaces AS
    SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'";

/// A connection that sees the whole catalogue, with the views above.
async fn catalogue(database: &TestDatabase) -> PgConnection {
    let mut connection = database.connect(SUPERUSER).await;
    run(&mut connection, OURS).await;
    run(&mut connection, NAMESPACES).await;
    connection
}

async fn lines(connection: &mut PgConnection, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(connection).await.unwrap()
}

async fn lines_for(connection: &mut PgConnection, role: &str, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).bind(role).fetch_all(connection).await.unwrap()
}

async fn tenant_tables(connection: &mut PgConnection) -> Vec<String> {
    let tables = lines(connection, "SELECT name FROM ours WHERE org IS NOT NULL ORDER BY 1").await;
    assert!(tables.len() > 10, "the catalogue shows too few tables to prove anything: {tables:?}");
    tables
}

/// Its lines may be added and read, and no more.
const APPEND_ONLY: &str = "audit";

const NOTHING: [&str; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn every_table_is_protected_for_every_command() {
    let database = TestDatabase::postgres().await;
    let mut catalogue = catalogue(&database).await;
    let tenant = tenant_tables(&mut catalogue).await;
    let shared = lines(&mut catalogue, "SELECT name FROM ours WHERE org IS NULL ORDER BY 1").await;
    let of_people = ["identities", "user_sessions", "users"];
    // Nodes and the name of the master key are of no organisation and say nothing of any.
    let expected = ["identities", "master_keys", "nodes", "schema_migrations", "user_sessions", "users"];
    assert_eq!(shared, expected, "a new table without an organisation needs a reason");
    let bare = "SELECT name FROM ours WHERE NOT (relrowsecurity AND relforcerowsecurity) ORDER BY 1";
    assert_eq!(lines(&mut catalogue, bare).await, ["schema_migrations"], "row-level security is not on and forced");

    // Policies of one command add up, so one too many is as bad as one that is missing.
    let besides = ["organizations", "identities", "memberships", "gallery_toolsets", "run_queue"];
    let mut expected: Vec<String> = besides.iter().map(|table| format!("{table} SELECT using")).collect();
    expected.extend(of_people.iter().map(|table| format!("{table} SELECT using")));
    expected.extend(of_people.iter().chain(&["master_keys", "nodes"]).map(|table| format!("{table} ALL using check")));
    for table in &tenant {
        let changing = ["DELETE using", "UPDATE using check"].into_iter().filter(|_| table != APPEND_ONLY);
        expected.extend(["INSERT check", "SELECT using"].into_iter().chain(changing).map(|p| format!("{table} {p}")));
    }
    expected.sort();
    let mut found = lines(
        &mut catalogue,
        "SELECT concat_ws(' ', tablename, cmd, CASE WHEN qual IS NOT NULL THEN 'using' END,
                          CASE WHEN with_check IS NOT NULL THEN 'check' END) FROM pg_policies",
    )
    .await;
    found.sort();
    assert_eq!(found, expected);
}

/// The app role of the test cluster, and one that the migration itself made.
async fn app_roles(database: &TestDatabase) -> [String; 2] {
    let name = database.name();
    let made = format!("made_{name}");
    assert!(migrate_postgres(&database.url(SUPERUSER), &made).await.unwrap().made_role);
    [APP.to_owned(), made]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_app_role_may_touch_rows_and_nothing_else() {
    let database = TestDatabase::postgres().await;
    let roles = app_roles(&database).await;
    let mut catalogue = catalogue(&database).await;
    let mut expected = vec!["schema_migrations SELECT".to_owned()];
    for table in tenant_tables(&mut catalogue)
        .await
        .into_iter()
        .chain(["identities", "master_keys", "nodes", "user_sessions", "users"].map(ToOwned::to_owned))
    {
        let changing = ["DELETE", "UPDATE"].into_iter().filter(|_| table != APPEND_ONLY);
        expected.extend(["INSERT", "SELECT"].into_iter().chain(changing).map(|p| format!("{table} {p}")));
    }
    expected.sort();
    for role in &roles {
        let mut tables = lines_for(
            &mut catalogue,
            role,
            "SELECT name || ' ' || privilege FROM ours,
                 unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER',
                              'SELECT WITH GRANT OPTION']) privilege
             WHERE has_table_privilege($1, oid, privilege)",
        )
        .await;
        tables.sort();
        assert_eq!(tables, expected, "{role}");
        let beyond_tables = lines_for(
            &mut catalogue,
            role,
            "SELECT 'create in schema ' || nspname FROM namespaces WHERE has_schema_privilege($1, oid, 'CREATE')
             UNION ALL SELECT 'create in the database' WHERE has_database_privilege($1, current_database(), 'CREATE')
             UNION ALL SELECT 'execute ' || proname FROM pg_proc
                 WHERE pronamespace IN (SELECT oid FROM namespaces) AND has_function_privilege($1, oid, 'EXECUTE')",
        )
        .await;
        assert_eq!(beyond_tables, NOTHING, "{role}");
    }
    // Privileges that the functions above do not know (they grow with PostgreSQL's versions), those of anybody else,
    // PUBLIC being 0, those on columns, and those that the next table would have from the start.
    let others = sqlx::query_scalar::<_, String>(
        "SELECT concat_ws(' ', name, privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
         FROM ours, aclexplode(relacl) WHERE grantee <> relowner
             AND NOT (grantee = ANY ($1::regrole[]::oid[]) AND NOT is_grantable
                      AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE'))
         UNION ALL SELECT name || '.' || attname FROM ours JOIN pg_attribute ON attrelid = ours.oid
             WHERE attacl IS NOT NULL
         UNION ALL SELECT 'by default: ' || defaclacl::text FROM pg_default_acl",
    )
    .bind(&roles)
    .fetch_all(&mut catalogue)
    .await
    .unwrap();
    assert_eq!(others, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_app_role_has_no_power_of_its_own() {
    let database = TestDatabase::postgres().await;
    let roles = app_roles(&database).await;
    let mut catalogue = catalogue(&database).await;
    for role in &roles {
        let powers = lines_for(
            &mut catalogue,
            role,
            "SELECT power FROM pg_roles, LATERAL (VALUES ('superuser', rolsuper), ('bypassrls', rolbypassrls),
                     ('createrole', rolcreaterole), ('createdb', rolcreatedb),
                     ('replication', rolreplication)) p (power, has)
                 WHERE rolname = $1 AND has
             UNION ALL SELECT 'member of ' || roleid::regrole FROM pg_auth_members WHERE member = $1::regrole
             UNION ALL SELECT 'owns ' || pg_describe_object(classid, objid, objsubid) FROM pg_shdepend
                 WHERE refclassid = 'pg_authid'::regclass AND refobjid = $1::regrole AND deptype = 'o'
                   AND dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))",
        )
        .await;
        assert_eq!(powers, NOTHING, "{role}");
    }
    // A setting that comes with the role or the database would bind an organisation where none was bound.
    let settings = "SELECT s FROM pg_db_role_setting, unnest(setconfig) s WHERE s ~ '^(kitbag\\.|row_security|role)'";
    assert_eq!(lines(&mut catalogue, settings).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_references_begin_with_the_organisation() {
    let database = TestDatabase::postgres().await;
    let mut catalogue = catalogue(&database).await;
    // A key without it tells whether an id exists elsewhere, whether or not it is the primary one.
    let keys = lines(
        &mut catalogue,
        "SELECT name || ' has no primary key' FROM ours
             WHERE NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = ours.oid AND i.indisprimary)
         UNION ALL SELECT i.indexrelid::regclass::text FROM ours JOIN pg_index i ON i.indrelid = ours.oid
             WHERE org IS NOT NULL AND i.indisunique AND i.indkey[0] <> org
         UNION ALL SELECT name || ' may belong to nobody' FROM ours
             JOIN pg_attribute ON attrelid = ours.oid AND attnum = org WHERE NOT attnotnull",
    )
    .await;
    assert_eq!(keys, ["gallery_toolsets_pkey"], "only a public name is one for all organisations");
    // References are checked past row-level security, so they alone keep a row from pointing into another organisation.
    let references = lines(
        &mut catalogue,
        "SELECT child.name || ' to ' || parent.name || ': ' || pg_get_constraintdef(f.oid) FROM pg_constraint f
         JOIN ours child ON child.oid = f.conrelid JOIN ours parent ON parent.oid = f.confrelid
         WHERE f.contype = 'f' AND (f.conkey[1] = child.org AND f.confkey[1] = parent.org) IS NOT TRUE ORDER BY 1",
    )
    .await;
    let to_a_person = |table| format!("{table} to users: FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE");
    assert_eq!(
        references,
        ["identities", "memberships", "user_sessions"].map(to_a_person),
        "only a person is outside every organisation"
    );
}

/// An index that begins with something else would be walked through the rows of all tenants to find those of one.
#[tokio::test(flavor = "multi_thread")]
async fn every_index_begins_with_the_organisation() {
    let database = TestDatabase::postgres().await;
    let mut catalogue = catalogue(&database).await;
    let others = lines(
        &mut catalogue,
        "SELECT name || '.' || c.relname FROM ours JOIN pg_index i ON i.indrelid = ours.oid JOIN pg_class c ON c.oid = i.indexrelid
         WHERE org IS NOT NULL AND i.indkey[0] <> org ORDER BY 1",
    )
    .await;
    // What is published is read by everybody, under names that are everybody's; and a person asks where they are a member.
    let reasons =
        |index: &&String| !index.starts_with("gallery_toolsets.") && *index != "memberships.memberships_by_user";
    assert_eq!(others.iter().filter(reasons).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leads_around_row_level_security() {
    let database = TestDatabase::postgres().await;
    let mut catalogue = catalogue(&database).await;
    // Views read as their owner, materialised ones and replication past every policy; a child table has policies of
    // its own; sequences count for everybody; triggers and rules act where nobody looks.
    let side_doors = lines(
        &mut catalogue,
        "SELECT CASE relkind WHEN 'v' THEN 'view ' WHEN 'm' THEN 'materialised view ' WHEN 'S' THEN 'sequence '
                             ELSE relkind::text || ' ' END || relname
             FROM pg_class WHERE relnamespace IN (SELECT oid FROM namespaces) AND relkind NOT IN ('r', 'i')
         UNION ALL SELECT 'table outside public: ' || relname
             FROM pg_class JOIN namespaces n ON n.oid = relnamespace WHERE relkind = 'r' AND nspname <> 'public'
         UNION ALL SELECT 'child table ' || inhrelid::regclass FROM pg_inherits
         UNION ALL SELECT 'security definer ' || proname
             FROM pg_proc WHERE pronamespace IN (SELECT oid FROM namespaces) AND prosecdef
         UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal
         UNION ALL SELECT 'rule ' || rulename FROM pg_rewrite JOIN ours ON ours.oid = ev_class
         UNION ALL SELECT 'publication ' || pubname FROM pg_publication",
    )
    .await;
    assert_eq!(side_doors, NOTHING);
}

async fn open_as(database: &TestDatabase, role: &str) -> Result<Store, OpenError> {
    Store::open(&Location::Postgres(database.url(role))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_can_get_past_row_level_security_is_refused() {
    let database = TestDatabase::postgres().await;
    let name = database.name();
    let mut superuser = database.connect(SUPERUSER).await;
    let make = async |superuser: &mut PgConnection, role: &str, with: &str| {
        run(superuser, &format!("CREATE ROLE {role} LOGIN {with}; GRANT SELECT ON schema_migrations TO {role}")).await;
    };
    let plain = format!("plain_{name}");
    make(&mut superuser, &plain, "").await;
    open_as(&database, &plain).await.expect("a role without any power is let in, else the rest proves nothing");

    let bypass = format!("bypass_{name}");
    let mut cases = vec![(SUPERUSER.to_owned(), "superuser"), (OWNER.to_owned(), "owner")];
    for (role, with, reason) in [
        ("bypass", "BYPASSRLS", "BYPASSRLS"),
        ("replication", "REPLICATION", "REPLICATION"),
        ("createrole", "CREATEROLE", "CREATEROLE"),
        ("program", "IN ROLE pg_execute_server_program", "pg_execute_server_program"),
        ("super", "SUPERUSER", "superuser"),
        ("owner_heir", &format!("IN ROLE {OWNER}"), "owner"),
        ("owner_at_will", &format!("NOINHERIT IN ROLE {OWNER}"), "owner"),
        ("bypass_at_will", &format!("NOINHERIT IN ROLE {bypass}"), "BYPASSRLS"),
        ("super_at_will", &format!("NOINHERIT IN ROLE {SUPERUSER}"), "superuser"),
    ] {
        let role = format!("{role}_{name}");
        make(&mut superuser, &role, with).await;
        cases.push((role, reason));
    }
    // Membership of a membership counts as well.
    let grandchild = format!("grandchild_{name}");
    make(&mut superuser, &grandchild, &format!("NOINHERIT IN ROLE owner_at_will_{name}")).await;
    cases.push((grandchild, "owner"));
    for (role, why) in cases {
        match open_as(&database, &role).await.err() {
            Some(OpenError::UnsafeRole { role: named, reason }) => {
                assert_eq!(named, role);
                assert!(reason.contains(why), "{role}: {reason}");
            }
            other => panic!("{role}: {other:?}"),
        }
    }
}

/// `RESET ROLE` gives a session back what it began as.
#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_that_put_on_the_app_role_is_refused() {
    let database = TestDatabase::postgres().await;
    let url = Secret::new(format!("{}?options=-c%20role%3D{APP}", database.url(SUPERUSER).expose()));
    match Store::open(&Location::Postgres(url)).await.err() {
        Some(OpenError::UnsafeRole { role, reason }) => {
            assert_eq!(role, SUPERUSER);
            assert!(reason.contains("superuser"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_a_policy_of_somebody_else_is_refused() {
    let database = TestDatabase::postgres().await;
    run(&mut database.connect(OWNER).await, "CREATE POLICY open ON chats FOR SELECT USING (true)").await;
    match Store::open(&database.location()).await.err() {
        Some(OpenError::Unprotected { tables }) => assert_eq!(tables, "chats"),
        other => panic!("{other:?}"),
    }
}

/// What was granted by hand, to the role or to everybody, is gone after the next migration.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_takes_stray_rights_away() {
    let database = TestDatabase::postgres().await;
    let mut owner = database.connect(OWNER).await;
    run(&mut owner, &format!("GRANT TRUNCATE ON chats TO PUBLIC; GRANT TRUNCATE ON messages TO {APP}")).await;
    run(&mut owner, "GRANT CREATE ON SCHEMA public TO PUBLIC; GRANT INSERT ON schema_migrations TO PUBLIC").await;
    migrate_postgres(&database.url(OWNER), APP).await.unwrap();
    let mut app = database.connect(APP).await;
    for sql in ["TRUNCATE chats CASCADE", "TRUNCATE messages CASCADE", "CREATE TABLE mine (id INT)"] {
        assert!(try_run(&mut app, sql).await.is_err(), "{sql}");
    }
    assert!(try_run(&mut app, "INSERT INTO schema_migrations VALUES (9, '', '', '')").await.is_err());
    Store::open(&database.location()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_with_an_unprotected_table_is_refused() {
    let database = TestDatabase::postgres().await;
    let mut owner = database.connect(OWNER).await;
    for table in ["chats", "organizations", "users"] {
        for (off, on) in [("DISABLE", "ENABLE"), ("NO FORCE", "FORCE")] {
            run(&mut owner, &format!("ALTER TABLE {table} {off} ROW LEVEL SECURITY")).await;
            let refused = open_as(&database, APP).await.err();
            assert!(
                matches!(&refused, Some(OpenError::Unprotected { tables }) if tables == table),
                "{table} with {off}: {refused:?}"
            );
            run(&mut owner, &format!("ALTER TABLE {table} {on} ROW LEVEL SECURITY")).await;
            open_as(&database, APP).await.expect("a protected database opens");
        }
    }
    run(&mut owner, "CREATE TABLE made_by_hand (organization_id TEXT); ALTER TABLE chats DISABLE ROW LEVEL SECURITY")
        .await;
    let refused = open_as(&database, APP).await.err();
    assert!(
        matches!(&refused, Some(OpenError::Unprotected { tables }) if tables == "chats, made_by_hand"),
        "{refused:?}"
    );
}
