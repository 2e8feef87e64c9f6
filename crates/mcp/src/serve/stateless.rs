//! Requests of the revisions without a session: each says for itself which revision it is, who its client is and what that can.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::Peer;
use super::headers::{named_by, only};
use super::{Fault, SESSIONS, STATELESS, code};

/// What a request says beside what it wants.
#[derive(Debug)]
pub(super) struct Beside {
    pub peer: Peer,
    pub progress_token: Option<Value>,
    /// What the request is known by beside its method.
    pub name: Option<String>,
    /// What the client was asked before, and what it shows for that.
    pub answers: Option<Value>,
    pub state: Option<String>,
}

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
    name: Option<Value>,
    uri: Option<Value>,
    #[serde(rename = "taskId")]
    task: Option<Value>,
    #[serde(rename = "inputResponses", default, deserialize_with = "present")]
    answers: Option<Value>,
    #[serde(rename = "requestState")]
    state: Option<Value>,
}

/// What is said in `_meta`, as far as it is ours.
#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    info: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<Value>,
    #[serde(rename = "progressToken", default, deserialize_with = "present")]
    progress_token: Option<Value>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// All revisions, newest first.
pub(super) fn supported() -> Vec<&'static str> {
    STATELESS.into_iter().chain(SESSIONS).collect()
}

/// Reads what is beside a request and judges it.
pub(super) fn beside(headers: &HeaderMap, method: &str, params: Option<&RawValue>) -> Result<Beside, Fault> {
    let wrong = |message: String| Fault::params(message).with_status(400);
    let text = params.map_or("{}", RawValue::get);
    let params: Params = serde_json::from_str(text).map_err(|error| wrong(format!("the parameters: {error}")))?;
    let said = only(headers, "mcp-protocol-version")?;
    let meta = params.meta.ok_or_else(|| wrong("`params._meta` is missing".to_owned()))?;
    let Some(Value::String(version)) = meta.version else {
        return Err(wrong("`_meta` must say `io.modelcontextprotocol/protocolVersion`".to_owned()));
    };
    let Some(Value::Object(capabilities)) = meta.capabilities else {
        return Err(wrong("`_meta` must say `io.modelcontextprotocol/clientCapabilities`".to_owned()));
    };
    match said {
        Some(said) if said == version => {}
        Some(said) => {
            let message = format!("the header MCP-Protocol-Version says {said:?}, the body {version:?}");
            return Err(Fault::new(code::HEADER_MISMATCH, message).with_status(400));
        }
        None => {
            let message = "the header MCP-Protocol-Version is missing";
            return Err(Fault::new(code::HEADER_MISMATCH, message).with_status(400));
        }
    }
    if !STATELESS.contains(&version.as_str()) {
        let message = format!("the revision {version:?} is not spoken here");
        let data = json!({"supported": supported(), "requested": version});
        return Err(Fault::new(code::UNSUPPORTED_VERSION, message).with_data(data).with_status(400));
    }
    let info = meta.info.unwrap_or_default();
    let log_level = meta.log_level.and_then(|level| level.as_str().map(ToOwned::to_owned));
    let name = match named_by(method) {
        Some("name") => params.name,
        Some("uri") => params.uri,
        Some(_) => params.task,
        None => None,
    };
    let state = match params.state {
        None | Some(Value::Null) => None,
        Some(Value::String(state)) => Some(state),
        Some(_) => return Err(wrong("`requestState` must be a text".to_owned())),
    };
    match &params.answers {
        None => {}
        Some(Value::Object(answers)) if answers.values().all(Value::is_object) => {}
        Some(_) => return Err(wrong("`inputResponses` must be an object of objects".to_owned())),
    }
    Ok(Beside {
        peer: Peer { version, stateless: true, capabilities, info, log_level },
        progress_token: meta.progress_token,
        name: name.and_then(|name| name.as_str().map(ToOwned::to_owned)),
        answers: params.answers,
        state,
    })
}
