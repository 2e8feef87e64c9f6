//! The engine of this machine: found, known, and kept clean of what we left there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};

use crate::dial::{Found, dial};
use crate::error::EngineError;

/// The label that says which server a container is of.
pub const NODE_LABEL: &str = "io.kitbag.node";

/// The label that says which call a container is for.
pub const CALL_LABEL: &str = "io.kitbag.call";

/// Which engine it is. They differ in what a user id inside means outside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EngineKind {
    /// Docker, or what says nothing else.
    Docker,
    /// podman's service.
    Podman,
}

/// An engine that answers. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) docker: Docker,
    socket: PathBuf,
    kind: EngineKind,
    version: String,
    rootless: bool,
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
        let docker = dial(socket).await?;
        let said = docker.version().await?;
        let parts = said.components.unwrap_or_default();
        let is_podman = parts.iter().any(|part| part.name.starts_with("Podman"));
        let options = docker.info().await?.security_options.unwrap_or_default();
        Ok(Self {
            docker,
            socket: socket.to_owned(),
            kind: if is_podman { EngineKind::Podman } else { EngineKind::Docker },
            version: said.version.unwrap_or_default(),
            rootless: options.iter().any(|option| option.contains("rootless")),
        })
    }

    /// Whether it still answers.
    pub async fn is_there(&self) -> bool {
        self.docker.ping().await.is_ok()
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Which one it is.
    pub fn kind(&self) -> EngineKind {
        self.kind
    }

    /// Its version, as it says it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it runs with the rights of an ordinary user.
    pub fn is_rootless(&self) -> bool {
        self.rootless
    }

    /// Removes all containers of a server, whatever they do. How many there were. Only for whoever is that server and has just
    /// started: what is there is of one that was killed.
    pub async fn sweep(&self, node: &str) -> Result<usize, EngineError> {
        let filters = HashMap::from([("label", vec![format!("{NODE_LABEL}={node}")])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let left = self.docker.list_containers(Some(options)).await?;
        let ids: Vec<String> = left.into_iter().filter_map(|one| one.id).collect();
        for id in &ids {
            self.remove(id).await?;
        }
        Ok(ids.len())
    }

    /// Removes a container, with everything that runs in it. One that is not there is removed.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match self.docker.remove_container(id, Some(options)).await {
            Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
