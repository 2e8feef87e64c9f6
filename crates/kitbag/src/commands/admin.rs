//! `kitbag admin`

use std::process::ExitCode;

use kitbag_model::Secret;
use kitbag_store::migrate::migrate_postgres;
use serde_json::{Value, json};

use crate::cli::{AdminCommand, Place, TokenCommand};
use crate::client::{Client, segment};
use crate::failure::{Failure, not_opened};
use crate::output::{Output, table, text};

const TOKENS: &str = "/v1/orgs/local/tokens";

pub(crate) async fn run(place: &Place, command: AdminCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        AdminCommand::Migrate { database, app_role } => migrate(&Secret::new(database), &app_role, output).await,
        AdminCommand::Owner { org, name, email } => {
            let client = Client::open(place).await?;
            let done = owner(&client, &org, name.as_deref(), &email, output).await;
            client.close().await;
            done
        }
        AdminCommand::Token(command) => {
            let client = Client::open(place).await?;
            let done = token(&client, command, output).await;
            client.close().await;
            done
        }
    }
}

async fn migrate(owner: &Secret, app_role: &str, output: &Output) -> Result<ExitCode, Failure> {
    let done = migrate_postgres(owner, app_role).await.map_err(not_opened)?;
    let value = json!({ "from": done.from, "to": done.to, "appRole": app_role, "madeRole": done.made_role });
    output.result(&value, |_| {
        let moved = if done.from == done.to {
            format!("The schema is up to date (version {}).", done.to)
        } else {
            format!("The schema went from version {} to {}.", done.from, done.to)
        };
        let role = if done.made_role {
            format!("\nThe role {app_role} was made, without a password. Give it one before you serve as it.")
        } else {
            String::new()
        };
        format!("{moved}{role}\nNow: kitbag serve --database postgres://{app_role}@HOST/DATABASE")
    })
}

async fn owner(
    client: &Client,
    org: &str,
    name: Option<&str>,
    email: &str,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let body = json!({ "id": org, "name": name, "ownerEmail": email });
    let made = client.post("/v1/orgs", &body).await?;
    output.result(&made, |made| {
        let invitation = &made["invitation"];
        let (link, ends) = (text(invitation, "link"), text(invitation, "expiresAt"));
        format!(
            "{} will be an owner of {} with this link, which works once and until {ends}:\n{link}",
            text(invitation, "email"),
            text(made, "id")
        )
    })
}

async fn token(client: &Client, command: TokenCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        TokenCommand::New { name, scopes, expires_in } => {
            let body = json!({ "name": name, "scopes": scopes, "expiresInSeconds": expires_in });
            let made = client.post(TOKENS, &body).await?;
            output.result(&made, |made| text(made, "secret").to_owned())
        }
        TokenCommand::List => {
            let tokens = client.list(TOKENS, &None, None).await?;
            let row = |token: &Value| {
                let scopes = token["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let ends = token["expiresAt"].as_str().unwrap_or("never");
                [
                    text(token, "id").to_owned(),
                    scopes.collect::<Vec<_>>().join(","),
                    ends.to_owned(),
                    text(token, "name").to_owned(),
                ]
            };
            output.result(&json!({ "items": tokens }), |_| {
                table(["TOKEN", "SCOPES", "ENDS", "NAME"], &tokens.iter().map(row).collect::<Vec<_>>())
            })
        }
        TokenCommand::Revoke { token } => {
            client.delete(&format!("{TOKENS}/{}", segment(&token))).await?;
            output.result(&json!({ "revoked": token }), |_| format!("revoked {token}"))
        }
    }
}
