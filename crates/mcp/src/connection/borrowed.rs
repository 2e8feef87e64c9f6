//! A connection to a server whose process another node has: what is asked here is asked there, on the connection that the other node has
//! anyway, and what comes of it comes back. The two nodes speak the same protocol, a message a line, with a greeting in front and with words of
//! their own for what only nodes say to each other. `manager::lent` is the other end.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use super::ask::Asker;
use super::hub::{Answer, Hub, refusal};
use super::negotiation::beside;
use super::open::ready;
use super::{Agreed, Answers, CallError, ConnectError, Connection, Notice, Options};
use crate::transport::Link;
use crate::transport::lines::Lines;
use crate::transport::peer::Peer;

/// A way in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Duplex for T {}

/// The way from one node to another.
pub type Wire = Box<dyn Duplex>;

/// The other node takes nothing new on this connection: `why` says why not.
pub(crate) const MOVED: &str = "notifications/kitbag/moved";

/// The code of what did not come from the server but from the node that has it.
const NODES: i64 = -32097;

/// What is said first: what was agreed on with the server.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hello {
    pub(crate) version: String,
    pub(crate) stateless: bool,
    pub(crate) server_info: Value,
    pub(crate) instructions: Option<String>,
    pub(crate) capabilities: Value,
}

/// Greets over the way and listens.
pub(super) async fn open(
    wire: Wire,
    options: &Options,
    notices: UnboundedSender<Notice>,
    answers: Arc<dyn Answers>,
) -> Result<Connection, ConnectError> {
    let failed = |why: &str| ConnectError::Failed(format!("the server that has it {why}"));
    let (mut reader, writer) = tokio::io::split(wire);
    let mut lines = Lines::new(options.longest_message);
    let greeted = async {
        loop {
            if let Some(line) = lines.next() {
                return serde_json::from_slice::<Hello>(line).ok();
            }
            if lines.too_long() || !matches!(lines.more(&mut reader).await, Ok(1..)) {
                return None;
            }
        }
    };
    let hello = timeout(options.connect, greeted).await.map_err(|_| failed("does not say anything"))?;
    let hello = hello.ok_or_else(|| failed("said nothing that can be understood"))?;
    let hub = Hub::of_node(notices, Arc::clone(&answers));
    let link: Arc<dyn Link> = Peer::start((reader, lines), writer, options, Arc::clone(&hub));
    hub.attach(&link);
    let offered = answers.capabilities(true);
    let agreed = Agreed {
        beside: hello.stateless.then(|| beside(&hello.version, &offered)),
        version: hello.version.into(),
        server_info: hello.server_info,
        instructions: hello.instructions,
        capabilities: hello.capabilities,
    };
    if !hub.open() {
        return Err(ConnectError::Failed(hub.reason().unwrap_or_default()));
    }
    Ok(ready(Asker { hub, link, hold: None }, agreed, options, answers))
}

/// An error on its way to another node. What the server refuses goes as it is.
pub(crate) fn told(error: &CallError) -> Value {
    let (kind, more) = match error {
        CallError::Refused { code, message, data } if *code != NODES => {
            return match data {
                Some(data) => json!({ "code": code, "message": message, "data": data }),
                None => json!({ "code": code, "message": message }),
            };
        }
        // A server may not say what only nodes say.
        CallError::Refused { message, .. } => ("nonsense", message.clone()),
        CallError::Disconnected(why) => ("disconnected", why.clone()),
        CallError::Unheard(why) => ("unheard", why.clone()),
        CallError::Timeout(late) => ("timeout", late.as_millis().to_string()),
        CallError::Cancelled => ("cancelled", String::new()),
        CallError::NeedsAuth { .. } => ("nonsense", error.to_string()),
        CallError::Nonsense(why) => ("nonsense", why.clone()),
    };
    json!({ "code": NODES, "message": more, "data": { "kind": kind } })
}

/// The same where it arrives.
pub(super) fn error(error: Value) -> Answer {
    if error.get("code").and_then(Value::as_i64) != Some(NODES) {
        return refusal(error);
    }
    let why = error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    Err(match error.pointer("/data/kind").and_then(Value::as_str) {
        Some("disconnected") => CallError::Disconnected(why),
        Some("unheard") => CallError::Unheard(why),
        Some("timeout") => CallError::Timeout(Duration::from_millis(why.parse().unwrap_or_default())),
        Some("cancelled") => CallError::Cancelled,
        _ => CallError::Nonsense(why),
    })
}

impl Connection {
    /// What another node is told of it first.
    pub(crate) fn hello(&self, clean: impl Fn(Value) -> Value) -> String {
        let hello = Hello {
            version: self.protocol_version().to_owned(),
            stateless: self.is_stateless(),
            server_info: clean(self.server_info()),
            instructions: self.instructions().map(ToOwned::to_owned),
            capabilities: self.capabilities(),
        };
        to_raw_value(&hello).map(|hello| hello.get().to_owned()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_arrive_as_what_they_were() {
        let all = [
            CallError::Disconnected("it ended".to_owned()),
            CallError::Unheard("it moved".to_owned()),
            CallError::Timeout(Duration::from_millis(1500)),
            CallError::Cancelled,
            CallError::Nonsense("no".to_owned()),
            CallError::Refused { code: -32000, message: "no".to_owned(), data: Some(json!({ "x": [1] })) },
            CallError::Refused { code: -32601, message: "no".to_owned(), data: None },
        ];
        for sent in all {
            let came = error(told(&sent)).expect_err("an error");
            assert_eq!(format!("{came:?}"), format!("{sent:?}"));
        }
        let forged =
            CallError::Refused { code: NODES, message: "x".to_owned(), data: Some(json!({ "kind": "unheard" })) };
        assert!(matches!(error(told(&forged)), Err(CallError::Nonsense(_))), "a server does not speak as a node");
    }
}
