//! The engine of this machine: found, known, and kept clean of what we left there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};

use crate::dial::{Found, dial};
use crate::error::EngineError;
use crate::nature::{EngineKind, Nature, Unlimited};

/// The label that says whose a container is: of the one process at a time that works in a folder. Whoever starts there next knows that
/// what has it is of one that was killed.
pub const HOME_LABEL: &str = "io.kitbag.home";

/// The label that says which of several servers a container is of, so that another one that declares it dead knows what to remove.
pub const NODE_LABEL: &str = "io.kitbag.node";

/// The label that says whose an image is that was built. It is another one than that of containers, which inherit their image's.
pub const BUILDER_LABEL: &str = "io.kitbag.built-by";

/// The label that says of which toolset an image was built.
pub const TOOLSET_LABEL: &str = "io.kitbag.toolset";

/// The label that says which call a container is for.
pub const CALL_LABEL: &str = "io.kitbag.call";

/// An engine that takes longer to say that it is there is not there.
const SOON: Duration = Duration::from_secs(5);

/// An engine that answers. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) docker: Docker,
    socket: PathBuf,
    version: String,
    nature: Nature,
}

impl Engine {
    /// The first engine that answers on one of these sockets.
    pub async fn find(sockets: &[PathBuf]) -> Result<Self, EngineError> {
        let mut tried = Vec::new();
        for socket in sockets {
            match Self::at(socket).await {
                Ok(engine) => return Ok(engine),
                Err(error) => tried.push(Found { socket: socket.clone(), problem: Some(error.to_string()) }),
            }
        }
        let tell = |found: &Found| {
            let problem = found.problem.as_deref().unwrap_or_default();
            let why = if found.socket.exists() { problem } else { "there is no such socket" };
            format!("{} ({why})", found.socket.display())
        };
        let told: Vec<String> = tried.iter().map(tell).collect();
        Err(EngineError::None(format!("install Docker or podman, or set DOCKER_HOST; looked at {}", told.join(", "))))
    }

    /// The engine behind a socket.
    pub async fn at(socket: &Path) -> Result<Self, EngineError> {
        let away = |_| EngineError::Away(format!("it does not answer within {} seconds", SOON.as_secs()));
        tokio::time::timeout(SOON, Self::greet(socket)).await.map_err(away)?
    }

    async fn greet(socket: &Path) -> Result<Self, EngineError> {
        let docker = dial(socket).await?;
        let said = docker.version().await?;
        let parts = said.components.unwrap_or_default();
        let is_podman = parts.iter().any(|part| part.name.starts_with("Podman"));
        let kind = if is_podman { EngineKind::Podman } else { EngineKind::Docker };
        let nature = Nature::of(kind, &docker.info().await?);
        Ok(Self { docker, socket: socket.to_owned(), version: said.version.unwrap_or_default(), nature })
    }

    /// Whether it still answers, and soon.
    pub async fn is_there(&self) -> bool {
        tokio::time::timeout(SOON, self.docker.ping()).await.is_ok_and(|answer| answer.is_ok())
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Which one it is.
    pub fn kind(&self) -> EngineKind {
        self.nature.kind
    }

    /// What it is.
    pub(crate) fn nature(&self) -> &Nature {
        &self.nature
    }

    /// Its version, as it says it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it runs with the rights of an ordinary user.
    pub fn is_rootless(&self) -> bool {
        self.nature.rootless
    }

    /// Whether, by itself, it takes user 1000 of a container for another one of this machine.
    pub fn shifts_users(&self) -> bool {
        self.nature.shifts_users
    }

    /// What it cannot limit.
    pub fn unlimited(&self) -> Unlimited {
        self.nature.unlimited
    }

    /// Removes all containers that have this label with this value, whatever they do. How many there were. Only for whoever knows that
    /// nobody who lives needs them.
    pub async fn sweep(&self, label: &str, value: &str) -> Result<usize, EngineError> {
        let filters = HashMap::from([("label", vec![format!("{label}={value}")])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let left = self.docker.list_containers(Some(options)).await?;
        let ids: Vec<String> = left.into_iter().filter_map(|one| one.id).collect();
        for id in &ids {
            // One that does not go away now is tried again, and keeps nobody from the others.
            self.remove_or_note(id).await;
        }
        Ok(ids.len())
    }

    /// Removes a container, with everything that runs in it. One that is not there is removed.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match self.docker.remove_container(id, Some(options)).await {
            // Not there, or going already.
            Err(bollard::errors::Error::DockerResponseServerError { status_code: 404 | 409, .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
