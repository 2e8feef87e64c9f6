//! What somebody has to know who carries messages between a pipe and an address: of which kind a message is, and what must be
//! said about it in headers. Whoever carries needs to understand no more of it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::headers::named_by;
use super::message::{INVALID_REQUEST, PARSE_ERROR};
use crate::connection::encoded;

/// Says that a request comes from a pipe. Pipes have no headers, so no argument of a call is in one.
pub const BRIDGE: &str = "kitbag-bridge";

/// Something went wrong on the way, not where the message was meant for.
pub const ON_THE_WAY: i64 = -32000;

/// A message that came out of a pipe.
#[derive(Debug)]
pub struct Piped {
    /// The number of a request or of an answer, as it is spelled.
    pub id: Option<String>,
    /// Which kind it is.
    pub kind: Kind,
    /// What must be said in headers.
    pub headers: Vec<(&'static str, String)>,
}

/// What a carrier tells apart.
#[derive(Debug, Eq, PartialEq)]
pub enum Kind {
    /// Begins a session.
    Begin,
    /// A request of a revision without sessions. To hang up is to cancel it.
    Alone {
        /// Whether it is answered only when the client has heard enough.
        endless: bool,
    },
    /// A request within a session.
    Request,
    /// The client has begun: from now on it hears what is said by itself.
    Begun,
    /// A request, by its number as it is spelled, is not wanted any more.
    Cancel(String),
    /// An answer, or something else that is not answered.
    Said,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(rename = "_meta")]
    meta: Option<Map<String, Value>>,
    #[serde(borrow, rename = "requestId")]
    cancelled: Option<&'a RawValue>,
}

impl Piped {
    /// Reads a line. What is no message is answered with the line that comes back.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        let wire: Wire<'_> = serde_json::from_slice(line).map_err(|error| match line.trim_ascii_start().first() {
            Some(b'[') => failure(None, INVALID_REQUEST, "one message at a time: batches are not taken"),
            _ if error.is_data() => {
                failure(None, INVALID_REQUEST, &format!("this is no message of JSON-RPC 2.0: {error}"))
            }
            _ => failure(None, PARSE_ERROR, &format!("this is not JSON: {error}")),
        })?;
        // What is wrong inside is told by who answers.
        let text = wire.params.map_or("{}", RawValue::get);
        let params: Params<'_> = serde_json::from_str(text).unwrap_or_default();
        let method = wire.method.as_deref();
        let meta = params.meta.unwrap_or_default();
        let version = meta.get("io.modelcontextprotocol/protocolVersion").and_then(Value::as_str);
        let mut headers = vec![(BRIDGE, "stdio".to_owned())];
        let kind = match (method, wire.id, version) {
            (Some(method), Some(_), Some(version)) => {
                headers.push(("mcp-protocol-version", encoded(version)));
                headers.push(("mcp-method", encoded(method)));
                let all: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
                if let Some(name) = named_by(method).and_then(|key| all.get(key)?.as_str()) {
                    headers.push(("mcp-name", encoded(name)));
                }
                Kind::Alone { endless: method == "subscriptions/listen" }
            }
            (Some("initialize"), Some(_), None) => Kind::Begin,
            (Some(_), Some(_), None) => Kind::Request,
            (Some("notifications/cancelled"), None, _) => match params.cancelled {
                Some(id) => Kind::Cancel(id.get().to_owned()),
                None => Kind::Said,
            },
            (Some("notifications/initialized"), None, _) => Kind::Begun,
            _ => Kind::Said,
        };
        Ok(Self { id: wire.id.map(|id| id.get().to_owned()), kind, headers })
    }
}

/// Whether a message is the answer to the request of this number.
pub fn answers(message: &str, id: &str) -> bool {
    let wire: Option<Wire<'_>> = serde_json::from_str(message).ok();
    wire.is_some_and(|wire| wire.method.is_none() && wire.id.is_some_and(|found| found.get() == id))
}

/// The revision that was agreed on, in the answer to the beginning of a session.
pub fn agreed(answer: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        result: Result,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Result {
        protocol_version: String,
    }
    serde_json::from_str::<Answer>(answer).ok().map(|answer| answer.result.protocol_version)
}

/// Whether an answer says that there is no such session any more.
pub fn is_lost(answer: &str) -> bool {
    let read: Option<Value> = serde_json::from_str(answer).ok();
    read.is_some_and(|answer| answer["error"]["code"] == -32001)
}

/// What goes back for a request, where what came is no message of the protocol: why, in a line.
pub fn failure(id: Option<&str>, code: i64, message: &str) -> String {
    let error = json!({"code": code, "message": message});
    match id {
        Some(id) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"),
        None => json!({"jsonrpc": "2.0", "error": error}).to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(line: &Value) -> Piped {
        Piped::read(line.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_message_is_told_by_what_it_says() {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "é", "_meta": meta}});
        let call = read(&call);
        assert_eq!((call.id.as_deref(), call.kind), (Some("1"), Kind::Alone { endless: false }));
        let said: Vec<_> = call.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let wanted = [
            (BRIDGE, "stdio"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?w6k=?="),
        ];
        assert_eq!(said, wanted);
        for (line, kind) in [
            (
                json!({"id": 1, "method": "subscriptions/listen", "params": {"_meta": meta}}),
                Kind::Alone { endless: true },
            ),
            (json!({"id": "a", "method": "initialize", "params": {}}), Kind::Begin),
            (json!({"id": "a", "method": "tools/list"}), Kind::Request),
            (json!({"method": "notifications/initialized"}), Kind::Begun),
            (
                json!({"method": "notifications/cancelled", "params": {"requestId": "x"}}),
                Kind::Cancel("\"x\"".to_owned()),
            ),
            (
                json!({"method": "notifications/cancelled", "params": {"_meta": meta, "requestId": 7}}),
                Kind::Cancel("7".to_owned()),
            ),
            (json!({"id": 3, "result": {}}), Kind::Said),
            (json!({"method": "notifications/roots/list_changed"}), Kind::Said),
        ] {
            assert_eq!(read(&line).kind, kind, "{line}");
        }
    }

    #[test]
    fn what_is_no_message_is_told_so() {
        for (line, code) in
            [("nonsense", -32700), ("[]", -32600), ("{\"id\":", -32700), ("5", -32600), ("{\"method\":5}", -32600)]
        {
            let answer: Value = serde_json::from_str(&Piped::read(line.as_bytes()).unwrap_err()).unwrap();
            assert_eq!((answer["error"]["code"].as_i64(), answer.get("id")), (Some(code), None), "{line}");
        }
    }

    #[test]
    fn an_answer_is_known_by_its_number() {
        assert!(answers("{\"id\":1,\"result\":{}}", "1"));
        assert!(!answers("{\"id\":1,\"method\":\"ping\"}", "1"));
        assert!(!answers("{\"id\":\"1\",\"result\":{}}", "1"));
        assert!(answers(&failure(Some("\"x\""), 1, "why"), "\"x\""));
    }
}
