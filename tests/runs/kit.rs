//! An executor that does what a test says: it speaks the real wire over a real WebSocket, and may be as late, as doubled and as gone as the
//! network is.

use std::time::Duration;

use kitbag_model::run::wire::{Assignment, AttemptId, FoundEngine, FromExecutor, FromServer, PROTOCOL};
use kitbag_model::run::{EngineId, RunEvent, RunEventKind, RunOutcome, RunState};
use kitbag_model::{RunId, Timestamp};
use kitbag_testkit::{Answer, Server, TestDatabase};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::BINARY;

pub(crate) const RUNS: &str = "/v1/orgs/local/agent-runs";
pub(crate) const EXECUTORS: &str = "/v1/orgs/local/executors";

/// Long enough for a loaded machine; what takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server as it is. However slow the machine is, the executors of a test are heard of in time.
pub(crate) fn serve(database: &TestDatabase) -> Server {
    Server::start(BINARY, database, &[])
}

/// One that gives up on silent executors after four seconds.
pub(crate) fn serve_impatiently(database: &TestDatabase) -> Server {
    Server::start(BINARY, database, &["--executor-lease-seconds", "4"])
}

/// What a run asks for at the least.
pub(crate) fn config(engine: &str) -> Value {
    json!({ "prompt": "Say hello.", "engine": { "id": engine } })
}

/// Asks for a run; its id.
pub(crate) async fn ask(server: &Server, body: &Value) -> RunId {
    let made = server.post(RUNS, body).await.expect(201);
    assert_eq!((&made["state"], &made["attempt"]), (&json!("queued"), &json!(0)));
    made["id"].as_str().unwrap().parse().unwrap()
}

/// A run as the API shows it.
pub(crate) async fn show(server: &Server, run: RunId) -> Value {
    server.get(&format!("{RUNS}/{run}")).await.expect(200)
}

