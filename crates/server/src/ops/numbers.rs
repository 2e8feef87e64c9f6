//! What is counted, and what is looked at when somebody asks for numbers.
//!
//! A label is one of a known few words: no organisation, chat, toolset, server or person is one, since there may be any number of them and
//! who they are is nobody's business who watches a machine.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use kitbag_model::run::RunState;
use kitbag_model::{CallErrorCode, CallStatus, ToolCall, ToolId};
use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::app::App;

/// The bounds of what is measured in seconds: from a call that waits for nobody to one that takes all of its time.
pub const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0];

/// So long numbers wait for the database. One that does not answer has no numbers.
const PATIENCE: Duration = Duration::from_secs(2);

/// In these the kernel counts time for programs, whatever its own clock does.
const TICKS: f64 = 100.0;

/// Who runs tools.
const PROVIDERS: [&str; 4] = ["builtin", "toolset", "mcp", "container"];

/// The place of containers among them.
const CONTAINER: usize = 3;

fn provider(tool: &ToolId) -> usize {
    match tool {
        ToolId::Builtin(_) => 0,
        ToolId::Toolset { .. } => 1,
        ToolId::Mcp { .. } | ToolId::LegacyMcp { .. } => 2,
    }
}

/// What is counted of calls that go well, which are the many: looked up by words once.
static WELL: [OnceLock<(Counter, Histogram)>; 4] = [const { OnceLock::new() }; 4];

fn well(provider: usize) -> &'static (Counter, Histogram) {
    WELL[provider].get_or_init(|| {
        let (name, status) = (PROVIDERS[provider], CallStatus::Success.as_str());
        let counter = counter!("kitbag_tool_calls_total", "provider" => name, "status" => status, "code" => "");
        (counter, histogram!("kitbag_tool_call_seconds", "provider" => name))
    })
}

/// A call is over. `contained` says that it was one of a container's tool, whose id looks like any of a toolset's.
pub(crate) fn ended(call: &ToolCall, contained: bool) {
    let provider = if contained { CONTAINER } else { provider(&call.tool_id) };
    let (counter, seconds) = well(provider);
    match &call.outcome.error {
        None => counter.increment(1),
        Some(error) => {
            let (name, status, code) = (PROVIDERS[provider], call.status.as_str(), error.code.as_str());
            counter!("kitbag_tool_calls_total", "provider" => name, "status" => status, "code" => code).increment(1);
        }
    }
    if let Some(end) = call.finished_at {
        let took = end.as_datetime() - call.started_at.as_datetime();
        seconds.record(took.as_seconds_f64().max(0.0));
    }
}

