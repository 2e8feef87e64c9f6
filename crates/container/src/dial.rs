//! Whom we dial: the one room of this crate that connects. A socket on this machine and nothing else: the workspace is mounted by its path, so an
//! engine elsewhere could not see it, and one that is reached over a network gives its rights to whoever can reach it.

use std::path::{Path, PathBuf};

use bollard::{API_DEFAULT_VERSION, Docker};

use crate::error::EngineError;

/// So many seconds one question to an engine may take. Waiting for a container is asked for without an end.
const PATIENCE: u64 = 120;

/// A socket that was looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// Which.
    pub socket: PathBuf,
    /// Why it is of no use; none: an engine answers there.
    pub problem: Option<String>,
}

/// Where an engine may listen, best first: where `DOCKER_HOST` says, else where Docker and podman do by themselves.
pub fn sockets(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<PathBuf>, EngineError> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(host) = variable("DOCKER_HOST") {
        let path = host.strip_prefix("unix://").filter(|path| path.starts_with('/'));
        let path = path.ok_or_else(|| {
            EngineError::None("DOCKER_HOST must be a socket of this machine: unix:///path/to/docker.sock".to_owned())
        })?;
        return Ok(vec![PathBuf::from(path)]);
    }
    let own = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.iter().flat_map(|folder| [folder.join("docker.sock"), folder.join("podman/podman.sock")]);
    let all = [PathBuf::from("/var/run/docker.sock"), PathBuf::from("/run/podman/podman.sock")];
    Ok(own.chain(all).collect())
}

/// A connection to the engine behind a socket.
#[allow(clippy::disallowed_methods, reason = "this is the room for it")]
pub(crate) async fn dial(socket: &Path) -> Result<Docker, EngineError> {
    let Some(text) = socket.to_str() else { return Err(EngineError::Away("its path is no text".to_owned())) };
    let docker = Docker::connect_with_unix(text, PATIENCE, API_DEFAULT_VERSION)?;
    Ok(docker.negotiate_version().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_engines_listen() {
        let with = |pairs: &'static [(&str, &str)]| {
            sockets(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        let all = with(&[("XDG_RUNTIME_DIR", "/run/user/7")]).unwrap();
        assert_eq!(all[1], Path::new("/run/user/7/podman/podman.sock"));
        assert_eq!(all.len(), 4);
        assert_eq!(with(&[("DOCKER_HOST", "unix:///a/b.sock")]).unwrap(), [Path::new("/a/b.sock")]);
        assert_eq!(with(&[("DOCKER_HOST", "")]).unwrap().len(), 2);
        for elsewhere in [&[("DOCKER_HOST", "tcp://10.0.0.1:2375")][..], &[("DOCKER_HOST", "unix://relative")]] {
            let pairs: &'static [(&str, &str)] = elsewhere;
            assert!(matches!(with(pairs), Err(EngineError::None(_))));
        }
    }
}
