//! `kitbag admin`

use std::process::ExitCode;

use kitbag_model::Secret;
use kitbag_store::migrate::migrate_postgres;
use kitbag_store::{Trimmed, trim_audit_postgres};
use serde_json::{Value, json};
use url::Url;

use crate::cli::{AdminCommand, Place, TokenCommand};
use crate::client::{Client, segment};
use crate::commands::moving;
use crate::failure::{Failure, not_opened};
use crate::output::{Output, table, text};

const SERVER: &str = "/v1/orgs/local/server";
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
        AdminCommand::Retain { database: Some(owner) } => trim(&Secret::new(owner), output).await,
        AdminCommand::Retain { database: None } => {
            let client = Client::open(place).await?;
            let done = retain(&client, output).await;
            client.close().await;
            done
        }
        AdminCommand::Reseal => {
            let client = Client::open(place).await?;
            let done = reseal(&client, output).await;
            client.close().await;
            done
        }
        AdminCommand::Move { from, from_blobs, to, to_blobs, dry_run } => {
            moving::run((&from, from_blobs.as_deref()), (&to, to_blobs.as_deref()), dry_run, output).await
        }
        AdminCommand::Backup { folder, database, dry_run } => {
            moving::backup(place, &folder, database, dry_run, output).await
        }
        AdminCommand::Restore { folder, database, dry_run } => {
            moving::restore(place, &folder, database, dry_run, output).await
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
    let link = text(&made["invitation"], "link");
    let is_local =
        Url::parse(link).ok().and_then(|link| link.host().map(|host| is_this_machine(&host))).unwrap_or(false);
    if is_local {
        output.note(
            "the link is for this machine; for people elsewhere serve with --public-url, the address that they use",
        );
    }
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

/// Whether nobody else reaches us by that name.
fn is_this_machine(host: &url::Host<&str>) -> bool {
    match host {
        url::Host::Domain(name) => *name == "localhost",
        url::Host::Ipv4(address) => address.is_loopback() || address.is_unspecified(),
        url::Host::Ipv6(address) => address.is_loopback() || address.is_unspecified(),
    }
}

/// As the owner of the tables: what the role that serves cannot.
async fn trim(owner: &Secret, output: &Output) -> Result<ExitCode, Failure> {
    let trimmed = trim_audit_postgres(owner, "kitbag admin retain").await.map_err(not_opened)?;
    let of_org = |one: &Trimmed| json!({ "org": one.org.to_string(), "audit": one.lines });
    let value = json!({ "trimmed": trimmed.iter().map(of_org).collect::<Vec<_>>() });
    output.result(&value, |_| match trimmed.is_empty() {
        true => "No line of the audit is older than its organisation wants it kept.".to_owned(),
        false => {
            let told = |one: &Trimmed| format!("{}: {} lines of the audit were deleted", one.org, one.lines);
            trimmed.iter().map(told).collect::<Vec<_>>().join("\n")
        }
    })
}

async fn retain(client: &Client, output: &Output) -> Result<ExitCode, Failure> {
    let (mut chats, mut audit): (u64, Option<u64>) = (0, None);
    loop {
        let done = client.post_nothing(&format!("{SERVER}/retain")).await?;
        chats += done["chats"].as_u64().unwrap_or_default();
        audit = done["audit"].as_u64().map(|lines| lines + audit.unwrap_or_default());
        if done["more"] != true {
            break;
        }
    }
    output.result(&json!({ "chats": chats, "audit": audit }), |_| {
        let lines = match audit {
            Some(lines) => format!("{lines} lines of the audit were deleted."),
            None => {
                "Lines of the audit are deleted by the owner of the tables: kitbag admin retain --database OWNER_URL"
                    .to_owned()
            }
        };
        format!("{chats} chats were deleted.\n{lines}")
    })
}

async fn reseal(client: &Client, output: &Output) -> Result<ExitCode, Failure> {
    let mut resealed = 0;
    let last = loop {
        let done = client.post_nothing(&format!("{SERVER}/reseal")).await?;
        resealed += done["resealed"].as_u64().unwrap_or_default();
        if done["more"] != true {
            break done;
        }
    };
    let unreadable = last["unreadable"].as_array().cloned().unwrap_or_default();
    if !unreadable.is_empty() {
        let told = |one: &Value| {
            format!(
                "{} {} of {}: {}",
                text(one, "kind"),
                text(one, "name"),
                text(one, "organizationId"),
                text(one, "reason")
            )
        };
        let told: Vec<String> = unreadable.iter().map(told).collect();
        return Err(Failure::failed(format!(
            "{resealed} secrets were sealed anew with the key {}. {} could not be opened, so keep the older keys:\n{}",
            text(&last, "keyId"),
            unreadable.len(),
            told.join("\n")
        )));
    }
    let value = json!({ "keyId": last["keyId"], "resealed": resealed, "all": resealed + last["current"].as_u64().unwrap_or_default() });
    output.result(&value, |value| {
        format!(
            "{resealed} secrets were sealed anew. All {} have the key {} now: the older lines of the key's file are needed no more.",
            value["all"],
            text(value, "keyId")
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
