//! Where files arrive: each in a file of its own, which goes away unless somebody moves it to where it belongs.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio_stream::{Stream, StreamExt};

use crate::api::error::{ApiError, Code};
use crate::workspaces::{Arriving, WorkspaceError};

/// Why a file did not arrive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("the body has more than {most} bytes, which is the most that are taken")]
    TooLarge { most: u64 },
    #[error("nothing came for {} seconds", patience.as_secs())]
    Stalled { patience: Duration },
    #[error("the body cannot be read: {0}")]
    Unreadable(String),
    #[error("{}: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
    /// The organisation has no room for it.
    #[error(transparent)]
    NoRoom(Box<WorkspaceError>),
}

impl From<WorkspaceError> for TransferError {
    fn from(error: WorkspaceError) -> Self {
        Self::NoRoom(Box::new(error))
    }
}

impl From<TransferError> for ApiError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::TooLarge { .. } => Self::new(Code::PayloadTooLarge, error.to_string()),
            TransferError::Stalled { .. } => Self::new(Code::Timeout, error.to_string()),
            TransferError::Unreadable(_) => Self::new(Code::BadRequest, error.to_string()),
            TransferError::Disk { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Self::new(Code::Unavailable, "the disk is full: nothing was kept")
            }
            TransferError::Disk { .. } => Self::internal(error),
            TransferError::NoRoom(error) => (*error).into(),
        }
    }
}

/// The folder where files arrive. It lies in the data folder, so that a file can be moved from it to its place at once.
#[derive(Clone)]
pub(crate) struct Inbox {
    folder: Arc<PathBuf>,
    count: Arc<AtomicU64>,
}

/// A file that has arrived.
#[derive(Debug)]
pub(crate) struct Staged {
    path: PathBuf,
}

impl Staged {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All of it.
    pub(crate) fn read(&self) -> Result<Vec<u8>, TransferError> {
        std::fs::read(&self.path).map_err(|source| TransferError::Disk { path: self.path.clone(), source })
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Mostly it is gone already: it was moved to its place.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Inbox {
    pub(crate) fn new(data: &Path) -> Self {
        Self { folder: Arc::new(data.join("inbox")), count: Arc::default() }
    }

    /// Removes what a killed server left. Only for whoever has the data folder alone.
    pub(crate) fn clear(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&*self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// A new empty file.
    pub(crate) fn create(&self) -> Result<(Staged, std::fs::File), TransferError> {
        let name = format!("{}-{}", std::process::id(), self.count.fetch_add(1, Ordering::Relaxed));
        let path = self.folder.join(name);
        let failed = |source| TransferError::Disk { path: path.clone(), source };
        std::fs::create_dir_all(&*self.folder).map_err(failed)?;
        let file = std::fs::File::create(&path).map_err(failed)?;
        Ok((Staged { path }, file))
    }

    /// Takes a body of at most `most` bytes that may pause for `patience`. What is for a workspace is counted while it comes.
    pub(crate) async fn receive<E: std::fmt::Display>(
        &self,
        body: impl Stream<Item = Result<Bytes, E>>,
        most: u64,
        patience: Duration,
        mut arriving: Option<&mut Arriving>,
    ) -> Result<Staged, TransferError> {
        let (staged, file) = self.create()?;
        let failed = |source| TransferError::Disk { path: staged.path.clone(), source };
        let mut file = BufWriter::with_capacity(256 * 1024, tokio::fs::File::from_std(file));
        let mut body = pin!(body);
        let mut size = 0;
        loop {
            let part = tokio::time::timeout(patience, body.next()).await;
            let Some(part) = part.map_err(|_| TransferError::Stalled { patience })? else { break };
            let part = part.map_err(|error| TransferError::Unreadable(error.to_string()))?;
            size += part.len() as u64;
            if size > most {
                return Err(TransferError::TooLarge { most });
            }
            if let Some(arriving) = &mut arriving {
                arriving.came(part.len() as u64)?;
            }
            file.write_all(&part).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        Ok(staged)
    }
}
