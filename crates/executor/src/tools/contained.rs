//! The containers of a run: which engine runs them here, what the process that serves the tools is told of them, and their calls.
//!
//! That process is the engine's child and may be killed with it, and then nothing that it started in containers ends by itself. So each
//! container has the label of its attempt, and whoever began the attempt removes what has it when the attempt is over.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitbag_container::{BUILDER_LABEL, Engine, EngineError, HOME_LABEL, Job as Call, Limits, Spec};
use kitbag_guard::dial::EgressPolicy;
use kitbag_guard::keeper::SharedKeeper;
use kitbag_guard::shown::hide_all;
use kitbag_mcp::connection::{Call as Asked, Options};
use kitbag_model::container::{MOST_TOOLS, tools_of_mcp};
use kitbag_model::run::wire::{AttemptId, ContainedTool};
use kitbag_model::{CallError, CallErrorCode, ContainerLimits, ServerId, ToolCallId};
use kitbag_runner::{NoResident, Place, Places, Ran, Resident, in_time, run_container};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};

use crate::prepare::forget;

use super::serve::{LARGEST_RESULT, MEMORY};

/// The label that says which attempt a container is for.
const RUN_LABEL: &str = "io.kitbag.run";

/// How long a container that stays may take to start, and to list its tools.
const START: Duration = Duration::from_secs(30);

/// How long all of that may take before a call: one that ends at the first question is started once more.
const STARTING: Duration = Duration::from_secs(3 * START.as_secs());

/// The most bytes of one message of such a container.
const LONGEST_MESSAGE: usize = 32 << 20;

/// The engine of this machine, and who uses it.
#[derive(Clone, Debug)]
pub struct Containers {
    engine: Engine,
    /// This executor, as labels of its containers name it.
    name: String,
}

impl Containers {
    /// The engine that is found, for an executor of this name, which nobody else has.
    pub async fn find(name: &str) -> Result<Self, EngineError> {
        let sockets = kitbag_container::sockets(|name| std::env::var(name).ok())?;
        let engine = Engine::find(&sockets).await?;
        // What runs here is somebody else's: an engine that cannot hold it is none.
        engine.unlimited().check()?;
        Ok(Self { engine, name: name.to_owned() })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// This executor, as labels name it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Removes what this executor left there when it was killed, and the images that it built: nobody says any more which are needed.
    pub async fn sweep(&self) -> Result<usize, EngineError> {
        let left = self.engine.sweep(HOME_LABEL, &self.name).await?;
        forget(&self.engine, &HashMap::from([(BUILDER_LABEL, self.name.clone())]), None).await;
        Ok(left)
    }

    /// Removes what an attempt left, and takes away what was shown to its containers. `folder` is the attempt's.
    pub(crate) async fn clear(&self, id: AttemptId, folder: &Path) {
        if let Err(error) = self.engine.sweep(RUN_LABEL, &id.to_string()).await {
            tracing::warn!(%error, %id, "containers of an attempt could not be removed; the next start does it");
        }
        let folder = folder.to_owned();
        let hidden = tokio::task::spawn_blocking(move || hide_all(&folder)).await;
        if let Ok(Err(error)) = hidden {
            tracing::warn!(%error, %id, "what was shown to containers of an attempt is still there");
        }
    }

    /// What the process that serves is told of the engine.
    pub(super) fn told(&self, id: AttemptId, places: PathBuf, containers: Vec<Contained>) -> Containing {
        let labels =
            BTreeMap::from([(HOME_LABEL.to_owned(), self.name.clone()), (RUN_LABEL.to_owned(), id.to_string())]);
        Containing { socket: self.engine.socket().to_owned(), places, labels, containers }
    }
}

/// The containers that are offered, and how they are run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Containing {
    /// Where the engine listens.
    socket: PathBuf,
    /// The folder for what containers are shown.
    places: PathBuf,
    /// By what containers of this attempt are found again.
    labels: BTreeMap<String, String>,
    /// All of them.
    pub(super) containers: Vec<Contained>,
}

/// A container whose image is there.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Contained {
    /// Its id.
    pub id: ServerId,
    /// The image, by its id at this engine.
    pub image: String,
    /// Whether it stays and is called in MCP.
    pub speaks_mcp: bool,
    /// What is started; empty: what the image says.
    pub command: Vec<String>,
    /// Its variables, with their values.
    pub env: BTreeMap<String, String>,
    /// Whether it reaches the network.
    pub network: bool,
    /// What it may use.
    pub limits: ContainerLimits,
    /// The tools that are offered.
    pub tools: Vec<ContainedTool>,
}

/// Runs the containers of one run. One call at a time.
pub(super) struct Running {
    containing: Containing,
    engine: Engine,
    places: Places,
    /// Those that stay.
    residents: HashMap<ServerId, (Resident, Vec<kitbag_model::ContainerTool>, Place)>,
}

impl Running {
    pub(super) async fn new(containing: Containing, sandboxes: SharedKeeper) -> Result<Self, EngineError> {
        let engine = Engine::at(&containing.socket).await?;
        let places = Places::new(containing.places.clone(), sandboxes);
        Ok(Self { containing, engine, places, residents: HashMap::new() })
    }

