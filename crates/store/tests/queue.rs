//! Runs that wait: however many fit nobody, whoever looks for work sees few rows and finds what there is.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kitbag_model::run::apply::application;
use kitbag_model::run::wire::FoundEngine;
use kitbag_model::run::{EngineId, Executor, NewRun, Pool, Run, RunConfig, RunRenderings, RunState};
use kitbag_model::{ExecutorId, NewChat, OrgId, RunId, SecretHash, Timestamp};
use kitbag_store::{Claim, Claimed, KINDS_AT_ONCE, RUNS_AT_ONCE, Store};
use kitbag_testkit::cluster::{SUPERUSER, run};
use kitbag_testkit::database::add_organization;
use kitbag_testkit::{TestDatabase, on_both};
use serde_json::json;

/// So many more runs like the one that `acme` has.
const MANY: usize = 20_000;

/// All of the same kind.
const ALIKE: &str = "
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO agent_runs (organization_id, id, config, application, chat_id, apply, state, attempt, max_attempts, cancel_requested,
                        events, created_by, created_at, needs)
SELECT organization_id, '00000000-0000-7000-8000-' || CAST(100000000000 + i AS TEXT), config, application, chat_id, apply, state,
       attempt, max_attempts, cancel_requested, events, created_by, created_at, needs
FROM agent_runs, n WHERE organization_id = 'acme';
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO run_queue (organization_id, run_id, pool, engine, since, kind)
SELECT organization_id, '00000000-0000-7000-8000-' || CAST(100000000000 + i AS TEXT), pool, engine, since, kind
FROM run_queue, n WHERE organization_id = 'acme'";

/// Then each is of a kind of its own, before all others.
const EACH_OTHERWISE: &str =
    "UPDATE run_queue SET kind = 'gateway.codex.v2/!' || run_id WHERE organization_id = 'acme'";

fn config(engine: &str, labels: &[&str]) -> RunConfig {
    let selector = json!({ "pool": "managed", "labels": labels });
    RunConfig::read(&json!({ "prompt": "x", "engine": { "id": engine }, "execution": { "selector": selector } }))
        .unwrap()
}

async fn ask(store: &Store, org: &OrgId, config: RunConfig) -> RunId {
    let mut tx = store.write(org).await.unwrap();
    let chat_id = tx.create_chat(&NewChat { title: None, tool_selectors: None, of_run: true }).await.unwrap().id;
    let new = NewRun {
        id: RunId::generate(),
        name: None,
        application: application(&config, None),
        config,
        toolset: None,
        renderings: RunRenderings::default(),
        chat_id,
        pre_manifest_id: None,
        apply: false,
        retry_of: None,
        created_by: "somebody".to_owned(),
        private_to: None,
        trace: None,
    };
    let id = tx.create_run(&new).await.unwrap().id;
    tx.commit().await.unwrap();
    id
}

/// One of the operator's, with Codex and the label `gpu`.
fn executor() -> Executor {
    Executor {
        id: ExecutorId::generate(),
        name: "one".to_owned(),
        version: "1".to_owned(),
        pool: Pool::Managed,
        labels: vec!["gpu".to_owned()],
        engines: vec![FoundEngine { id: EngineId::Codex, version: "1".to_owned() }],
        capacity: 1,
        containers: false,
        hash: SecretHash::from_hex(&"0".repeat(64)).unwrap(),
        created_at: Timestamp::EPOCH,
        last_seen_at: None,
        revoked_at: None,
    }
}

/// What a look for work saw, and what it came to.
#[derive(Default)]
struct Seen {
    kinds: usize,
    runs: usize,
    given: Vec<Run>,
}

