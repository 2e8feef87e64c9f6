//! `kitbag doctor --cluster`: each thing that servers share, looked at by itself.

use kitbag_testkit::{Gate, Program, Server, TestBucket, TestDatabase};
use serde_json::Value;

use crate::BINARY;

/// The name, the status and what was found of each check, and how the program ended.
fn look(program: &Program) -> (Vec<(String, String, String)>, Option<i32>) {
    let ended = program.run(&["--json", "doctor", "--cluster"]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    let checks = checks.map(|check| (text(check, "name"), text(check, "status"), text(check, "found"))).collect();
    (checks, ended.code)
}

fn status<'a>(checks: &'a [(String, String, String)], name: &str) -> (&'a str, &'a str) {
    let (_, status, found) = checks.iter().find(|(it, ..)| it == name).unwrap_or_else(|| panic!("{name}: {checks:?}"));
    (status, found)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_looks_at_what_servers_share() {
    let database = TestDatabase::postgres().await;
    let program = Program::on(BINARY, &database);
    let (checks, code) = look(&program);
    for name in ["database", "schema", "role", "row-level security", "clock", "connections"] {
        assert_eq!(status(&checks, name).0, "ok", "{checks:?}");
    }
    assert_eq!((status(&checks, "bytes").0, code), ("missing", Some(0)), "files of this machine are nobody else's");
    let with_bucket = |bucket: &TestBucket| {
        let program = Program::on(BINARY, &database).env("KITBAG_BLOBS", &bucket.url());
        TestBucket::variables().into_iter().fold(program, |program, (name, value)| program.env(name, value))
    };
    let bucket = TestBucket::new();
    let (checks, _) = look(&with_bucket(&bucket));
    assert_eq!(status(&checks, "bytes").0, "ok", "{checks:?}");

    let gate = Gate::before(&bucket);
    gate.shut();
    let (checks, code) = look(&with_bucket(&bucket.through(&gate)));
    assert_eq!((status(&checks, "bytes").0, code), ("bad", Some(1)), "{checks:?}");

    // Servers, as they say themselves that they serve; one is silent.
    database
        .change(
            "CREATE TABLE IF NOT EXISTS nodes (id text PRIMARY KEY, home text, address text, version text, started_at timestamptz,
                 expires_at timestamptz, draining boolean, dead boolean)",
        )
        .await;
    database.change("GRANT SELECT ON nodes TO kitbag_app").await;
    database
        .change(
            "INSERT INTO nodes (id, home, address, version, started_at, expires_at, draining, dead) VALUES
                 ('01a1ef6d-0000-7000-8000-000000000001', 'a', 'http://a:8700', '0.1.0', now(), now() + interval '1 minute', FALSE, FALSE),
                 ('01a1ef6d-0000-7000-8000-000000000002', 'b', 'http://b:8700', '0.1.0', now(), now() - interval '1 minute', FALSE, FALSE)",
        )
        .await;
    let (checks, code) = look(&program);
    let (is, found) = status(&checks, "nodes");
    assert_eq!((is, code), ("missing", Some(0)), "{found}");
    assert!(found.contains("http://a:8700 (0.1.0)") && found.contains("http://b:8700 (0.1.0, silent)"), "{found}");

    // At the address that one names there is another, or nobody.
    database.change("DELETE FROM nodes").await;
    let key = "33f0d5c2a7e4938b6d1c0f3e8a79254716f3c8d9e0b2a4f5d6c7b8a998877662";
    let beside = database.beside();
    let node = Program::on(BINARY, &beside).env("KITBAG_MASTER_KEY", key).env("KITBAG_ADVERTISE", "http://127.0.0.1:0");
    let node = Server::start_program(&node, beside.data(), &["serve", "--listen", "127.0.0.1:0"]);
    let keyed = Program::on(BINARY, &database).env("KITBAG_MASTER_KEY", key);
    let (checks, code) = look(&keyed);
    assert_eq!((status(&checks, "addresses").0, code), ("ok", Some(0)), "{checks:?}");
    assert_eq!(status(&look(&program).0, "addresses").0, "missing", "it has no key");
    let wrong = keyed.clone().env("KITBAG_MASTER_KEY", &key.replace('3', "4"));
    assert_eq!(status(&look(&wrong).0, "addresses").0, "bad", "it has another key");
    let rows = format!(
        "INSERT INTO nodes (id, home, address, version, started_at, expires_at, draining, dead) VALUES
             ('01a1ef6d-0000-7000-8000-000000000003', 'c', '{}', '0.1.0', now(), now() + interval '1 hour', FALSE, FALSE),
             ('01a1ef6d-0000-7000-8000-000000000004', 'd', 'http://127.0.0.1:1', '0.1.0', now(), now() + interval '1 hour', FALSE, FALSE)",
        node.url
    );
    database.change(rows.leak()).await;
    let (checks, code) = look(&keyed);
    let (is, found) = status(&checks, "addresses");
    assert_eq!((is, code), ("bad", Some(1)), "{found}");
    assert!(found.contains(&format!("{}: another server is there", node.url)), "{found}");
    assert!(found.contains("http://127.0.0.1:1: cannot be reached"), "{found}");
    drop(node);

    // What no server would start with, told one by one.
    database.change("ALTER TABLE chats DISABLE ROW LEVEL SECURITY").await;
    database.change("DELETE FROM schema_migrations WHERE version = (SELECT MAX(version) FROM schema_migrations)").await;
    let powerful = Program::new(BINARY, database.data()).env("KITBAG_DATABASE", database.url("postgres").expose());
    let (checks, code) = look(&powerful);
    assert_eq!(code, Some(1));
    for (name, word) in [("schema", "admin migrate"), ("role", "superusers"), ("row-level security", "chats")] {
        let (is, found) = status(&checks, name);
        assert!(is == "bad" && found.contains(word), "{name}: {found}");
    }
    assert_eq!(status(&checks, "clock").0, "ok");

    // One server alone shares nothing.
    let alone = TestDatabase::sqlite();
    let (checks, code) = look(&Program::on(BINARY, &alone));
    assert_eq!((status(&checks, "database").0, code), ("bad", Some(1)));
}
