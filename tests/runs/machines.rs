//! What becomes of a machine's agents when somebody ends them, and of what it gives back.

use std::fs;
use std::time::{Duration, Instant};

use kitbag_testkit::{Server, on_both};
use serde_json::{Value, json};

use crate::kit::{EXECUTORS, RUNS, ask, config, serve, serve_impatiently, show, until};
use crate::machine::{Agent, Machine};

/// How many processes of an agent live.
fn alive(agent: &Agent) -> usize {
    let program = agent.programs()[0].join("codex").into_os_string().into_string().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_it = |line: String| line.split('\0').any(|word| word == program);
    processes.filter(|path| fs::read_to_string(path.join("cmdline")).is_ok_and(is_it)).count()
}

async fn wait(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The executor that was paired first.
async fn first(server: &Server) -> Value {
    let listed = server.get(EXECUTORS).await.expect(200);
    let mut all = listed["items"].as_array().unwrap().clone();
    all.sort_by_key(|executor| executor["createdAt"].as_str().unwrap().to_owned());
    all.swap_remove(0)
}

on_both! {
    async fn cancelling_and_taking_out_end_the_agent(database: TestDatabase) {
        let server = serve(&database);
        let agent = Agent::new();
        let mut machine = Machine::pair(&server, &server.url, &agent.programs(), &[]).await;
        machine.start();
        let cancelled = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        wait("the agent works", async || agent.starts() == 1 && alive(&agent) > 0).await;
        server.post(&format!("{RUNS}/{cancelled}/cancel"), &json!({})).await;
        until(&server, cancelled, "cancelled").await;
        wait("nobody is left", async || alive(&agent) == 0).await;
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        wait("the agent works", async || agent.starts() == 2 && alive(&agent) > 0).await;
        let id = first(&server).await["id"].as_str().unwrap().to_owned();
        server.delete(&format!("{EXECUTORS}/{id}")).await;
        wait("nobody is left", async || alive(&agent) == 0).await;
        wait("it says why it stops", async || machine.log().contains("taken out")).await;
        assert_ne!(show(&server, run).await["state"], "succeeded");
    }

    /// Whoever names an attempt that nobody took has it again; so a machine that gave one back must not name it.
    async fn what_is_given_back_is_for_others(database: TestDatabase) {
        let server = serve_impatiently(&database);
        let (gone, other) = (Agent::new(), Agent::new());
        let mut machine = Machine::pair(&server, &server.url, &gone.programs(), &[]).await;
        machine.start();
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        wait("the agent works", async || gone.starts() == 1).await;
        machine.kill();
        // It comes back without the agent, so it cannot take the run anew.
        fs::remove_file(gone.programs()[0].join("codex")).unwrap();
        machine.start();
        until(&server, run, "queued").await;
        for _ in 0..3 {
            let before = first(&server).await["lastSeenAt"].clone();
            wait("a heartbeat", async || first(&server).await["lastSeenAt"] != before).await;
        }
        assert_eq!(show(&server, run).await["state"], "queued");
        other.go();
        let mut second = Machine::pair(&server, &server.url, &other.programs(), &[]).await;
        second.start();
        let over = until(&server, run, "succeeded").await;
        assert_eq!((&over["attempt"], other.starts()), (&json!(2), 1));
    }
}
