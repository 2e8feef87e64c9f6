//! A toolset as a bundle again: the manifest made anew from what is installed, and the files as they are.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use kitbag_formats::archive::{ArchiveWriter, WriteError};
use kitbag_formats::bundle::MANIFEST;
use kitbag_formats::manifest;
use kitbag_model::{ContentHash, Definition, Hasher, Installed, OrgId, ToolsetFile, ToolsetId, WorkPath, export};

use rustix::fs::{Mode, OFlags};

use super::{ToolsetError, Toolsets, blocking};
use crate::api::error::{ApiError, Code};
use crate::transfer::{Inbox, Staged};

/// Why a toolset was not exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// Something in it looks like a secret. Where, but not what.
    #[error("the bundle would tell what looks like a secret: {}; put a placeholder there, or force it", .0.join(", "))]
    Secret(Vec<String>),
    #[error(transparent)]
    Toolset(#[from] ToolsetError),
}

impl From<ExportError> for ApiError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Secret(_) => Self::new(Code::Conflict, error.to_string()),
            ExportError::Toolset(error) => error.into(),
        }
    }
}

/// How many files are asked for at a time.
const PAGE: u32 = 1000;

impl Toolsets {
    /// Makes a bundle of a toolset. The same toolset gives the same bytes. With `force` also if it would tell a secret.
    pub(crate) async fn export(
        &self,
        org: &OrgId,
        id: &ToolsetId,
        inbox: &Inbox,
        force: bool,
    ) -> Result<(Installed, Staged), ExportError> {
        // Rows and files are read one after the other; a new version must not come between.
        let _turn = self.turn(org, id).await;
        let (installed, files) = self.read_all(org, id).await?;
        let (definition, suspicious) = export::without_secrets(installed.merged());
        if !suspicious.is_empty() && !force {
            return Err(ExportError::Secret(suspicious));
        }
        let bundle = self.write_bundle(org, &installed, definition, files, inbox).await?;
        Ok((installed, bundle))
    }

    /// Writes a bundle of a toolset's files with this manifest.
    pub(super) async fn write_bundle(
        &self,
        org: &OrgId,
        installed: &Installed,
        definition: Definition,
        files: Vec<ToolsetFile>,
        inbox: &Inbox,
    ) -> Result<Staged, ToolsetError> {
        let (id, generation) = (&installed.toolset.id, installed.toolset.generation.as_ref());
        self.lay_out(org, generation.map(String::as_str)).await?;
        let folder = generation.map(|generation| self.shelf(org).folder_of(id, generation));
        let inbox = inbox.clone();
        blocking(move || {
            let (staged, target) = inbox.create()?;
            write(target, &manifest::write(&definition), folder.as_deref(), &files)?;
            Ok(staged)
        })
        .await
    }

    /// A toolset with all its files.
    pub(super) async fn read_all(
        &self,
        org: &OrgId,
        id: &ToolsetId,
    ) -> Result<(Installed, Vec<ToolsetFile>), ToolsetError> {
        let mut tx = self.store.read_beside(org).await?;
        let installed = tx.installed(id).await?.ok_or_else(|| ToolsetError::NotFound(id.to_string()))?;
        let mut files: Vec<ToolsetFile> = Vec::new();
        loop {
            let after = files.last().map(|file| file.path.clone());
            let page = tx.toolset_files(id, after.as_ref(), PAGE).await?;
            files.extend(page.items);
            if !page.has_more {
                return Ok((installed, files));
            }
        }
    }
}

fn write(target: File, manifest: &str, folder: Option<&Path>, files: &[ToolsetFile]) -> Result<(), ToolsetError> {
    let mut archive = ArchiveWriter::new(io::BufWriter::new(target));
    let manifest_path: WorkPath = MANIFEST.parse().expect("a plain name");
    let mut manifest = Some(manifest);
    for file in files.iter().filter(|file| file.path != manifest_path) {
        if file.path > manifest_path
            && let Some(text) = manifest.take()
        {
            archive.file(&manifest_path, false, &mut text.as_bytes()).map_err(broken)?;
        }
        let damaged = || ToolsetError::Damaged { path: file.path.to_string() };
        let mut content = checked_file(folder.ok_or_else(damaged)?, file).ok_or_else(damaged)?;
        archive.file(&file.path, file.executable, &mut content).map_err(|error| match error {
            WriteError::Content { .. } => damaged(),
            error => broken(error),
        })?;
    }
    if let Some(text) = manifest {
        archive.file(&manifest_path, false, &mut text.as_bytes()).map_err(broken)?;
    }
    let mut out = archive.finish().map_err(broken)?;
    io::Write::flush(&mut out).map_err(|source| broken(WriteError::Sink(source)))
}

/// A file of a toolset in its folder; reading it fails at its end if it is not what was installed.
pub(crate) fn checked_file(folder: &Path, file: &ToolsetFile) -> Option<impl Read + use<>> {
    let opened = open_plain(&folder.join(file.path.as_str()))?;
    Some(Checked { inner: BufReader::new(opened), hasher: Some(Hasher::default()), want: file.sha256 })
}

/// A plain file. One that somebody put a link or a pipe in place of is not opened.
pub(super) fn open_plain(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().is_ok_and(|data| data.is_file()).then_some(file)
}

fn broken(error: WriteError) -> ToolsetError {
    let source = match error {
        WriteError::Sink(source) => source,
        other => io::Error::other(other),
    };
    crate::transfer::TransferError::Disk { path: "the bundle".into(), source }.into()
}

/// A file that must have the content that was installed: what was changed since is not what people agreed to.
struct Checked<R> {
    inner: R,
    hasher: Option<Hasher>,
    want: ContentHash,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match &mut self.hasher {
            Some(hasher) if count > 0 => hasher.update(&buffer[..count]),
            hasher if !buffer.is_empty() => {
                let whole = hasher.take().is_none_or(|hasher| hasher.finish() == self.want);
                if !whole {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
            _ => {}
        }
        Ok(count)
    }
}
