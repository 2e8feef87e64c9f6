//! Being a server on a pipe: one client, which started us, whichever revision it speaks. Its messages go through the same door as
//! those over HTTP, in this very process. It hears answers alone: whoever is served here says nothing by itself and asks nothing.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::bridge::{Kind, Piped};
use super::front::{Front, Limits, Visit};
use super::reply::Body;
use super::{Fault, Service};

/// The most bytes of one message. A client that says more is none.
const LONGEST: u64 = 32 << 20;

/// How many answers wait for a client that reads slowly. Then those who have one wait.
const WAITING: usize = 16;

/// Serves the client on a pipe until that ends. What is under way then is told to stop.
pub async fn serve_pipe(
    service: Arc<dyn Service>,
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, mut answers) = mpsc::channel::<String>(WAITING);
    let writing = tokio::spawn(async move {
        while let Some(answer) = answers.recv().await {
            output.write_all(format!("{answer}\n").as_bytes()).await?;
            output.flush().await?;
        }
        Ok::<_, io::Error>(())
    });
    let front = Arc::new(Front::new(Limits::default()));
    let mut pipe = Pipe { front: front.clone(), service, out, session: None, alone: HashMap::new() };
    let mut input = BufReader::new(input);
    let ended = loop {
        let mut line = Vec::new();
        match (&mut input).take(LONGEST).read_until(b'\n', &mut line).await {
            Err(error) => break Err(error),
            Ok(0) => break Ok(()),
            Ok(_) if line.len() as u64 == LONGEST => {
                break Err(io::Error::new(io::ErrorKind::InvalidData, "the client says a message without an end"));
            }
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => pipe.hear(line).await,
        }
    };
    front.close();
    pipe.alone.values().for_each(AbortHandle::abort);
    // Nobody may be left who reads.
    writing.abort();
    ended
}

struct Pipe {
    front: Arc<Front>,
    service: Arc<dyn Service>,
    out: mpsc::Sender<String>,
    /// The name of the session, once the client has begun one.
    session: Option<String>,
    /// Requests without a session: to let go of one is to cancel it.
    alone: HashMap<String, AbortHandle>,
}

impl Pipe {
    async fn hear(&mut self, line: Vec<u8>) {
        let piped = match Piped::read(&line) {
            Ok(piped) => piped,
            Err(answer) => return self.say(answer).await,
        };
        let headers = self.headers(&piped);
        let posted = post(self.front.clone(), self.service.clone(), headers, line);
        match (piped.kind, piped.id) {
            (Kind::Begin, _) => {
                let (session, answer) = posted.await;
                self.session = session.or(self.session.take());
                if let Some(answer) = answer {
                    self.say(answer).await;
                }
            }
            (Kind::Cancel(id), _) if self.alone.contains_key(&id) => {
                if let Some(request) = self.alone.remove(&id) {
                    request.abort();
                }
            }
            (kind, Some(id)) => {
                let out = self.out.clone();
                let request = tokio::spawn(async move {
                    if let (_, Some(answer)) = posted.await {
                        let _ = out.send(answer).await;
                    }
                });
                if matches!(kind, Kind::Alone { .. }) {
                    self.alone.retain(|_, request| !request.is_finished());
                    self.alone.insert(id, request.abort_handle());
                }
            }
            // What is not answered is heard in a session alone, and what is wrong with it interests nobody.
            (_, None) => drop(posted.await),
        }
    }

    async fn say(&self, answer: String) {
        // When nobody reads any more it is lost, and the end is near.
        let _ = self.out.send(answer).await;
    }

    fn headers(&self, piped: &Piped) -> HeaderMap {
        let session = self.session.iter().filter(|_| !matches!(piped.kind, Kind::Begin | Kind::Alone { .. }));
        let session = session.map(|name| ("mcp-session-id", name.clone()));
        // Answers alone are heard here, so there are no streams.
        let kind = ("accept", "application/json".to_owned());
        let all = piped.headers.iter().cloned().chain(session).chain([kind]);
        all.filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?)))
            .collect()
    }
}

