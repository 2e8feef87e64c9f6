//! `kitbag executor pair TOKEN`: the token becomes an identity that this machine keeps.

use std::io::Read;
use std::time::Duration;

use kitbag_guard::dial::{ExchangeLimits, exchange};
use kitbag_model::{ExecutorId, OrgId, Secret};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ProgramError;
use super::cli::{PairFlags, RouteFlags};
use crate::credentials::Credentials;
use crate::daemon::VERSION;
use crate::link::{Route, ServerAddress};
use crate::place::{self, Place};
use crate::voice::Voice;

const LIMITS: ExchangeLimits = ExchangeLimits { bytes: 64 << 10, total: Duration::from_secs(30) };

/// The most characters that a name may have.
const LONGEST_NAME: usize = 120;

/// What the server answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paired {
    executor_id: ExecutorId,
    executor_token: String,
    organization_id: OrgId,
    gateway_ws_url: String,
}

pub(super) async fn run(place: &Place, flags: PairFlags, voice: Voice) -> Result<(), ProgramError> {
    let path = place.credentials();
    let before = Credentials::read(&path).map_err(ProgramError::at(&path));
    // A file that cannot be read is in nobody's way once somebody says so.
    let before = if flags.replace { before.ok().flatten() } else { before? };
    if let Some(known) = before.as_ref().filter(|_| !flags.replace) {
        return Err(ProgramError::Paired {
            server: known.server.to_string(),
            executor: known.executor_id.to_string(),
            organization: known.organization_id.to_string(),
        });
    }
    let lock = place.lock().await.map_err(ProgramError::at(place.folder()))?;
    let _lock = lock.ok_or_else(|| ProgramError::Running(place.folder().to_owned()))?;
    let server: ServerAddress = match flags.server.or_else(|| place.announced()) {
        Some(named) => named.parse()?,
        None => return Err(ProgramError::NoServer(place.data().to_owned())),
    };
    let name = named(flags.name)?;
    let paired = ask(&server, &token(flags.token)?, &name, &route(&flags.route)?).await?;
    let credentials = Credentials {
        server: server.clone(),
        executor_id: paired.executor_id,
        token: Secret::new(paired.executor_token),
        organization_id: paired.organization_id,
        gateway: paired.gateway_ws_url,
    };
    if before.is_some() {
        // What another identity left is nothing that this one may send.
        place::remove(&place.spool());
        place::remove(&place.runs());
    }
    credentials.write(&path).map_err(ProgramError::at(&path))?;
    let told = json!({
        "executorId": credentials.executor_id, "organizationId": credentials.organization_id,
        "server": server.to_string(), "name": name, "credentials": path,
    });
    voice.tell(&told, || {
        format!(
            "paired with {server} as {name:?} ({}) of the organisation {}\n`kitbag executor start` takes its runs",
            credentials.executor_id, credentials.organization_id
        )
    });
    Ok(())
}

/// How the flags say that the server is reached.
pub(super) fn route(flags: &RouteFlags) -> Result<Route, ProgramError> {
    let proxy = flags.proxy.as_ref().map(|proxy| proxy.parse()).transpose()?;
    Ok(Route { ca_file: flags.ca_file.clone(), proxy })
}

fn token(given: String) -> Result<Secret, ProgramError> {
    let mut text = given;
    if text == "-" {
        text.clear();
        let read = std::io::stdin().take(4096).read_to_string(&mut text);
        read.map_err(|error| ProgramError::WrongUse(format!("the token cannot be read: {error}")))?;
    }
    match text.trim() {
        "" => Err(ProgramError::WrongUse("the pairing token is empty".to_owned())),
        token => Ok(Secret::new(token)),
    }
}

fn named(given: Option<String>) -> Result<String, ProgramError> {
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = given.unwrap_or_else(own).trim().to_owned();
    if name.is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control) {
        let reason = format!("--name: a name has 1 to {LONGEST_NAME} characters, none of them a control character");
        return Err(ProgramError::WrongUse(reason));
    }
    Ok(name)
}

async fn ask(server: &ServerAddress, token: &Secret, name: &str, route: &Route) -> Result<Paired, ProgramError> {
    let body = json!({ "pairingToken": token.expose(), "name": name, "agentVersion": VERSION });
    let answer = exchange(Method::POST, &server.pair(), &route.policy(), LIMITS, |request| request.json(&body)).await;
    let answer = answer.map_err(|source| ProgramError::Unreachable { server: server.to_string(), source })?;
    let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if matches!(answer.status, 200 | 201)
        && let Ok(paired) = serde_json::from_value(told.clone())
    {
        return Ok(paired);
    }
    Err(match told["code"].as_str() {
        Some("PAIRING_TOKEN_INVALID") => ProgramError::TokenInvalid,
        Some("PAIRING_TOKEN_EXPIRED") => ProgramError::TokenExpired,
        code => ProgramError::Refused {
            server: server.to_string(),
            status: answer.status,
            code: code.unwrap_or_default().to_owned(),
            message: told["message"].as_str().map_or_else(
                || "nothing that a Kitbag server would say; is the address right?".to_owned(),
                ToOwned::to_owned,
            ),
        },
    })
}
