//! The client that the protocol's official conformance suite drives: it is started with a server's address, connects, and does
//! what the scenario in `MCP_CONFORMANCE_SCENARIO` is about. Run by the test `conformance` of this crate.

mod sign_in;

use std::sync::Arc;
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::connection::{Answers, Boxed, Call, CallError, ConnectError, Connection, Options, Refusal, Tokens};
use kitbag_mcp::endpoint::Endpoint;
use kitbag_model::RemoteKind;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use url::Url;

use sign_in::Person;

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let url: Url = std::env::args().next_back().ok_or("no address was given")?.parse()?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context: Value =
        serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default()).unwrap_or_default();
    let mut person = Person::new(&url, &options(), &scenario, &context)?;
    let endpoint = Endpoint::Remote { kind: RemoteKind::StreamableHttp, url, headers: Vec::new() };
    // Whenever the server wants somebody to sign in, that is done, and everything from the start.
    loop {
        let challenge = match attempt(&endpoint, &person, &scenario, &context).await {
            Ok(()) => return Ok(()),
            Err(Stopped::SignIn(challenge)) => challenge,
            Err(Stopped::Failed(failure)) => return Err(failure),
        };
        person.sign_in(challenge.as_deref()).await?;
    }
}

/// Why an attempt did not get to its end.
enum Stopped {
    SignIn(Option<String>),
    Failed(Failure),
}

impl From<ConnectError> for Stopped {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NeedsAuth { challenge } => Self::SignIn(challenge),
            error => Self::Failed(error.into()),
        }
    }
}

impl From<CallError> for Stopped {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NeedsAuth { challenge } => Self::SignIn(challenge),
            error => Self::Failed(error.into()),
        }
    }
}

async fn attempt(endpoint: &Endpoint, person: &Person, scenario: &str, context: &Value) -> Result<(), Stopped> {
    let (notices, _said) = mpsc::unbounded_channel();
    let tokens = Some(person.tokens.clone() as Arc<dyn Tokens>);
    let connection = Connection::open_answering(endpoint, &options(), tokens, notices, Arc::new(Agreeable)).await?;
    let done = act(&connection, scenario, context).await;
    connection.close().await;
    done
}

/// Lists the tools and calls each, with arguments that fit its schema or that the scenario gives.
async fn act(connection: &Connection, scenario: &str, context: &Value) -> Result<(), Stopped> {
    let list = connection.tools().await?;
    let given = context.get("toolCalls").and_then(Value::as_array).cloned().unwrap_or_default();
    for call in &given {
        let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
        let args = call.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
        call_tool(connection, name, args).await?;
    }
    if !given.is_empty() || scenario == "json-schema-ref-no-deref" {
        return Ok(());
    }
    for tool in &list.tools {
        let args = match tool.name.as_str() {
            // It wants back, as it is, what its neighbour's schema was.
            "json_schema_echo" => {
                let other = list.tools.iter().find(|other| other.name != tool.name);
                let schema = other.map(|other| Value::Object(other.input_schema()));
                Map::from_iter([("schema".to_owned(), schema.unwrap_or_default())])
            }
            _ => arguments(&tool.input_schema()),
        };
        call_tool(connection, &tool.name, args).await?;
    }
    Ok(())
}

async fn call_tool(connection: &Connection, tool: &str, args: Map<String, Value>) -> Result<(), CallError> {
    let (_never, stop) = watch::channel(false);
    let deadline = Duration::from_secs(20);
    connection.call(Call::of_tool(tool, &args, deadline, stop)).await?;
    Ok(())
}

/// Something of the right type for every property.
fn arguments(schema: &Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let made = properties.into_iter().map(|(name, property)| {
        let value = match property.get("type").and_then(Value::as_str) {
            Some("number" | "integer") => json!(5),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => Value::Object(arguments(property.as_object().unwrap_or(&Map::new()))),
            _ => json!("text"),
        };
        (name, value)
    });
    made.collect()
}

fn options() -> Options {
    Options {
        connect: Duration::from_secs(15),
        answer: Duration::from_secs(15),
        egress: EgressPolicy { allow_private: true, ..EgressPolicy::default() },
        longest_message: 8 << 20,
        most_tools: 2000,
        pass_environment: Vec::new(),
        sandbox: None,
    }
}

/// Somebody who takes every form as it comes: the defaults of its fields, and yes to the rest.
struct Agreeable;

impl Answers for Agreeable {
    fn capabilities(&self, _stateless: bool) -> Map<String, Value> {
        Map::from_iter([("elicitation".to_owned(), json!({"form": {"applyDefaults": true}}))])
    }

    fn answer(&self, method: &str, params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        if method != "elicitation/create" {
            return None;
        }
        let schema = params.pointer("/requestedSchema/properties").and_then(Value::as_object).cloned();
        let fields = schema.unwrap_or_default().into_iter().filter_map(|(name, field)| {
            let default = field.get("default").cloned();
            let yes = || (field.get("type").and_then(Value::as_str) == Some("boolean")).then_some(Value::Bool(true));
            Some((name, default.or_else(yes)?))
        });
        let content: Map<String, Value> = fields.collect();
        Some(Box::pin(async move { Ok(json!({"action": "accept", "content": content})) }))
    }
}
