//! How PostgreSQL finds rows while its tables are new and nothing is known of what is in them.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_testkit::TestDatabase;
use kitbag_testkit::cluster::{SUPERUSER, run};
use sqlx::AssertSqlSafe;

/// Tables that others refer to, with the columns of their keys.
const REFERRED_TO: &str = "SELECT c.conrelid::regclass::text, c.conname::text,
           (SELECT array_agg(a.attname::text ORDER BY k.place) FROM unnest(c.conkey) WITH ORDINALITY k (attnum, place)
            JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum)
    FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
    WHERE c.contype = 'p' AND t.relnamespace = 'public'::regnamespace
      AND EXISTS (SELECT 1 FROM pg_constraint f WHERE f.contype = 'f' AND f.conindid = c.conindid)
    ORDER BY 1";

/// Each row that is added asks for the rows that it refers to. By another index than the key's, one that only begins like it, that would look at all
/// rows of a chat for each message.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_referred_to_is_found_by_its_key() {
    let database = TestDatabase::postgres().await;
    let mut connection = database.connect(SUPERUSER).await;
    run(&mut connection, "SET plan_cache_mode = force_generic_plan").await;
    let tables: Vec<(String, String, Vec<String>)> =
        sqlx::query_as(REFERRED_TO).fetch_all(&mut connection).await.unwrap();
    assert!(tables.iter().any(|(table, ..)| table == "messages"), "{tables:?}");
    let mut wrong = Vec::new();
    for (table, key, columns) in tables {
        let is_it = |place: usize| format!("\"{}\" = ${}", columns[place], place + 1);
        let found: Vec<String> = (0..columns.len()).map(is_it).collect();
        let (found, nothing) = (found.join(" AND "), vec!["NULL"; columns.len()].join(", "));
        let statements = [
            format!("PREPARE find AS SELECT 1 FROM ONLY {table} WHERE {found} FOR KEY SHARE"),
            format!("EXPLAIN EXECUTE find ({nothing})"),
        ];
        sqlx::raw_sql(AssertSqlSafe(statements[0].clone())).execute(&mut connection).await.unwrap();
        let plan: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(statements[1].clone())).fetch_all(&mut connection).await.unwrap();
        run(&mut connection, "DEALLOCATE find").await;
        let plan = plan.join("\n");
        if !plan.contains(&format!("using {key} on")) {
            wrong.push(format!("{table}:\n{plan}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