/// Looks for one run, as a server does for an executor of the operator's: organisation after organisation, each from where the look before stopped.
async fn look(store: &Store, executor: &Executor, behind: &mut HashMap<OrgId, String>) -> Seen {
    let mut seen = Seen::default();
    let (orgs, _) = store.system().await.unwrap().waiting_for(Pool::Managed, None).await.unwrap();
    for org in orgs {
        let from = behind.remove(&org.org);
        let kinds = store.read(&org.org).await.unwrap().kinds_for(executor, from.as_deref()).await.unwrap();
        assert!(kinds.looked_at <= KINDS_AT_ONCE);
        seen.kinds += kinds.looked_at;
        behind.extend(kinds.behind.map(|behind| (org.org.clone(), behind)));
        if kinds.fitting.is_empty() {
            continue;
        }
        let claimed = claim(store, executor, (&org.org, &kinds.fitting), &mut seen.runs).await;
        seen.given.extend(claimed.runs);
        if !seen.given.is_empty() {
            break;
        }
    }
    seen
}

async fn claim(store: &Store, executor: &Executor, (org, kinds): (&OrgId, &[String]), seen: &mut usize) -> Claimed {
    let mut tx = store.write(org).await.unwrap();
    let lease_until = Timestamp::now().plus_seconds(600);
    let mut should = |_: &Run, _: &RunConfig, _| {
        *seen += 1;
        true
    };
    let claimed = tx.claim_runs(Claim { executor, kinds, most: 1, lease_until }, &mut should).await.unwrap();
    tx.commit().await.unwrap();
    claimed
}

on_both! {
    async fn any_number_that_fits_nobody_is_one_look(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let bolt = add_organization(&store, "bolt").await;
        ask(&store, &acme, config("gateway.codex.v2", &["nowhere"])).await;
        database.change(ALIKE).await;
        // Nobody has this engine: it is not even looked at.
        ask(&store, &acme, config("gateway.opencode.v2", &[])).await;
        let theirs = ask(&store, &bolt, config("gateway.codex.v2", &["gpu"])).await;
        let seen = look(&store, &executor(), &mut HashMap::new()).await;
        assert_eq!(seen.given.iter().map(|run| run.id).collect::<Vec<_>>(), [theirs]);
        assert_eq!((seen.kinds, seen.runs), (2, 1), "a kind of each organisation, and the run that was given");
        assert_eq!(seen.given[0].state, RunState::Leased);
        let mut system = store.system().await.unwrap();
        assert_eq!((system.all_waiting().await.unwrap(), system.all_held().await.unwrap()), (MANY as u64 + 2, 1));
        assert_eq!(system.whose_run(theirs).await.unwrap(), Some(bolt));
        drop(system);
        assert_eq!(store.read(&acme).await.unwrap().runs_waiting(1000).await.unwrap(), 1000, "it is counted no further");
    }

    /// Labels are free words, so that there may be as many kinds as runs.
    async fn any_number_of_kinds_is_looked_at_a_part_at_a_time(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let bolt = add_organization(&store, "bolt").await;
        ask(&store, &acme, config("gateway.codex.v2", &["nowhere"])).await;
        database.change(ALIKE).await;
        database.change(EACH_OTHERWISE).await;
        let own = ask(&store, &acme, config("gateway.codex.v2", &["gpu"])).await;
        let theirs = ask(&store, &bolt, config("gateway.codex.v2", &[])).await;
        let (one, other, mut behind) = (executor(), executor(), HashMap::new());
        let seen = look(&store, &one, &mut behind).await;
        assert_eq!(seen.given.iter().map(|run| run.id).collect::<Vec<_>>(), [theirs], "others need not wait until it is through");
        assert_eq!((seen.kinds, seen.runs), (KINDS_AT_ONCE + 1, 1));
        // Behind all of these is one that it may take; nothing starves.
        let mut looks = 1;
        let given = loop {
            let seen = look(&store, &other, &mut behind).await;
            looks += 1;
            if let Some(run) = seen.given.first() {
                break run.id;
            }
            assert!(looks <= MANY / KINDS_AT_ONCE + 1, "{behind:?}");
        };
        assert_eq!(given, own);
    }

    async fn the_oldest_of_all_kinds_comes_first(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let mut asked = Vec::new();
        for labels in [&["gpu"][..], &[], &["gpu"], &["nowhere"], &[]] {
            let id = ask(&store, &acme, config("gateway.codex.v2", labels)).await;
            asked.extend((labels != ["nowhere"]).then_some(id));
        }
        for id in asked {
            let seen = look(&store, &executor(), &mut HashMap::new()).await;
            assert_eq!((seen.given[0].id, seen.runs), (id, 1));
        }
        assert!(look(&store, &executor(), &mut HashMap::new()).await.given.is_empty());
    }

    /// An executor that leaves all that it is shown for others is not shown everything.
    async fn what_is_left_for_others_has_an_end(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        ask(&store, &acme, config("gateway.codex.v2", &["gpu"])).await;
        database.change(ALIKE).await;
        let (executor, mut shown) = (executor(), 0);
        let mut tx = store.write(&acme).await.unwrap();
        let kinds = tx.kinds_for(&executor, None).await.unwrap().fitting;
        let claim = Claim { executor: &executor, kinds: &kinds, most: 1, lease_until: Timestamp::now() };
        let mut should = |_: &Run, _: &RunConfig, _| {
            shown += 1;
            false
        };
        let claimed = tx.claim_runs(claim, &mut should).await.unwrap();
        assert!(claimed.runs.is_empty() && !claimed.has_written);
        assert_eq!(shown, RUNS_AT_ONCE);
    }

    /// A node of the version before puts runs into the queue and knows no kinds.
    async fn runs_of_no_known_kind_are_sorted_out(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let mut asked = Vec::new();
        for labels in [&["nowhere"], &["gpu"]] {
            asked.push(ask(&store, &acme, config("gateway.codex.v2", labels)).await);
        }
        database.change("UPDATE run_queue SET kind = ''; UPDATE agent_runs SET needs = NULL").await;
        let executor = executor();
        let seen = look(&store, &executor, &mut HashMap::new()).await;
        assert_eq!((seen.kinds, seen.given[0].id), (0, asked[1]));
        // What fits nobody is not looked at again and again.
        let seen = look(&store, &executor, &mut HashMap::new()).await;
        assert_eq!((seen.kinds, seen.runs, seen.given.len()), (1, 0, 0));
        assert_eq!(database.count("SELECT COUNT(*) FROM agent_runs WHERE needs IS NULL").await, 0);
    }
}

