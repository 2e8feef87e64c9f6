//! Rows from one PostgreSQL to another whose owner put tables in partitions.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_store::Location;
use kitbag_store::migrate::transfer::Transfer;
use kitbag_testkit::TestDatabase;
use kitbag_testkit::cluster::{OWNER, SUPERUSER, run};

/// As docs/operations.md advises it. The reference makes one of each partition, which comes and goes with the table's.
const PARTED: [&str; 6] = [
    "ALTER TABLE audit RENAME TO audit_before",
    "CREATE TABLE audit (LIKE audit_before INCLUDING ALL,
        FOREIGN KEY (organization_id) REFERENCES organizations (id) ON DELETE CASCADE) PARTITION BY HASH (organization_id)",
    "DROP TABLE audit_before",
    "CREATE TABLE audit_0 PARTITION OF audit FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE audit_1 PARTITION OF audit FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    "SELECT kitbag_protect('audit')",
];

async fn parted() -> TestDatabase {
    let database = TestDatabase::postgres().await;
    let mut owner = database.connect(OWNER).await;
    for sql in PARTED {
        run(&mut owner, sql).await;
    }
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_in_partitions_goes_along() {
    let (old, new) = (parted().await, parted().await);
    let mut superuser = old.connect(SUPERUSER).await;
    run(&mut superuser, "INSERT INTO organizations SELECT 'org-' || n, now() FROM generate_series(1, 9) n").await;
    run(
        &mut superuser,
        "INSERT INTO audit SELECT 'org-' || n, 'line-' || n, now(), 'somebody', 'made', 'it', '{}' FROM generate_series(1, 9) n",
    )
    .await;
    let place = |database: &TestDatabase| Location::Postgres(database.url(OWNER));
    let mut source = Transfer::open_alone(&place(&old)).await.unwrap();
    let tables = source.summary().await.unwrap();
    let audit: Vec<_> = tables.iter().filter(|table| table.table.starts_with("audit")).collect();
    assert!(audit.len() == 1 && audit[0].rows == 9, "{audit:?}");
    let came = Transfer::open(&place(&new)).await.unwrap().fill(&mut source).await.unwrap();
    assert_eq!(came, tables);
    const LEADING: &str =
        "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid::regclass::text LIKE 'audit%'";
    let mut superuser = new.connect(SUPERUSER).await;
    let there: i64 = sqlx::query_scalar("SELECT count(*) FROM audit_0").fetch_one(&mut superuser).await.unwrap();
    assert!(there > 0 && there < 9, "{there}: they are in their partitions");
    let references: i64 = sqlx::query_scalar(LEADING).fetch_one(&mut superuser).await.unwrap();
    assert_eq!(references, 3, "the table's and those of its partitions");
}
