//! What happened is told once and in order, whatever breaks on the way.

use std::time::Duration;

use kitbag_executor::daemon::{End, Stop};
use kitbag_model::run::RunState;
use kitbag_model::run::wire::{FromExecutor, FromServer};

use crate::machine::{Bench, counting, job, numbers};
use crate::stand_in::{Fault, StandIn};

/// One run over connections that break at their first, second, third message and so on.
async fn broken(fault: Fault) {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    server.fail(move |connection, number, _| if number >= connection { fault } else { Fault::None });
    let job = job(&counting(60));
    let id = job.id;
    server.give(job);
    let executor = bench.start(&server, |_| ()).await;
    let outcome = server.result(id).await;
    assert_eq!(outcome.state, RunState::Succeeded, "{outcome:?}");
    // A server that broke off on the result has not said that it knows it.
    server.fail(|_, _, _| Fault::None);
    bench.empty().await;
    assert_eq!(server.texts(id), numbers(60));
    let connections = server.seen().connections;
    assert!(connections > 3, "{connections}");
    executor.stop.send_replace(Stop::Soon);
    assert_eq!(executor.end().await, End::Stopped);
}

#[tokio::test]
async fn events_come_once_and_in_order_when_messages_are_lost() {
    broken(Fault::Lost).await;
}

#[tokio::test]
async fn events_come_once_and_in_order_when_answers_are_lost() {
    broken(Fault::Unanswered).await;
}

#[tokio::test]
async fn what_is_said_twice_is_done_once() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    server.fail(|_, _, _| Fault::Twice);
    let ran = bench.at("ran");
    let first = job(&format!("echo x >> {}; {}", ran.display(), counting(5)));
    let id = first.id;
    let executor = bench.start(&server, |_| ()).await;
    server.until("a greeting", |seen| seen.hellos.first().cloned()).await;
    server.give(first.clone());
    server.say(FromServer::Run(Box::new(first.clone())));
    server.result(id).await;
    bench.empty().await;
    // Also when it is long over.
    server.say(FromServer::Run(Box::new(first)));
    server.until("a refusal", |seen| seen.refused.iter().find(|(refused, _)| *refused == id).cloned()).await;
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "x\n");
    assert_eq!(server.texts(id), numbers(5));
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

#[tokio::test]
async fn an_acknowledgement_that_was_forgotten_is_asked_for_again() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let mut forgotten = 0;
    server.fail(move |_, _, message| {
        let ends = matches!(message, FromExecutor::Result { .. });
        forgotten += usize::from(ends);
        // Twice the end is written down, and nobody says so; the connection stays.
        if ends && forgotten <= 2 { Fault::Mute } else { Fault::None }
    });
    let executor = bench.start(&server, |setup| setup.patience.resend = Duration::from_millis(50)).await;
    let job = job("say 1");
    let id = job.id;
    server.give(job);
    server.result(id).await;
    bench.empty().await;
    assert_eq!(server.texts(id), numbers(1));
    assert_eq!(server.seen().connections, 1);
    assert_eq!(server.seen().again, 2);
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

#[tokio::test]
async fn a_run_goes_on_while_nobody_is_there_and_is_told_afterwards() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let go = bench.at("go");
    let executor = bench.start(&server, |_| ()).await;
    let job = job(&format!("say 1; wait_for {}; say 2; touch {}", go.display(), bench.at("done").display()));
    let id = job.id;
    server.give(job);
    server.until("the first event", |seen| (!seen.texts(id).is_empty()).then_some(())).await;
    // Every greeting is cut off, until the agent is long done.
    server.fail(|_, _, _| Fault::Lost);
    server.hang_up();
    std::fs::write(&go, "").unwrap();
    crate::machine::until("the agent is done", || bench.at("done").exists()).await;
    server.fail(|_, _, _| Fault::None);
    server.result(id).await;
    assert_eq!(server.texts(id), numbers(2));
    assert!(server.seen().hellos.last().unwrap().contains(&id));
    bench.empty().await;
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

#[tokio::test]
async fn it_is_heard_that_it_is_alive_and_what_it_has() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |_| ()).await;
    server.until("heartbeats", |seen| (seen.heartbeats > 1).then_some(())).await;
    assert_eq!(server.seen().engines, ["gateway.codex.v2 0.166.0"]);
    executor.stop.send_replace(Stop::Soon);
    assert_eq!(executor.end().await, End::Stopped);
}
