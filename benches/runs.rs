//! What dispatch costs: how many runs a second are given to executors, against the durable commits that the same database makes of one
//! row each; and how long a run waits for an executor that is idle, against one request that makes a chat. Everything in one run.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[path = "../tests/runs/kit.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod kit;

use std::time::Instant;

use kitbag_model::run::apply::application;
use kitbag_model::run::{Executor, NewRun, Pool, RunConfig, RunRenderings};
use kitbag_model::{ExecutorId, NewChat, OrgId, RunId, Secret, Timestamp};
use kitbag_store::{Claim, Store};
use kitbag_testkit::TestDatabase;
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");
/// So many runs wait, and so many executors take one after the other.
const RUNS: usize = 400;
const EXECUTORS: usize = 4;
const ROUNDS: usize = 100;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for database in [TestDatabase::sqlite(), TestDatabase::postgres().await] {
            let store = database.open().await;
            claims(&store).await;
            let kind = store.kind();
            store.close().await;
            waiting(&database, kind).await;
        }
    });
}

/// Runs that are given away one at a time, by several at once.
async fn claims(store: &Store) {
    let org = OrgId::local();
    let config = RunConfig::read(&json!({ "prompt": "x", "engine": { "id": "gateway.codex.v2" } })).unwrap();
    let mut tx = store.write(&org).await.unwrap();
    let chat = tx.create_chat(&NewChat::default()).await.unwrap().id;
    for _ in 0..RUNS {
        let run = NewRun {
            id: RunId::generate(),
            name: None,
            application: application(&config, None),
            config: config.clone(),
            toolset: None,
            renderings: RunRenderings::default(),
            chat_id: chat,
            pre_manifest_id: None,
            apply: false,
            retry_of: None,
            created_by: "bench".into(),
            private_to: None,
            trace: None,
        };
        tx.create_run(&run).await.unwrap();
    }
    tx.commit().await.unwrap();
    let began = Instant::now();
    let taken = all(store, |store| async move {
        let executor = executor();
        let mut count = 0;
        loop {
            let kinds = store.read(&OrgId::local()).await.unwrap().kinds_for(&executor, None).await.unwrap().fitting;
            let mut tx = store.write(&OrgId::local()).await.unwrap();
            let lease_until = Timestamp::now().plus_seconds(60);
            let claim = Claim { executor: &executor, kinds: &kinds, most: 1, lease_until };
            let got = tx.claim_runs(claim, &mut |_, _, _| true).await.unwrap().runs.len();
            tx.commit_chat().await.unwrap();
            count += got;
            if got == 0 {
                return count;
            }
        }
    })
    .await;
    let claims = RUNS as f64 / began.elapsed().as_secs_f64();
    assert_eq!(taken, RUNS, "each is given once");
    let began = Instant::now();
    all(store, |store| async move {
        for _ in 0..RUNS / EXECUTORS {
            let mut tx = store.write(&OrgId::local()).await.unwrap();
            tx.create_chat(&NewChat::default()).await.unwrap();
            tx.commit_chat().await.unwrap();
        }
        0
    })
    .await;
    let rows = RUNS as f64 / began.elapsed().as_secs_f64();
    println!(
        "{}: {claims:.0} claims a second by {EXECUTORS} executors, {:.2} of its commits of one row ({rows:.0} a second)",
        store.kind(),
        claims / rows
    );
}

/// As many at once as there are executors; the sum of what they say.
async fn all<F: Future<Output = usize> + Send + 'static>(store: &Store, work: impl Fn(Store) -> F) -> usize {
    let tasks: Vec<_> = (0..EXECUTORS).map(|_| tokio::spawn(work(store.clone()))).collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await.unwrap();
    }
    sum
}

fn executor() -> Executor {
    let engines = serde_json::from_value(json!([{ "id": "gateway.codex.v2", "version": "1.0.0" }])).unwrap();
    Executor {
        id: ExecutorId::generate(),
        name: "bench".into(),
        version: "1".into(),
        pool: Pool::Byon,
        labels: Vec::new(),
        engines,
        capacity: 1,
        containers: false,
        hash: Secret::generate().hash(),
        created_at: Timestamp::now(),
        last_seen_at: None,
        revoked_at: None,
    }
}

/// From the request for a run until an idle executor has it, and until the server knows that it began.
async fn waiting(database: &TestDatabase, kind: &str) {
    let server = kit::serve(database);
    let mut executor = kit::pair(&server, &json!({})).await.connect(1, &[]).await;
    let (mut given, mut started, mut chats) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let run = kit::ask(&server, &json!({ "config": kit::config("gateway.codex.v2") })).await;
        let job = executor.given().await;
        given.push(began.elapsed().as_secs_f64() * 1e3);
        executor.started(job.id).await;
        executor.told(job.id, 1, &["x"]).await;
        executor.hear().await;
        started.push(began.elapsed().as_secs_f64() * 1e3);
        executor.ended(job.id, "done").await;
        executor.acknowledged(job.id).await;
        assert_eq!(job.id.run_id, run);
        let began = Instant::now();
        server.post("/v1/orgs/local/chats", &json!({})).await.expect(201);
        chats.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (given, started, chat) = (median(&mut given), median(&mut started), median(&mut chats));
    println!(
        "{kind}: asked for to given to an idle executor p50 {given:.1} ms ({:.1} requests that make a chat, {chat:.1} ms), to started and \
         its first event kept {started:.1} ms ({:.1})",
        given / chat,
        started / chat
    );
}
