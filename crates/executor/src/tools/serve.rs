//! Serves the tools of one run to its engine: a client on a pipe asks, a worker in the sandbox or a container does it in the run's folder, one
//! call at a time. It knows what its file says and nothing else: no variable of a toolset but those of its containers, no key of a model.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kitbag_mcp::connection::Boxed;
use kitbag_mcp::serve::{Ask, Fault, Hello, Service, code, serve_pipe};
use kitbag_model::run::wire::ContainedTool;
use kitbag_model::{BUILTINS, CallErrorCode, Entrypoint, LocalToolId, OrgId};
use kitbag_python::{Entry, Job as Call, Program, Settings, Workers};
use kitbag_runner::{Ran, Schemas, keep, run};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, mpsc, watch};

use super::contained::{Contained, Running};
use super::job::{Code, Job};

/// The most bytes of memory for one process of a call, as on the server.
pub(super) const MEMORY: u64 = 2 << 30;
/// The most bytes that a tool may return.
pub(super) const LARGEST_RESULT: u64 = 64 << 20;
/// The most bytes of a result that a model is shown; of a larger one it gets a summary.
const MOST_SHOWN: usize = 256 << 10;
/// How long modules may take to be imported.
const IMPORT: Duration = Duration::from_secs(60);
/// A process that waits for calls may wait as long as a run may last.
const IDLE: Duration = Duration::from_secs(3600);