/// Says what everything is, and has what counts begin at nothing: an alert on something that never happened must not be blind. Call it
/// once, when whoever keeps numbers is there.
pub fn register() {
    describe_counter!("kitbag_http_requests_total", "Requests, by route and status");
    describe_histogram!("kitbag_http_request_seconds", Unit::Seconds, "How long requests took, by route");
    describe_counter!(
        "kitbag_tool_calls_total",
        "Calls of tools that are over, by who ran them, how they ended and why"
    );
    describe_histogram!("kitbag_tool_call_seconds", Unit::Seconds, "How long calls took, with the wait for their turn");
    for provider in PROVIDERS {
        for (status, code) in [
            (CallStatus::Success, ""),
            (CallStatus::Error, CallErrorCode::ToolFailed.as_str()),
            (CallStatus::Error, CallErrorCode::Timeout.as_str()),
            (CallStatus::Error, CallErrorCode::Internal.as_str()),
            (CallStatus::Error, CallErrorCode::Unavailable.as_str()),
        ] {
            let labels = [("provider", provider), ("status", status.as_str()), ("code", code)];
            counter!("kitbag_tool_calls_total", &labels).increment(0);
        }
        let _ = histogram!("kitbag_tool_call_seconds", "provider" => provider);
    }
    describe_counter!("kitbag_calls_refused_total", "Calls that were refused because there were too many, by of what");
    for reason in REFUSED {
        counter!("kitbag_calls_refused_total", "reason" => reason).increment(0);
    }
    describe_counter!("kitbag_agent_runs_total", "How often runs of agents came into a state");
    for state in RunState::ALL {
        counter!("kitbag_agent_runs_total", "state" => state.as_str()).increment(0);
    }
    describe_counter!("kitbag_turns_total", "Turns of models, by who made the model");
    for maker in ["anthropic", "openai"] {
        counter!("kitbag_turns_total", "maker" => maker).increment(0);
    }
    describe_counter!("kitbag_events_dropped_total", "Events that listeners missed because they were too slow");
    for listener in ["api", "mcp"] {
        counter!("kitbag_events_dropped_total", "listener" => listener).increment(0);
    }
    describe_counter!("kitbag_trace_spans_total", "Spans, by whether a collector took them");
    for outcome in ["sent", "failed", "dropped"] {
        counter!("kitbag_trace_spans_total", "outcome" => outcome).increment(0);
    }
    describe_counter!("kitbag_nodes_declared_dead_total", "Nodes that this one declared dead");
    counter!("kitbag_nodes_declared_dead_total").increment(0);
    describe_counter!(
        "kitbag_leases_lost_total",
        "Leases that this node lost because it was declared dead, with its own"
    );
    counter!("kitbag_leases_lost_total").increment(0);
    describe_counter!(
        "kitbag_requests_passed_on_total",
        "Requests that another node had to answer, by what became of them"
    );
    for outcome in ["answered", "tried_again", "unreachable"] {
        passed_on(outcome, 0);
    }
    describe_counter!(
        "kitbag_bucket_errors_total",
        "Requests that the blob store did not answer, or answered with an error of its own"
    );
    counter!("kitbag_bucket_errors_total").increment(0);
    describe_gauge!("kitbag_nodes", "Nodes of the installation as this one sees them, with itself");
    describe_gauge!(
        "kitbag_blob_cache_bytes",
        Unit::Bytes,
        "Copies of blobs from the bucket, as far as they were counted"
    );
    describe_gauge!(
        "kitbag_laid_out_bytes",
        Unit::Bytes,
        "Workspaces that are laid out here while a bucket has what is in them"
    );
    describe_gauge!("kitbag_calls_unrecorded", "What happened to calls and is not written into the database yet");
    describe_gauge!("kitbag_draining", "1 while the server stops");
    describe_gauge!("kitbag_calls_queued", "Calls that run or wait for their turn");
    describe_gauge!("kitbag_calls_queue_limit", "How many that may be");
    describe_gauge!("kitbag_worker_calls", "Calls of workers, by whether they run or wait for a place");
    describe_gauge!("kitbag_workspaces_open", "Workspaces that are open");
    describe_gauge!("kitbag_workspace_leases", "Workspaces that somebody may change just now");
    describe_gauge!("kitbag_mcp_servers", "MCP servers, by how they are");
    describe_gauge!("kitbag_executors_connected", "Executors that are connected to this server");
    describe_gauge!(
        "kitbag_agent_runs",
        "Runs that are not over, of all servers on the database, by whether an executor has them"
    );
    describe_gauge!("kitbag_event_listeners", "Who listens to events");
    describe_gauge!("kitbag_database_connections", "Connections to the database, by whether they are used");
    describe_gauge!("kitbag_database_connections_limit", "How many connections this server may have");
    describe_gauge!("kitbag_database_up", "1 if the database answered this very question");
    describe_gauge!("kitbag_data_bytes", Unit::Bytes, "The size of the disk that the data folder is on");
    describe_gauge!("kitbag_data_free_bytes", Unit::Bytes, "What is free there");
    describe_gauge!("kitbag_processes", "Processes that this server started, with those that they started");
    describe_gauge!("process_resident_memory_bytes", Unit::Bytes, "Memory of the server itself");
    describe_gauge!("process_open_fds", "Open files and connections of the server itself");
    describe_gauge!("process_max_fds", "How many that may be");
    describe_gauge!("process_cpu_seconds_total", Unit::Seconds, "Processor time of the server itself");
    describe_gauge!("process_start_time_seconds", Unit::Seconds, "When it started");
}

/// Why calls are refused: their organisation has as many as its quota lets it have, there are too many here, or there were too many in the
/// last minute.
const REFUSED: [&str; 3] = ["quota", "busy", "rate"];

/// A call was refused for one of these reasons, whoever asked for it. By MCP that is an answer like others, and no status shows it.
pub(crate) fn refused(reason: &'static str) {
    debug_assert!(REFUSED.contains(&reason), "{reason} is not registered");
    counter!("kitbag_calls_refused_total", "reason" => reason).increment(1);
}

/// Something became of a request that another node had to answer.
pub(crate) fn passed_on(outcome: &'static str, times: u64) {
    counter!("kitbag_requests_passed_on_total", "outcome" => outcome).increment(times);
}