    /// Calls a tool of a container.
    pub(super) async fn call(
        &mut self,
        container: &Contained,
        tool: &ContainedTool,
        args: Map<String, Value>,
        (work, deadline): (&Path, Duration),
        stop: watch::Receiver<bool>,
    ) -> Ran {
        let limit = container.limits.seconds.map(Duration::from_secs);
        let deadline = limit.map_or(deadline, |limit| limit.min(deadline));
        let (starting, stopped) = (if container.speaks_mcp { STARTING } else { Duration::ZERO }, stop.clone());
        let calling = async {
            match container.speaks_mcp {
                true => self.call_resident(container, tool, &args, (work, deadline), stop).await,
                false => self.call_once(container, tool, args, (work, deadline), stop).await,
            }
        };
        // There is one turn for all calls of a run: an engine that hangs must not keep it.
        in_time(calling, deadline.saturating_add(starting), stopped).await
    }

    async fn call_once(
        &self,
        container: &Contained,
        tool: &ContainedTool,
        args: Map<String, Value>,
        (work, deadline): (&Path, Duration),
        mut stop: watch::Receiver<bool>,
    ) -> Result<Ran, CallError> {
        let place = self.place(work).await?;
        let mut spec = self.spec(container, &place);
        if !tool.command.is_empty() {
            spec.command.clone_from(&tool.command);
        }
        let job = Call { spec, args: Value::Object(args), deadline, most_result: LARGEST_RESULT };
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        let ran = run_container(&self.engine, job, &|_| {}, stopped).await;
        place.clear().await;
        Ok(ran)
    }

    async fn call_resident(
        &mut self,
        container: &Contained,
        tool: &ContainedTool,
        args: &Map<String, Value>,
        (work, deadline): (&Path, Duration),
        stop: watch::Receiver<bool>,
    ) -> Result<Ran, CallError> {
        let known = self.residents.remove(&container.id).filter(|(resident, ..)| !resident.is_closed());
        let (resident, tools, place) = match known {
            Some(known) => known,
            None => {
                let place = self.place(work).await?;
                let mut spec = self.spec(container, &place);
                spec.place.exchange = None;
                let failed = |why: String| CallError::new(CallErrorCode::ToolFailed, why);
                let resident = Resident::start(&self.engine, &spec, &options()).await;
                let resident = resident.map_err(|error| match &error {
                    NoResident::Engine(EngineError::Command(_)) | NoResident::Silent(_) | NoResident::Ended(_) => {
                        failed(error.to_string())
                    }
                    NoResident::Engine(_) => CallError::new(CallErrorCode::Unavailable, error.to_string()),
                })?;
                let listed = resident.tools().await.map_err(failed)?;
                let (tools, _) = tools_of_mcp(listed.tools.iter().map(kitbag_mcp::tool::ToolDefinition::raw));
                (resident, tools, place)
            }
        };
        let name = tool.mcp_name.as_deref().unwrap_or(tool.id.as_str());
        let same = |live: &&kitbag_model::ContainerTool| {
            live.mcp_name() == name
                && live.input_schema == tool.input_schema
                && live.output_schema == tool.output_schema
        };
        if tools.iter().find(same).is_none() {
            let message = format!(
                "the container {} says something else of the tool {} now, other than when it was trusted",
                container.id, tool.id
            );
            self.residents.insert(container.id.clone(), (resident, tools, place));
            return Err(CallError::new(CallErrorCode::NeedsTrust, message));
        }
        // Whoever looks at the run sees what the agent is told; nobody hears the rest.
        let (tell, _) = mpsc::unbounded_channel();
        let ran = resident.call(Asked::of_tool(name, args, deadline, stop), tell).await;
        let code = ran.result.as_ref().err().map(|error| error.code);
        match code {
            Some(CallErrorCode::Timeout | CallErrorCode::Cancelled) => resident.end(true).await,
            _ if resident.is_closed() => resident.end(true).await,
            _ => drop(self.residents.insert(container.id.clone(), (resident, tools, place))),
        }
        Ok(ran)
    }

    async fn place(&self, work: &Path) -> Result<Place, CallError> {
        let name = ToolCallId::generate().to_string();
        // What runs here is somebody else's, whoever's machine it is.
        let place = self.places.make(&name, work, true).await;
        place.map_err(|why| CallError::new(CallErrorCode::Unavailable, why))
    }

    fn spec(&self, container: &Contained, place: &Place) -> Spec {
        Spec {
            image: container.image.clone(),
            command: container.command.clone(),
            env: container.env.clone().into_iter().collect(),
            labels: self.containing.labels.clone(),
            place: kitbag_container::Place {
                workspace: place.workspace.clone(),
                exchange: Some(place.exchange.clone()),
                user: place.user,
                network: container.network,
                limits: Limits::within(&container.limits, MEMORY),
            },
        }
    }

    /// Ends what stays.
    pub(super) async fn end(&mut self) {
        for (_, (resident, _, place)) in self.residents.drain() {
            resident.end(false).await;
            place.clear().await;
        }
    }
}

fn options() -> Options {
    Options {
        connect: START,
        answer: START,
        egress: EgressPolicy::default(),
        longest_message: LONGEST_MESSAGE,
        most_tools: MOST_TOOLS,
        pass_environment: Vec::new(),
        sandbox: None,
    }
}
