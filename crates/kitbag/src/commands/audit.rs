//! `kitbag audit`

use std::io;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::{AuditCommand, AuditFilterFlags, AuditFormat, Place};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, plain, table, text};

const AUDIT: &str = "/v1/orgs/local/audit";

pub(crate) async fn run(place: &Place, command: AuditCommand, output: &Output) -> Result<ExitCode, Failure> {
    let client = Client::open(place).await?;
    let done = dispatch(&client, command, output).await;
    client.close().await;
    done
}

async fn dispatch(client: &Client, command: AuditCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        AuditCommand::List { filter, limit } => {
            let lines = client.list(AUDIT, &query(filter), Some(limit)).await?;
            output.result(&json!({ "items": lines }), |_| shown(&lines))
        }
        AuditCommand::Export { filter, format, output: target } => {
            let format = match format {
                AuditFormat::Jsonl => "jsonl",
                AuditFormat::Csv => "csv",
            };
            let address = format!("{AUDIT}/export?format={format}&{}", query(filter).unwrap_or_default());
            let Some(target) = target else {
                client.download(&address, &mut io::stdout()).await?;
                return Ok(ExitCode::SUCCESS);
            };
            let size = client.save(&address, &target).await?;
            let done = json!({ "path": target, "size": size });
            output.result(&done, |_| format!("{} ({size} bytes)", target.display()))
        }
    }
}

fn query(filter: AuditFilterFlags) -> Option<String> {
    let AuditFilterFlags { actor, action, subject, since, until } = filter;
    let fields = [("actor", actor), ("action", action), ("subject", subject), ("since", since), ("until", until)];
    let given = fields.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", segment(&value?))));
    Some(given.collect::<Vec<_>>().join("&")).filter(|query| !query.is_empty())
}

fn shown(lines: &[Value]) -> String {
    if lines.is_empty() {
        return "Nothing of the kind was done.".to_owned();
    }
    let row = |line: &Value| ["at", "actor", "action", "subject"].map(|field| plain(text(line, field)));
    table(["AT", "WHO", "WHAT", "TO"], &lines.iter().map(row).collect::<Vec<_>>())
}
