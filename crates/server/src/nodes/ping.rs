//! Whether a node is who its row says it is, where that says it is: asked by `kitbag doctor --cluster`, with the seal that nodes know each other by.

use std::path::Path;

use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use kitbag_model::Secret;
use kitbag_vault::{KEY_FILE, Vault, VaultError};

use super::channel::{self, SEAL};
use super::forward::UNDONE;
use super::remote::node_of;
use crate::api::error::ApiError;

pub(crate) const PING: &str = "/internal/nodes/ping";

/// What is answered is only heard by who has the master key.
pub(crate) async fn pinged(request: Request) -> Result<StatusCode, ApiError> {
    node_of(&request).map(|_| StatusCode::NO_CONTENT)
}

/// Asks nodes, by their ids and addresses, whether they are there, with the master key of a data folder or the one that was given. What is wrong with
/// which; nothing at all if there is no key.
pub async fn ping(
    data: &Path,
    given: Option<&Secret>,
    nodes: &[(&str, &str)],
) -> Result<Option<Vec<String>>, VaultError> {
    // Who only asks makes no key.
    if given.is_none() && !data.join(KEY_FILE).exists() {
        return Ok(None);
    }
    let vault = &Vault::open(data, given)?;
    let asking = nodes
        .iter()
        .map(|(id, address)| async move { ask(vault, id, address).await.err().map(|why| format!("{address}: {why}")) });
    Ok(Some(futures_util::future::join_all(asking).await.into_iter().flatten().collect()))
}

async fn ask(vault: &Vault, id: &str, address: &str) -> Result<(), String> {
    let seal =
        channel::seal_from(vault, "doctor", id, &Method::GET, PING, None).map_err(|_| "cannot be asked".to_owned())?;
    let client = kitbag_guard::dial::peer_client().map_err(|error| error.to_string())?;
    let asking = client.get(format!("{address}{PING}")).header(SEAL, seal).header(header::HOST, "localhost");
    let answer = match tokio::time::timeout(channel::PATIENCE, asking.send()).await {
        Err(_) => return Err("does not answer in time".to_owned()),
        Ok(Err(error)) if error.is_connect() => return Err("cannot be reached".to_owned()),
        Ok(Err(error)) => return Err(format!("does not answer: {error}")),
        Ok(Ok(answer)) => answer,
    };
    match answer.status() {
        StatusCode::NO_CONTENT => Ok(()),
        // It opened the seal, and is about to stop.
        StatusCode::SERVICE_UNAVAILABLE if answer.headers().contains_key(UNDONE) => Ok(()),
        _ if answer.headers().contains_key(UNDONE) => {
            Err("another server is there, or it has another master key".to_owned())
        }
        status => Err(format!("something else answers there ({status})")),
    }
}
