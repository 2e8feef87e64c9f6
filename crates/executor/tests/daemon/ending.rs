//! What ends an attempt before its time, and what ends the executor.

use std::time::Duration;

use kitbag_executor::daemon::{End, Stop};
use kitbag_model::run::wire::{AttemptId, FromServer, ServerSnapshot, ToolsetSnapshot};
use kitbag_model::run::{Application, Profile, RunState, ToolsetFrom};

use crate::machine::{Bench, is_alive, job, pids, until};
use crate::stand_in::StandIn;

/// An agent that never ends by itself, with a grandchild that hides. Their numbers.
async fn endless(bench: &Bench, server: &StandIn) -> (AttemptId, Vec<u32>) {
    let found = bench.at("pids");
    let script = format!(
        "echo $$ >> {0}; setsid sh -c 'echo $$ >> {0}; exec sleep 1000' & say 1; exec sleep 1000",
        found.display()
    );
    let job = job(&script);
    let id = job.id;
    server.give(job);
    server.until("an event", |seen| (!seen.texts(id).is_empty()).then_some(())).await;
    until("two processes", || pids(&found).len() == 2).await;
    (id, pids(&found))
}

async fn gone(pids: &[u32]) {
    until("nobody is left", || !pids.iter().any(|pid| is_alive(*pid))).await;
}

#[tokio::test]
async fn cancelling_kills_the_whole_tree_and_is_told() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |_| ()).await;
    let (id, pids) = endless(&bench, &server).await;
    server.say(FromServer::Cancel { id });
    assert_eq!(server.result(id).await.state, RunState::Cancelled);
    gone(&pids).await;
    bench.empty().await;
    // Of what is not here somebody must be told, who would wait for it otherwise.
    let unknown = AttemptId { attempt: 9, ..id };
    server.say(FromServer::Cancel { id: unknown });
    server.until("a refusal", |seen| seen.refused.iter().find(|(id, _)| *id == unknown).cloned()).await;
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

#[tokio::test]
async fn of_what_was_taken_away_nothing_more_is_said() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |_| ()).await;
    let (id, pids) = endless(&bench, &server).await;
    server.take_away(id);
    gone(&pids).await;
    bench.empty().await;
    assert!(server.seen().results.is_empty());
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

#[tokio::test]
async fn no_more_is_taken_than_there_is_room_for() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |setup| setup.capacity = 2).await;
    let go = bench.at("go");
    let jobs = [1, 2, 3].map(|_| job(&format!("wait_for {}; say 1", go.display())));
    server.until("a greeting", |seen| seen.hellos.first().cloned()).await;
    jobs.iter().for_each(|job| server.give(job.clone()));
    let (refused, reason) = server.until("a refusal", |seen| seen.refused.first().cloned()).await;
    assert_eq!(refused, jobs[2].id);
    assert!(reason.contains('2'), "{reason}");
    std::fs::write(&go, "").unwrap();
    for job in &jobs[..2] {
        assert_eq!(server.result(job.id).await.state, RunState::Succeeded);
    }
    bench.empty().await;
    let next = AttemptId { attempt: 2, ..refused };
    server.give(kitbag_model::run::wire::Assignment { id: next, ..jobs[2].clone() });
    assert_eq!(server.result(next).await.state, RunState::Succeeded);
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

#[tokio::test]
async fn who_is_taken_out_stops_everything() {
    for say in [true, false] {
        let (bench, server) = (Bench::new(), StandIn::start().await);
        let executor = bench.start(&server, |_| ()).await;
        let (_, pids) = endless(&bench, &server).await;
        server.revoke(say);
        if !say {
            // It finds out when it comes back.
            server.hang_up();
        }
        assert_eq!(executor.end().await, End::Revoked);
        gone(&pids).await;
    }
}

#[tokio::test]
async fn the_program_says_that_it_was_taken_out() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    bench.pair(&server).await;
    server.revoke(false);
    let output = bench.run(&["start"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("taken out"), "{output:?}");
}

#[tokio::test]
async fn a_missing_variable_ends_it_before_the_agent_begins() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |_| ()).await;
    let ran = bench.at("ran");
    let mut job = job(&format!("touch {}", ran.display()));
    let id = job.id;
    job.application = Application::Toolset {
        toolset_id: "tools".parse().unwrap(),
        from: ToolsetFrom::Config,
        profile: Profile::Gateway,
    };
    job.keep_files = true;
    job.toolset = Some(ToolsetSnapshot {
        id: "tools".into(),
        name: "Tools".into(),
        version: "1".into(),
        mcp_servers: vec![ServerSnapshot {
            id: "one".into(),
            server_type: "stdio".into(),
            enabled: true,
            command: Some("true".into()),
            args: Vec::new(),
            cwd: None,
            env: [("KEY".to_owned(), "${ENV:NOT_HERE}".to_owned())].into(),
            url: None,
            headers: Default::default(),
        }],
        agent_skills: Vec::new(),
        program: None,
        containers: Vec::new(),
    });
    server.give(job);
    assert_eq!(server.result(id).await.state, RunState::Failed);
    assert_eq!(server.seen().code(id).as_deref(), Some("MCP_ENV_NOT_SET:NOT_HERE"));
    assert!(!ran.exists());
    executor.stop.send_replace(Stop::Soon);
    executor.end().await;
}

#[tokio::test]
async fn who_is_stopped_lets_what_goes_on_end() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    bench.pair(&server).await;
    let program = bench.spawn(&[]);
    let go = bench.at("go");
    let (first, second) = (job(&format!("say 1; wait_for {}; say 2", go.display())), job("say 3"));
    server.give(first.clone());
    server.until("an event", |seen| (!seen.texts(first.id).is_empty()).then_some(())).await;
    program.terminate();
    until("it says that it stops", || std::fs::read_to_string(bench.at("output")).unwrap().contains("\"stopping\""))
        .await;
    server.give(second.clone());
    server.until("a refusal", |seen| seen.refused.iter().find(|(id, _)| *id == second.id).cloned()).await;
    std::fs::write(&go, "").unwrap();
    assert_eq!(server.result(first.id).await.state, RunState::Succeeded);
    assert_eq!(program.ended().await, Some(0));
    bench.empty().await;
}

#[tokio::test]
async fn who_may_not_wait_gives_back_what_goes_on() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let executor = bench.start(&server, |setup| setup.grace = Duration::ZERO).await;
    let (id, pids) = endless(&bench, &server).await;
    executor.stop.send_replace(Stop::Soon);
    server.until("it is given back", |seen| seen.refused.iter().find(|(given, _)| *given == id).cloned()).await;
    assert_eq!(executor.end().await, End::Stopped);
    gone(&pids).await;
    assert!(server.seen().results.is_empty());
    bench.empty().await;
}
