//! `kitbag doctor`: what this machine offers, and what to do about what is missing.

mod shared;

use std::process::ExitCode;

use kitbag_server::checks::{self, Check, REQUIRED, Verdict};
use serde_json::json;

use crate::cli::Place;
use crate::client::Client;
use crate::config::Config;
use crate::data::DataFolder;
use crate::failure::Failure;
use crate::output::{Output, table};

pub(crate) async fn run(place: &Place, cluster: bool, output: &Output) -> Result<ExitCode, Failure> {
    let folder = DataFolder::open(place)?;
    let checks = match cluster {
        true => shared::look(&Config::of_folder(&folder, place.config.as_deref())?).await,
        false => {
            let mut checks = checks::machine(folder.path()).await;
            // Behind the data folder and the disk, which it needs.
            checks.insert(2, database(place).await);
            checks
        }
    };
    let value = json!({
        "ok": checks.iter().all(|check| check.verdict != Verdict::Bad),
        "checks": checks.iter().map(|check| json!({
            "name": check.name, "status": check.verdict.as_str(), "found": check.found, "advice": check.advice,
        })).collect::<Vec<_>>(),
    });
    output.result(&value, |_| report(&checks))?;
    Ok(if value["ok"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(checks: &[Check]) -> String {
    let row =
        |check: &Check| [check.name.to_owned(), check.verdict.as_str().to_owned(), check.found.replace('\n', " ")];
    let mut text = table(["CHECK", "STATUS", "FOUND"], &checks.iter().map(row).collect::<Vec<_>>());
    let mut wrong = checks.iter().filter(|check| check.verdict != Verdict::Good).peekable();
    if wrong.peek().is_none() {
        return format!("{text}\n\nEverything is there.");
    }
    text.push_str("\n\nWhat to do:");
    wrong.for_each(|check| text.push_str(&format!("\n  {}: {}", check.name, check.advice)));
    let lacks = |check: &&Check| check.verdict != Verdict::Good && REQUIRED.contains(&check.name);
    let lacking: Vec<&str> = checks.iter().filter(lacks).map(|check| check.name).collect();
    if !lacking.is_empty() {
        text.push_str(&format!(
            "\n\nWithout {} no tool is called. `kitbag serve --sandbox relaxed` (KITBAG_SANDBOX=relaxed, or \
             sandbox = \"relaxed\" in kitbag.toml) calls them all the same and notes in each call what was missing.",
            lacking.join(" and ")
        ));
    }
    text
}

async fn database(place: &Place) -> Check {
    let client = match Client::open(place).await {
        Ok(client) => client,
        Err(failure) => return Check::wrong("database", Verdict::Bad, failure.message, "mend what it says"),
    };
    let via = match &client {
        Client::Running { server, .. } => {
            format!("answers, through the server at {} (process {})", server.url, server.pid)
        }
        Client::Inside { app, .. } => format!("answers ({}); no server is running", app.store().kind()),
    };
    let answer = client.get("/readyz").await;
    client.close().await;
    match answer {
        Ok(_) => Check::good("database", via),
        Err(failure) => {
            Check::wrong("database", Verdict::Bad, failure.message, "look at the database's log, then restart Kitbag")
        }
    }
}