/// This node said that another is dead.
pub(crate) fn declared_dead() {
    counter!("kitbag_nodes_declared_dead_total").increment(1);
}

/// This node was declared dead, and lost what it held.
pub(crate) fn lost(leases: usize) {
    counter!("kitbag_leases_lost_total").increment(leases as u64);
}

/// Looks at everything that is a state and not a count.
pub(crate) async fn look(app: &App) {
    let number = |number: usize| number as f64;
    gauge!("kitbag_draining").set(f64::from(u8::from(app.is_draining())));
    let calls = app.calls().counts();
    gauge!("kitbag_calls_queued").set(number(calls.queued));
    gauge!("kitbag_calls_queue_limit").set(number(calls.most));
    gauge!("kitbag_worker_calls", "state" => "running").set(number(calls.working));
    gauge!("kitbag_worker_calls", "state" => "waiting").set(number(calls.waiting));
    let (open, leased) = app.workspaces().counts();
    gauge!("kitbag_workspaces_open").set(number(open));
    gauge!("kitbag_workspace_leases").set(number(leased));
    for (status, count) in app.servers().counts() {
        gauge!("kitbag_mcp_servers", "status" => status.as_str()).set(number(count));
    }
    gauge!("kitbag_executors_connected").set(number(app.runs().executors()));
    gauge!("kitbag_event_listeners").set(number(app.events().listeners()));
    let connections = app.store().connections();
    gauge!("kitbag_database_connections", "state" => "idle").set(f64::from(connections.idle));
    gauge!("kitbag_database_connections", "state" => "used").set(f64::from(connections.used));
    gauge!("kitbag_database_connections_limit").set(f64::from(connections.most));
    let runs = tokio::time::timeout(PATIENCE, app.runs().counts()).await;
    gauge!("kitbag_database_up").set(f64::from(u8::from(matches!(runs, Ok(Ok(_))))));
    if let Ok(Ok((waiting, held))) = runs {
        gauge!("kitbag_agent_runs", "state" => "waiting").set(waiting as f64);
        gauge!("kitbag_agent_runs", "state" => "held").set(held as f64);
    }
    let (alive, late) = app.nodes().counts();
    gauge!("kitbag_nodes", "state" => "alive").set(number(alive));
    gauge!("kitbag_nodes", "state" => "late").set(number(late));
    counter!("kitbag_bucket_errors_total").absolute(kitbag_bucket::failures());
    gauge!("kitbag_blob_cache_bytes").set(app.workspaces().cache_bytes() as f64);
    gauge!("kitbag_laid_out_bytes").set(app.workspaces().laid_out_bytes() as f64);
    gauge!("kitbag_calls_unrecorded").set(number(app.store().unrecorded()));
    let data = app.settings().data.clone();
    // Files of the kernel, and of a disk that may be slow.
    let _ = tokio::task::spawn_blocking(move || {
        if let Ok(disk) = rustix::fs::statvfs(&data) {
            gauge!("kitbag_data_bytes").set((disk.f_blocks * disk.f_frsize) as f64);
            gauge!("kitbag_data_free_bytes").set((disk.f_bavail * disk.f_frsize) as f64);
        }
        process();
    })
    .await;
}

/// The server as the kernel sees it, under the names that all programs have for it.
fn process() {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name is in brackets and may have anything in it; what follows is numbers, the third of all first.
    let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let field = |place: usize| fields.get(place - 3).and_then(|text| text.trim().parse::<f64>().ok());
    if let (Some(user), Some(system)) = (field(14), field(15)) {
        gauge!("process_cpu_seconds_total").set((user + system) / TICKS);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    if let Some(resident) = resident {
        gauge!("process_resident_memory_bytes").set(resident * 1024.0);
    }
    let up = fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = up.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
    if let (Some(began), Some(booted)) = (field(22), booted) {
        gauge!("process_start_time_seconds").set(booted + began / TICKS);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        gauge!("process_open_fds").set(open.count() as f64);
    }
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    gauge!("process_max_fds").set(most.map_or(f64::INFINITY, |most| most as f64));
    gauge!("kitbag_processes").set(descendants(std::process::id()) as f64);
}

/// How many processes are below one.
fn descendants(of: u32) -> usize {
    let Ok(all) = fs::read_dir("/proc") else { return 0 };
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let (mut found, mut at) = (vec![of], 0);
    while let Some(above) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        at += 1;
    }
    found.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_below_are_counted() {
        let before = descendants(std::process::id());
        assert!(descendants(1) > before, "this one is below the first");
    }
}
