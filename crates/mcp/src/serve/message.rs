//! One message of a client, taken apart no further than needed: what is inside travels as the text that it came as, so that
//! nothing of it is lost and nothing is written anew.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Fault;

/// The protocol's codes for what is wrong with a message.
pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;

/// The number or text that a request is known by, as its sender spelled it.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Id(Box<RawText>);

/// JSON text that can be compared.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
struct RawText(Box<RawValue>);

impl PartialEq for RawText {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for RawText {}

impl std::hash::Hash for RawText {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.get().hash(state);
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.0.get())
    }
}

impl Id {
    /// Only texts and whole numbers name a request.
    fn new(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let fits = text.starts_with('"') || !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| Self(Box::new(RawText(raw.to_owned()))))
    }

    /// As a value.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.0.0.get()).unwrap_or_default()
    }

    /// What a notification calls a request by.
    pub(super) fn of(value: &Value) -> Option<Self> {
        serde_json::value::to_raw_value(value).ok().and_then(|raw| Self::new(&raw))
    }
}

/// A message of a client.
#[derive(Debug)]
pub(super) enum Incoming {
    Request { id: Id, method: String, params: Option<Box<RawValue>> },
    Notification { method: String, params: Option<Box<RawValue>> },
    Response { id: Id, outcome: Result<Box<RawValue>, Value> },
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

/// Tells what is not there from what is there and null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some).map_err(de::Error::custom)
}

impl Incoming {
    /// Reads one message. Batches were in one revision of the protocol only, which let servers refuse them.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let wrong = |message: &str| Fault::new(INVALID_REQUEST, message).with_status(400);
        let wire: Wire<'_> = serde_json::from_slice(bytes).map_err(|error| match bytes.trim_ascii_start().first() {
            Some(b'[') => wrong("one message at a time: batches are not taken"),
            _ if error.is_data() => wrong(&format!("this is no message of JSON-RPC 2.0: {error}")),
            _ => Fault::new(PARSE_ERROR, format!("this is not JSON: {error}")).with_status(400),
        })?;
        if wire.jsonrpc.as_deref() != Some("2.0") {
            return Err(wrong("a message must say `\"jsonrpc\": \"2.0\"`"));
        }
        let id = match wire.id {
            Some(raw) => Some(Id::new(raw).ok_or_else(|| wrong("`id` must be a text or a whole number"))?),
            None => None,
        };
        if wire.params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(wrong("`params` must be an object"));
        }
        let params = || wire.params.map(ToOwned::to_owned);
        match (wire.method, id) {
            (Some(method), Some(id)) => Ok(Self::Request { id, method: method.into_owned(), params: params() }),
            (Some(method), None) => Ok(Self::Notification { method: method.into_owned(), params: params() }),
            (None, Some(id)) => match (wire.result, wire.error) {
                (Some(result), None) => Ok(Self::Response { id, outcome: Ok(result.to_owned()) }),
                (None, Some(error)) => Ok(Self::Response { id, outcome: Err(error) }),
                _ => Err(wrong("a message has a method, a result or an error")),
            },
            (None, None) => Err(wrong("a message has a method, or an id and a result")),
        }
    }
}

/// The answer to a request, in one line.
pub(super) fn response(id: Option<&Id>, outcome: &Result<Box<RawValue>, Fault>) -> String {
    match (id, outcome) {
        (Some(id), Ok(result)) => {
            let result = result.get();
            let mut text = String::with_capacity(result.len() + 48);
            text.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
            text.push_str(id.0.0.get());
            text.push_str(",\"result\":");
            // A line end between two values of somebody's pretty JSON would end the line.
            one_line(&mut text, result);
            text.push('}');
            text
        }
        (_, Err(fault)) => {
            let mut error = json!({"code": fault.code, "message": fault.message});
            if let (Some(data), Some(error)) = (&fault.data, error.as_object_mut()) {
                error.insert("data".to_owned(), data.clone());
            }
            let mut message = json!({"jsonrpc": "2.0", "error": error});
            if let (Some(id), Some(message)) = (id, message.as_object_mut()) {
                message.insert("id".to_owned(), id.value());
            }
            message.to_string()
        }
        (None, Ok(_)) => String::new(),
    }
}

/// Line ends cannot stand inside a text of JSON, only between its parts, where a space means the same.
fn one_line(text: &mut String, json: &str) {
    if json.contains(['\n', '\r']) {
        text.push_str(&json.replace(['\n', '\r'], " "));
    } else {
        text.push_str(json);
    }
}

/// Something that is not answered, in one line.
pub(super) fn notification(method: &str, params: Option<&Value>) -> String {
    match params {
        Some(params) => json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string(),
        None => json!({"jsonrpc": "2.0", "method": method}).to_string(),
    }
}

/// A question of ours, in one line.
pub(super) fn question(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_stays_as_it_came() {
        let text = br#"{"jsonrpc":"2.0","id":1e0,"method":"x"}"#;
        assert!(Incoming::read(text).is_err());
        let text = br#"{"jsonrpc":"2.0","id":"a\u0041","method":"tools/call","params":{"n":1.000000000000000000001,"u":{ "x" :1}}}"#;
        let Incoming::Request { id, method, params } = Incoming::read(text).unwrap() else { panic!("a request") };
        assert_eq!((id.to_string().as_str(), method.as_str()), (r#""a\u0041""#, "tools/call"));
        assert_eq!(params.unwrap().get(), r#"{"n":1.000000000000000000001,"u":{ "x" :1}}"#);
    }

    #[test]
    fn what_is_no_message_is_told() {
        for (text, code) in [
            ("", PARSE_ERROR),
            ("{", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, INVALID_REQUEST),
            ("5", INVALID_REQUEST),
            ("{}", INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0"}"#, INVALID_REQUEST),
        ] {
            let fault = Incoming::read(text.as_bytes()).unwrap_err();
            assert_eq!(fault.code, code, "{text}: {}", fault.message);
            assert_eq!(fault.status, Some(400), "{text}");
        }
    }

    #[test]
    fn an_answer_is_one_line() {
        let raw = RawValue::from_string("{\n \"a\": \"\\n\"\r\n}".to_owned()).unwrap();
        let id = Id::of(&json!(7)).unwrap();
        let text = response(Some(&id), &Ok(raw));
        assert_eq!(text, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{  \"a\": \"\\n\"  }}");
        let fault = Fault::new(-1, "no").with_data(json!({"x": 1}));
        let text = response(None, &Err(fault));
        assert_eq!(text, r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"no","data":{"x":1}}}"#);
    }
}