/// What PostgreSQL itself counted of the rows that a look for work took it: what is not walked is in no index scan and in no scan of a table. It
/// knows what is in its tables, as it does a minute after they are filled.
async fn rows_looked_at(database: &TestDatabase) -> Vec<(String, i64)> {
    let mut connection = database.connect(SUPERUSER).await;
    run(&mut connection, "ANALYZE run_queue; ANALYZE agent_runs").await;
    run(&mut connection, "SELECT pg_stat_reset()").await;
    let store = database.open().await;
    assert_eq!(look(&store, &executor(), &mut HashMap::new()).await.given.len(), 1);
    // Connections tell what they counted when they end.
    store.close().await;
    let rows = "SELECT relname::text, (seq_tup_read + COALESCE(idx_tup_fetch, 0)
                  + (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid))::bigint
                FROM pg_stat_user_tables t WHERE relname IN ('run_queue', 'agent_runs') ORDER BY 1";
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let read: Vec<(String, i64)> = sqlx::query_as(rows).fetch_all(&mut connection).await.unwrap();
        if read.len() == 2 && read.iter().all(|(_, rows)| *rows > 0) {
            return read;
        }
        assert!(Instant::now() < until, "{read:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_looks_at_few_rows() {
    let database = TestDatabase::postgres().await;
    let (store, acme) = database.open_with("acme").await;
    let bolt = add_organization(&store, "bolt").await;
    ask(&store, &acme, config("gateway.codex.v2", &["nowhere"])).await;
    database.change(ALIKE).await;
    for _ in 0..2 {
        ask(&store, &bolt, config("gateway.codex.v2", &["gpu"])).await;
    }
    store.close().await;
    let read = rows_looked_at(&database).await;
    assert!(read.iter().all(|(_, rows)| *rows < 500), "{read:?}");
    database.change(EACH_OTHERWISE).await;
    let read = rows_looked_at(&database).await;
    assert!(read.iter().all(|(_, rows)| *rows < 20 * KINDS_AT_ONCE as i64), "{read:?}");
}
