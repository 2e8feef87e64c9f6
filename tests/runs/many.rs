//! Many runs and many executors: every run ends exactly once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kitbag_model::RunId;
use kitbag_testkit::{Server, on_both};
use serde_json::{Value, json};

use crate::kit::{Paired, RUNS, ask, config, pair, serve};
use kitbag_model::run::wire::FromServer;

/// Who was given which run how often.
type Given = Arc<Mutex<BTreeMap<RunId, Vec<u32>>>>;

/// Works until `count` runs were given to all of them together, and says the answer to each.
async fn work(paired: Paired, slots: u32, given: Given, count: usize) {
    let mut executor = paired.connect(slots, &[]).await;
    let mut open = 0;
    loop {
        if open == 0 && given.lock().unwrap().len() == count {
            return;
        }
        let heard = tokio::time::timeout(std::time::Duration::from_millis(500), executor.hear()).await;
        match heard {
            Ok(FromServer::Run(job)) => {
                given.lock().unwrap().entry(job.id.run_id).or_default().push(job.id.attempt);
                open += 1;
                assert!(open <= slots, "more than it has room for");
                executor.started(job.id).await;
                executor.told(job.id, 1, &["at it"]).await;
                executor.ended(job.id, &job.id.run_id.to_string()).await;
            }
            Ok(FromServer::Ack { result: true, .. }) => open -= 1,
            Ok(FromServer::Ack { .. }) => {}
            Ok(other) => panic!("{other:?}"),
            Err(_) => executor.alive(&[]).await,
        }
    }
}

async fn all_runs(server: &Server) -> Vec<Value> {
    let (mut items, mut query) = (Vec::new(), "?limit=200".to_owned());
    loop {
        let part = server.get(&format!("{RUNS}{query}")).await.expect(200);
        items.extend(part["items"].as_array().unwrap().iter().cloned());
        let Some(cursor) = part["nextCursor"].as_str() else { return items };
        query = format!("?limit=200&cursor={cursor}");
    }
}

on_both! {
    async fn five_hundred_runs_over_five_executors_of_twenty(database: TestDatabase) {
        const COUNT: usize = 500;
        let server = serve(&database);
        let given: Given = Arc::default();
        let mut working = Vec::new();
        for _ in 0..5 {
            let paired = pair(&server, &json!({})).await;
            working.push(tokio::spawn(work(paired, 20, Arc::clone(&given), COUNT)));
        }
        for _ in 0..COUNT {
            ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        }
        for one in working {
            one.await.unwrap();
        }
        let given = given.lock().unwrap().clone();
        assert!(given.values().all(|attempts| *attempts == [1]), "each was given once");
        let runs = all_runs(&server).await;
        assert_eq!(runs.len(), COUNT);
        for run in runs {
            assert_eq!((&run["state"], &run["output"], &run["attempt"]), (&json!("succeeded"), &run["id"], &json!(1)));
        }
    }
}
