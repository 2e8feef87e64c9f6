//! What a message without a session says of where it must be answered: a state that was given out for a request that waits in one node's
//! memory, or a task whose questions are in another's.

use kitbag_model::{ChatId, OrgId, ToolCallId};
use serde::Deserialize;

use crate::app::App;

#[derive(Deserialize)]
struct Message {
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "requestState")]
    state: Option<String>,
    #[serde(rename = "taskId")]
    task: Option<String>,
}

/// The node that must answer a message, if it is not for any.
pub(super) async fn node_of(app: &App, org: &OrgId, message: &[u8]) -> Option<String> {
    let params = serde_json::from_slice::<Message>(message).ok()?.params?;
    if let Some((_, node)) = params.state.as_deref().and_then(|state| state.rsplit_once('@')) {
        return Some(node.to_owned());
    }
    let (chat, call) = params.task.as_deref()?.split_once('.')?;
    let (chat, call): (ChatId, ToolCallId) = (chat.parse().ok()?, call.parse().ok()?);
    let mut tx = app.store().read_beside(org).await.ok()?;
    tx.call_node(chat, call).await.ok()?
}
