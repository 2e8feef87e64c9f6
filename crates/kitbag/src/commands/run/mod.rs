//! `kitbag run` and `kitbag runs`

mod ask;
mod executors;
mod follow;
mod show;
mod way;

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::{Place, RunFlags, RunsCommand};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, text};
use follow::CtrlC;
use way::Way;

pub(in crate::commands) use ask::prompt;

pub(super) const RUNS: &str = "/v1/orgs/local/agent-runs";

/// `kitbag run`: asks for a run, and follows it.
pub(crate) async fn run(place: &Place, flags: RunFlags, output: &Output) -> Result<ExitCode, Failure> {
    let (body, detach) = (ask::body(&flags)?, flags.detach);
    let client = Client::open(place).await?;
    let done = asked(place, &client, &body, detach, output).await;
    client.close().await;
    done
}

async fn asked(
    place: &Place,
    client: &Client,
    body: &Value,
    detach: bool,
    output: &Output,
) -> Result<ExitCode, Failure> {
    if client.is_inside() {
        // Executors connect to a server; a command that opened the folder itself is none.
        return Err(Failure::failed("runs need a server that executors can connect to: start one with `kitbag serve`"));
    }
    let run = client.post(RUNS, body).await?;
    if detach {
        return output.result(&run, |run| text(run, "id").to_owned());
    }
    output.note(&format!("run {}", text(&run, "id")));
    follow::follow(Way::new(place, client, output), text(&run, "id"), CtrlC::Cancels).await
}

/// `kitbag runs`
pub(crate) async fn runs(place: &Place, command: RunsCommand, output: &Output) -> Result<ExitCode, Failure> {
    let client = Client::open(place).await?;
    let done = dispatch(place, &client, command, output).await;
    client.close().await;
    done
}

async fn dispatch(place: &Place, client: &Client, command: RunsCommand, output: &Output) -> Result<ExitCode, Failure> {
    let of = |run: &str| format!("{RUNS}/{}", segment(run));
    match command {
        RunsCommand::List { state, limit } => {
            let filter = state.map(|state| format!("state={}", segment(&state)));
            let runs = client.list(RUNS, &filter, limit).await?;
            output.result(&json!({ "items": runs }), |_| show::table_of(&runs))
        }
        RunsCommand::Show { run } => {
            let shown = client.get(&of(&run)).await?;
            let files = client.get(&format!("{}/workspace", of(&run))).await?;
            let whole = json!({ "run": shown, "workspace": files });
            output.result(&whole, |whole| show::whole(&whole["run"], &whole["workspace"]))
        }
        RunsCommand::Follow { run } => follow::follow(Way::new(place, client, output), &run, CtrlC::Leaves).await,
        RunsCommand::Cancel { run } => {
            let shown = client.post(&format!("{}/cancel", of(&run)), &json!({})).await?;
            output.result(&shown, |run| match text(run, "state") {
                "cancelled" => "cancelled".to_owned(),
                state => format!("it is {state}; its executor is told to end it"),
            })
        }
        RunsCommand::Retry { run } => {
            let made = client.post(&format!("{}/retry", of(&run)), &json!({})).await?;
            output.result(&made, |run| text(run, "id").to_owned())
        }
        RunsCommand::Apply { run } => {
            let manifest = client.post(&format!("{}/apply", of(&run)), &json!({})).await?;
            output.result(&manifest, |manifest| format!("the chat's state is {}", text(manifest, "id")))
        }
        RunsCommand::Executors(command) => executors::dispatch(client, command, output).await,
    }
}