/// Lets the door have a message. The session that it began, and what is answered.
async fn post(
    front: Arc<Front>,
    service: Arc<dyn Service>,
    headers: HeaderMap,
    line: Vec<u8>,
) -> (Option<String>, Option<String>) {
    let visit = Visit { owner: "pipe", place: "pipe", headers: &headers };
    let reply = front.post(&visit, &line, || async { Ok::<_, Fault>(service) }).await;
    let answer = match reply.body {
        Body::Json(answer) => Some(answer),
        // Streams are for those who say that they read them.
        Body::Empty | Body::Events(_) | Body::Line(_) => None,
    };
    (reply.session, answer)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::value::{RawValue, to_raw_value};
    use serde_json::{Value, json};
    use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

    use super::super::{Ask, Hello};
    use super::*;
    use crate::connection::Boxed;

    /// Repeats what it is asked, and says for ever nothing to `wait`.
    struct Parrot(mpsc::UnboundedSender<&'static str>);

    impl Service for Parrot {
        fn hello(&self) -> Hello {
            Hello {
                info: json!({ "name": "parrot", "version": "1" }),
                capabilities: json!({ "tools": {} }),
                instructions: None,
            }
        }

        fn knows(&self, _: &str, _: bool) -> bool {
            true
        }

        fn request(self: Arc<Self>, ask: Ask) -> Boxed<'static, Result<Box<RawValue>, Fault>> {
            Box::pin(async move {
                if ask.method == "tools/list" {
                    self.0.send("waits").unwrap();
                    ask.client.gone().await;
                    self.0.send("stopped").unwrap();
                }
                Ok(to_raw_value(&json!({ "method": ask.method })).unwrap())
            })
        }
    }

    struct Kit {
        to: WriteHalf<DuplexStream>,
        from: BufReader<ReadHalf<DuplexStream>>,
        heard: mpsc::UnboundedReceiver<&'static str>,
    }

    impl Kit {
        fn new() -> Self {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let (say, heard) = mpsc::unbounded_channel();
            let (input, output) = tokio::io::split(theirs);
            tokio::spawn(serve_pipe(Arc::new(Parrot(say)), input, output));
            let (from, to) = tokio::io::split(ours);
            Self { to, from: BufReader::new(from), heard }
        }

        async fn say(&mut self, message: &Value) {
            self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }

        async fn ask(&mut self, message: &Value) -> Value {
            self.say(message).await;
            let mut line = String::new();
            self.from.read_line(&mut line).await.unwrap();
            serde_json::from_str(&line).unwrap()
        }
    }

    fn meta() -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    }

    #[tokio::test]
    async fn both_eras_are_spoken() {
        let mut kit = Kit::new();
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let hello =
            kit.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params.clone() })).await;
        assert_eq!(hello["result"]["serverInfo"]["name"], "parrot", "{hello}");
        kit.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let told =
            kit.ask(&json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": { "name": "x" } })).await;
        assert_eq!((&told["id"], &told["result"]["method"]), (&json!("a"), &json!("tools/call")), "{told}");

        let mut kit = Kit::new();
        let discovered = kit
            .ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta() } }))
            .await;
        assert!(discovered["result"].is_object(), "{discovered}");
        let call = json!({ "name": "x", "_meta": meta() });
        let told = kit.ask(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call })).await;
        assert_eq!(told["result"]["method"], "tools/call", "{told}");
    }

    #[tokio::test]
    async fn what_is_no_message_is_told_so_and_what_is_not_wanted_stops() {
        let mut kit = Kit::new();
        assert_eq!(kit.ask(&json!([])).await["error"]["code"], -32600);
        let list = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": { "_meta": meta() } });
        kit.say(&list).await;
        assert_eq!(kit.heard.recv().await, Some("waits"));
        kit.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } })).await;
        assert_eq!(kit.heard.recv().await, Some("stopped"));
        // The client goes away in the middle.
        kit.say(&list).await;
        assert_eq!(kit.heard.recv().await, Some("waits"));
        let Kit { to, from, mut heard } = kit;
        drop((to, from));
        assert_eq!(heard.recv().await, Some("stopped"));
    }
}