/// Waits until a run is in a state.
pub(crate) async fn until(server: &Server, run: RunId, state: &str) -> Value {
    let looked = timeout(PATIENCE, async {
        loop {
            let shown = show(server, run).await;
            if shown["state"] == state {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    match looked.await {
        Ok(shown) => shown,
        Err(_) => panic!("it never is {state}: {}", show(server, run).await),
    }
}

/// Everything that happened in a run that is over, in order: number, name and what was told.
pub(crate) async fn events(server: &Server, run: RunId, query: &str) -> Vec<(u64, String, Value)> {
    let request = server.request(Method::GET, &format!("{RUNS}/{run}/events{query}"));
    let text = request.send().await.unwrap().text().await.unwrap();
    let block = |block: &str| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let number = field("id:").map_or(0, |id| id.parse().unwrap());
        Some((number, field("event:")?.to_owned(), serde_json::from_str(field("data:")?).unwrap()))
    };
    text.split("\n\n").filter_map(block).collect()
}

/// A machine that was paired.
#[derive(Clone)]
pub(crate) struct Paired {
    pub(crate) id: String,
    pub(crate) token: String,
    url: String,
}

/// Pairs a machine with `local`.
pub(crate) async fn pair(server: &Server, body: &Value) -> Paired {
    let made = server.post(&format!("{EXECUTORS}/pairing-tokens"), body).await.expect(201);
    pair_with(server, made["pairingToken"].as_str().unwrap(), "one").await.unwrap()
}

/// Pairs a machine with a token.
pub(crate) async fn pair_with(server: &Server, token: &str, name: &str) -> Result<Paired, Answer> {
    let body = json!({ "pairingToken": token, "name": name, "agentVersion": "1.2.3" });
    let answer = Answer::of(server.anonymous(Method::POST, "/v1/executors/pair").json(&body)).await;
    if answer.status != 201 {
        return Err(answer);
    }
    let text = |name: &str| answer.body[name].as_str().unwrap().to_owned();
    Ok(Paired { id: text("executorId"), token: text("executorToken"), url: text("gatewayWsUrl") })
}

/// A connected executor.
pub(crate) struct Executor {
    socket: WebSocketStream<TcpStream>,
}

impl Paired {
    /// Connects, says hello, and is welcome.
    pub(crate) async fn connect(&self, capacity: u32, holding: &[AttemptId]) -> Executor {
        self.connect_with(EngineId::ALL, capacity, holding).await
    }

    pub(crate) async fn connect_with(&self, engines: &[EngineId], capacity: u32, holding: &[AttemptId]) -> Executor {
        self.connect_as(engines, capacity, holding, false).await
    }

    /// The same for one that runs containers.
    pub(crate) async fn connect_contained(&self, capacity: u32) -> Executor {
        self.connect_as(EngineId::ALL, capacity, &[], true).await
    }

    async fn connect_as(
        &self,
        engines: &[EngineId],
        capacity: u32,
        holding: &[AttemptId],
        containers: bool,
    ) -> Executor {
        let mut executor = self.dial().await.expect("it is let in");
        let engines = engines.iter().map(|id| FoundEngine { id: *id, version: "9.9.9".into() }).collect();
        let (version, holding) = ("1.2.3".to_owned(), holding.to_vec());
        executor
            .say(&FromExecutor::Hello { protocol: PROTOCOL, version, engines, capacity, containers, holding })
            .await;
        match executor.hear().await {
            FromServer::Welcome { executor_id, .. } => assert_eq!(executor_id.to_string(), self.id),
            other => panic!("{other:?}"),
        }
        executor
    }

    /// Only opens the connection.
    #[allow(clippy::disallowed_methods, reason = "to the server of the test itself")]
    pub(crate) async fn dial(&self) -> Result<Executor, Error> {
        let mut request = self.url.as_str().into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        let address = self.url.strip_prefix("ws://").unwrap().split('/').next().unwrap().to_owned();
        let stream = TcpStream::connect(address).await.map_err(Error::Io)?;
        // Two small messages in a row are not held back, as the executor's own are not.
        stream.set_nodelay(true).unwrap();
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        Ok(Executor { socket })
    }

    /// After a restart the server listens elsewhere.
    pub(crate) fn moved_to(&self, server: &Server) -> Self {
        let url = format!("{}/v1/executors/connect", server.url.replace("http://", "ws://"));
        Self { url, ..self.clone() }
    }

    /// A request to what an executor may ask for.
    pub(crate) fn request(
        &self,
        server: &Server,
        method: Method,
        id: AttemptId,
        rest: &str,
    ) -> reqwest::RequestBuilder {
        let path = format!("/v1/executors/attempts/{}/{}/{rest}", id.run_id, id.attempt);
        server.anonymous(method, &path).bearer_auth(&self.token)
    }
}

impl Executor {
    pub(crate) async fn say(&mut self, message: &FromExecutor) {
        use futures_util::SinkExt;
        let text = serde_json::to_string(message).unwrap();
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// What the server says next; none if it hangs up.
    pub(crate) async fn maybe(&mut self) -> Option<FromServer> {
        loop {
            match timeout(PATIENCE, self.socket.next()).await.expect("the server says something")? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub(crate) async fn hear(&mut self) -> FromServer {
        self.maybe().await.expect("the server stays")
    }

    /// The next run that it is given; acknowledgements are passed over.
    pub(crate) async fn given(&mut self) -> Assignment {
        loop {
            match self.hear().await {
                FromServer::Run(assignment) => return *assignment,
                FromServer::Ack { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Whether it is given nothing while the server looks for work twice. It says all the time that it is there.
    pub(crate) async fn is_given_nothing(&mut self) -> bool {
        for _ in 0..5 {
            self.alive(&[]).await;
            if let Ok(FromServer::Run(_)) = timeout(Duration::from_secs(1), self.hear()).await {
                return false;
            }
        }
        true
    }

    pub(crate) async fn alive(&mut self, holding: &[AttemptId]) {
        self.say(&FromExecutor::Heartbeat { holding: holding.to_vec() }).await;
    }

    pub(crate) async fn started(&mut self, id: AttemptId) {
        self.say(&FromExecutor::Started { id }).await;
    }

    pub(crate) async fn told(&mut self, id: AttemptId, first: u64, texts: &[&str]) {
        let event = |(seq, text): (u64, &&str)| RunEvent {
            seq,
            at: Timestamp::now(),
            kind: RunEventKind::Text { text: (*text).to_owned() },
        };
        let events = (first..).zip(texts).map(event).collect();
        self.say(&FromExecutor::Events { id, events }).await;
    }

    /// Tells of a call and its result, as the events `first` and the one behind it. They are written down when it returns.
    pub(crate) async fn used(&mut self, id: AttemptId, first: u64, tool: &str, did: (Value, Value, bool)) {
        let ((input, output, is_error), call_id) = (did, format!("call {first}"));
        let called = RunEventKind::ToolCall { call_id: call_id.clone(), tool: tool.to_owned(), input };
        let answered = RunEventKind::ToolResult { call_id, output, is_error };
        let event = |(seq, kind)| RunEvent { seq, at: Timestamp::now(), kind };
        let events = (first..).zip([called, answered]).map(event).collect();
        self.say(&FromExecutor::Events { id, events }).await;
        loop {
            match self.hear().await {
                FromServer::Ack { id: which, seq, .. } if which == id && seq > first => return,
                FromServer::Ack { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn ended(&mut self, id: AttemptId, answer: &str) {
        self.say(&FromExecutor::Result { id, outcome: succeeded(answer), files: None }).await;
    }

    /// Waits until the server has the result.
    pub(crate) async fn acknowledged(&mut self, id: AttemptId) {
        loop {
            match self.hear().await {
                FromServer::Ack { id: which, result: true, .. } if which == id => return,
                FromServer::Ack { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn succeeded(answer: &str) -> RunOutcome {
    let usage = Some(json!({ "inputTokens": 3, "outputTokens": 4 }));
    RunOutcome { state: RunState::Succeeded, output: Some(json!(answer)), error: None, usage }
}