/// Why the tools are not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The file with the job cannot be read.
    #[error("the job in `{file}` cannot be read: {reason}")]
    Job {
        /// Which file.
        file: String,
        /// Why.
        reason: String,
    },
    /// The pipes broke.
    #[error("the engine cannot be talked to: {0}")]
    Pipe(#[from] io::Error),
    /// There are no workers.
    #[error(transparent)]
    Worker(#[from] kitbag_python::WorkerError),
    /// There is nothing that runs containers any more.
    #[error(transparent)]
    Engine(#[from] kitbag_container::EngineError),
}

/// Serves the tools that a file names on standard input and output, until the engine closes them.
pub async fn serve(file: &Path) -> Result<(), ServeError> {
    let unreadable =
        |error: &dyn std::fmt::Display| ServeError::Job { file: file.display().to_string(), reason: error.to_string() };
    let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
    let job: Job = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
    std::fs::create_dir_all(&job.data)?;
    let workers = Workers::new(settings(&job));
    let tools = Arc::new(Tools::new(job, workers.clone()).await?);
    let served = serve_pipe(tools.clone(), standard(io::stdin())?, standard(io::stdout())?).await;
    if let Some(running) = &mut *tools.turn.lock().await {
        running.end().await;
    }
    workers.shut_down().await;
    Ok(served?)
}

/// What an engine gave us to read from or to write to: a pipe, a socket or a file.
fn standard(stream: impl AsFd) -> io::Result<tokio::fs::File> {
    Ok(tokio::fs::File::from_std(File::from(stream.as_fd().try_clone_to_owned()?)))
}

fn settings(job: &Job) -> Settings {
    Settings {
        data: job.data.clone(),
        // This very program, whatever has become of its file meanwhile.
        keeper: vec!["/proc/self/exe".into(), "guard-keeper".into()],
        require_sandbox: true,
        memory: MEMORY,
        most_result_bytes: LARGEST_RESULT,
        most_left_running: 0,
        passed: crate::engine::REACH.map(ToOwned::to_owned).into(),
        idle: IDLE,
        import: IMPORT,
    }
}

/// One tool that is offered.
struct Tool {
    name: String,
    /// As a list shows it.
    shown: Value,
    schema: Value,
    runs: Runs,
}

/// What a tool is.
enum Runs {
    /// A function, in a worker.
    Python { program: Arc<Program>, entrypoint: Entrypoint },
    /// A program of an image.
    Container { container: Arc<Contained>, tool: Box<ContainedTool> },
}

struct Tools {
    job: Job,
    workers: Workers,
    tools: Vec<Tool>,
    schemas: Schemas,
    /// Whoever holds it has the folder. What runs containers, if any are offered.
    turn: Mutex<Option<Running>>,
}

impl Tools {
    async fn new(mut job: Job, workers: Workers) -> Result<Self, ServeError> {
        let mut tools = Vec::new();
        let mut running = None;
        if let Some(containing) = job.containing.take() {
            tools.extend(containing.containers.iter().flat_map(of_container));
            running = Some(Running::new(containing, workers.shared_keeper()).await?);
        }
        if let Some(code) = &job.code {
            tools.extend(of_toolset(code, &job.organization));
        }
        if !job.builtins.is_empty() {
            // They run for the organisation whose run it is, which decides what holds for them.
            let program = Arc::new(Program { org: job.organization.clone(), ..workers.builtin().await? });
            let entries = BUILTINS.iter().zip(&program.entries);
            tools.extend(entries.filter(|(tool, _)| job.builtins.iter().any(|name| name == tool.id)).map(
                |(tool, entry)| Tool {
                    name: tool.id.to_owned(),
                    shown: json!({
                        "name": tool.id, "title": tool.name, "description": tool.description,
                        "inputSchema": tool.input_schema(),
                    }),
                    schema: tool.input_schema(),
                    runs: Runs::Python { program: program.clone(), entrypoint: entry.entrypoint.clone() },
                },
            ));
        }
        Ok(Self { job, workers, tools, schemas: Schemas::default(), turn: Mutex::new(running) })
    }

    async fn call(&self, tool: &Tool, args: Map<String, Value>, stop: watch::Receiver<bool>) -> Value {
        let (ready, schema, given) = (self.schemas.ready(&tool.schema), tool.schema.clone(), args.clone());
        let checked = tokio::task::spawn_blocking(move || ready.check(&schema, &given)).await;
        match checked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return failed(&error.to_string()),
            Err(error) => return failed(&error.to_string()),
        }
        let mut turn = self.turn.lock().await;
        let deadline = Duration::from_millis(self.job.timeout_ms);
        let (program, entrypoint) = match &tool.runs {
            Runs::Python { program, entrypoint } => (program, entrypoint),
            Runs::Container { container, tool } => {
                let Some(running) = &mut *turn else { return failed("nothing runs containers here") };
                return told(running.call(container, tool, args, (&self.job.work, deadline), stop).await);
            }
        };
        let job = Call {
            org: self.job.organization.clone(),
            chat: self.job.room,
            call: kitbag_model::ToolCallId::generate().to_string(),
            entrypoint: entrypoint.clone(),
            args,
            workspace: self.job.work.clone(),
            deadline,
        };
        // Whoever looks at the run sees what the agent is told; nobody hears the rest.
        let (heard, _) = mpsc::unbounded_channel();
        told(run(&self.workers, program, job, heard, stop).await)
    }
}

fn of_toolset(code: &Code, org: &OrgId) -> Vec<Tool> {
    let entry = |tool: &kitbag_model::run::wire::ToolSnapshot| Entry {
        entrypoint: tool.entrypoint.clone(),
        input_schema: Some(tool.input_schema.clone()),
    };
    let program = Arc::new(Program {
        org: org.clone(),
        toolset: code.toolset.clone(),
        generation: code.generation.clone(),
        folder: code.folder.clone(),
        entries: code.tools.iter().map(entry).collect(),
        needs: code.needs.clone(),
        network: code.network,
        listen: false,
        trusted: code.trusted,
    });
    let tool = |tool: &kitbag_model::run::wire::ToolSnapshot| {
        let schema = Value::Object(tool.input_schema.clone());
        let shown = shown(&tool.id, (&tool.title, &tool.description), &schema, tool.output_schema.as_ref());
        let runs = Runs::Python { program: program.clone(), entrypoint: tool.entrypoint.clone() };
        Tool { name: tool.id.to_string(), shown, schema, runs }
    };
    code.tools.iter().map(tool).collect()
}

fn of_container(container: &Contained) -> Vec<Tool> {
    let whole = Arc::new(container.clone());
    let tool = |tool: &ContainedTool| {
        let schema = Value::Object(tool.input_schema.clone());
        let shown = shown(&tool.id, (&tool.title, &tool.description), &schema, tool.output_schema.as_ref());
        let runs = Runs::Container { container: Arc::clone(&whole), tool: Box::new(tool.clone()) };
        Tool { name: tool.id.to_string(), shown, schema, runs }
    };
    container.tools.iter().map(tool).collect()
}

/// A tool as a list shows it.
fn shown(
    id: &LocalToolId,
    (title, description): (&str, &str),
    schema: &Value,
    output: Option<&Map<String, Value>>,
) -> Value {
    let mut shown = json!({ "name": id, "title": title, "description": description, "inputSchema": schema });
    // The protocol knows results that are objects alone.
    if let Some(output) = output.filter(|schema| schema.get("type") == Some(&json!("object"))) {
        shown["outputSchema"] = json!(output);
    }
    shown
}

/// What came of a call, as the protocol has it: what is an object is that too, and everything is text.
fn told(ran: Ran) -> Value {
    let value = match ran.result {
        Ok(value) => keep(value, MOST_SHOWN),
        Err(error) if error.code == CallErrorCode::ToolFailed => return failed(&error.message),
        Err(error) => return failed(&format!("{}: {}", error.code.as_str(), error.message)),
    };
    let text = match &value.value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let mut result = json!({ "content": [{ "type": "text", "text": text }] });
    // A summary of something large is not what the schema describes.
    if let (None, Value::Object(_)) = (&value.blob, &value.value) {
        result["structuredContent"] = value.value;
    }
    result
}

fn failed(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}

#[derive(Deserialize)]
struct Asked {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

impl Service for Tools {
    fn hello(&self) -> Hello {
        Hello {
            info: json!({ "name": "kitbag", "title": "Kitbag", "version": env!("CARGO_PKG_VERSION") }),
            capabilities: json!({ "tools": {} }),
            instructions: None,
        }
    }

    fn knows(&self, method: &str, _: bool) -> bool {
        matches!(method, "tools/list" | "tools/call")
    }

    fn request(self: Arc<Self>, ask: Ask) -> Boxed<'static, Result<Box<RawValue>, Fault>> {
        Box::pin(async move {
            let result = match ask.method.as_str() {
                "tools/list" => {
                    let tools: Vec<&Value> = self.tools.iter().map(|tool| &tool.shown).collect();
                    // They stay as they are as long as the run.
                    json!({ "tools": tools, "ttlMs": 3_600_000, "cacheScope": "private" })
                }
                "tools/call" => {
                    let Asked { name, arguments } = ask.params()?;
                    let tool = self.tools.iter().find(|tool| tool.name == name);
                    let tool = tool.ok_or_else(|| Fault::params(format!("there is no tool {name:?} here")))?;
                    self.call(tool, arguments.unwrap_or_default(), ask.client.stopping()).await
                }
                method => return Err(Fault::no_method(method)),
            };
            to_raw_value(&result).map_err(|error| Fault::new(code::INTERNAL, error.to_string()))
        })
    }
}
