//! Whom this machine is paired with: a file that its owner alone can read, written whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use kitbag_model::{ExecutorId, OrgId, Secret};
use serde::{Deserialize, Serialize};

use crate::link::ServerAddress;

/// What pairing gave.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The server, as a person named it.
    pub server: ServerAddress,
    /// Who this executor is there.
    pub executor_id: ExecutorId,
    /// What it proves that with.
    pub token: Secret,
    /// Whose runs it takes.
    pub organization_id: OrgId,
    /// Where the server wants to be connected to.
    pub gateway: String,
}

/// The same as it stands in the file.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    server: String,
    executor_id: ExecutorId,
    executor_token: String,
    organization_id: OrgId,
    gateway_ws_url: String,
}

impl Credentials {
    /// Reads them; nothing if this machine was never paired.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let kept: Kept = serde_json::from_slice(&bytes)?;
        Ok(Some(Self {
            server: kept.server.parse().map_err(io::Error::other)?,
            executor_id: kept.executor_id,
            token: Secret::new(kept.executor_token),
            organization_id: kept.organization_id,
            gateway: kept.gateway_ws_url,
        }))
    }

    /// Writes them, in place of whatever was there.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let kept = Kept {
            server: self.server.to_string(),
            executor_id: self.executor_id,
            executor_token: self.token.expose().to_owned(),
            organization_id: self.organization_id.clone(),
            gateway_ws_url: self.gateway.clone(),
        };
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&kept)?)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.json");
        assert!(Credentials::read(&path).unwrap().is_none());
        let credentials = Credentials {
            server: "https://kitbag.example.org/".parse().unwrap(),
            executor_id: ExecutorId::generate(),
            token: Secret::new("s3cr3t"),
            organization_id: "acme".parse().unwrap(),
            gateway: "wss://kitbag.example.org/v1/executors/connect".into(),
        };
        credentials.write(&path).unwrap();
        credentials.write(&path).unwrap();
        let read = Credentials::read(&path).unwrap().unwrap();
        assert_eq!((read.executor_id, read.token.expose()), (credentials.executor_id, "s3cr3t"));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!format!("{read:?}").contains("s3cr3t"));
        fs::write(&path, "{").unwrap();
        assert!(Credentials::read(&path).is_err());
    }
}
