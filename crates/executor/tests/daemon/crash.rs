//! The program is killed in the middle, as the kernel would kill it, and started anew.

use kitbag_model::run::RunState;
use kitbag_model::run::wire::{Assignment, AttemptId, FromExecutor};

use crate::machine::{Bench, is_alive, job, numbers, pids, until};
use crate::stand_in::{Fault, StandIn};

#[tokio::test]
async fn what_had_begun_is_named_and_nothing_of_it_lives_on() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    bench.pair(&server).await;
    let found = bench.at("pids");
    // A grandchild with a session of its own, which outlives its parent.
    let script = format!(
        "echo $$ >> {0}; setsid sh -c 'echo $$ >> {0}; exec sleep 1000' & say 1; wait_for {1}",
        found.display(),
        bench.at("never").display()
    );
    let first = job(&script);
    let id = first.id;
    let program = bench.spawn(&[]);
    server.give(first.clone());
    server.until("an event", |seen| (!seen.texts(id).is_empty()).then_some(())).await;
    until("two processes", || pids(&found).len() == 2).await;
    program.kill();
    let left = pids(&found);
    until("the agent is gone", || !is_alive(left[0])).await;
    let again = bench.spawn(&[]);
    server.until("a refusal", |seen| seen.refused.iter().find(|(refused, _)| *refused == id).cloned()).await;
    until("nobody is left", || !left.iter().any(|pid| is_alive(*pid))).await;
    assert_eq!(server.seen().hellos.last().unwrap(), &[id]);
    bench.empty().await;
    // The next attempt is another one.
    let id = AttemptId { attempt: 2, ..id };
    server.give(Assignment { id, config: job("say 1").config, ..first });
    assert_eq!(server.result(id).await.state, RunState::Succeeded);
    assert_eq!(server.texts(id), numbers(1));
    again.terminate();
    assert_eq!(again.ended().await, Some(0));
}

#[tokio::test]
async fn a_result_that_nobody_acknowledged_is_sent_again_and_the_agent_is_not_asked_again() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    bench.pair(&server).await;
    let ran = bench.at("ran");
    let job = job(&format!("echo x >> {}; say 1; say 2; say 3", ran.display()));
    let id = job.id;
    // The result is never read, and the connection breaks each time.
    server.fail(|_, _, message| match message {
        FromExecutor::Result { .. } => Fault::Lost,
        _ => Fault::None,
    });
    let program = bench.spawn(&[]);
    server.give(job);
    let kept = bench.place().spool().join(format!("{}.1/result", id.run_id));
    until("the result is on disk", || kept.exists()).await;
    program.kill();
    assert!(server.seen().results.is_empty());
    server.fail(|_, _, _| Fault::None);
    let again = bench.spawn(&[]);
    assert_eq!(server.result(id).await.state, RunState::Succeeded);
    bench.empty().await;
    assert_eq!(server.texts(id), numbers(3));
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "x\n");
    // One executor per data folder.
    let second = bench.run(&["start", "--json"]).await;
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stdout).contains("\"CONFLICT\""), "{second:?}");
    drop(again);
}
