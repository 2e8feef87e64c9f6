//! A bundle that has arrived and was opened: everything in it is checked, and nothing of it has been written or run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kitbag_formats::archive::{Archive, ArchiveError, Limits, strip_signature};
use kitbag_formats::bundle::{self, Bundle, Code, Content, Finding, Refused};
use kitbag_model::{ContentHash, FileKind, Hasher, ToolsetFile};

use super::ToolsetError;
use super::shelf::Staging;
use crate::transfer::Staged;

/// A bundle with its bytes.
pub(crate) struct Parcel {
    bytes: Vec<u8>,
    pub(crate) bundle: Bundle,
    pub(crate) files: Vec<ToolsetFile>,
}

impl Parcel {
    /// Opens what has arrived. Blocks.
    pub(crate) fn open(file: &Staged) -> Result<Self, ToolsetError> {
        let mut bytes = file.read()?;
        let unsigned = strip_signature(&bytes).0.len();
        let was_signed = unsigned < bytes.len();
        bytes.truncate(unsigned);
        let refused = |error: ArchiveError| Refused::from(Finding::from(&error));
        let archive = Archive::open(&bytes, &Limits::BUNDLE).map_err(refused)?;
        let mut bundle = bundle::read(&archive)?;
        if was_signed {
            let message = "the bundle is signed; the signature was not checked";
            bundle.warnings.push(Finding::new(Code::InvalidBundle, None, message));
        }
        let files = hash_all(&archive, &bundle).map_err(refused)?;
        Ok(Self { bytes, bundle, files })
    }

    /// Writes all files.
    pub(super) fn unpack(&self, place: &Staging) -> Result<(), ToolsetError> {
        let refused = |error: ArchiveError| ToolsetError::from(Refused::from(Finding::from(&error)));
        let archive = Archive::open(&self.bytes, &Limits::BUNDLE).map_err(refused)?;
        for file in &self.bundle.files {
            let mut target = place.create(&file.path, file.executable)?;
            match &file.content {
                Content::Entry(number) => {
                    archive.copy(&archive.entries()[*number], &mut target).map_err(|error| match error {
                        ArchiveError::Sink(source) => place.failed(&file.path, source).into(),
                        error => refused(error),
                    })?
                }
                Content::Made(bytes) => {
                    std::io::Write::write_all(&mut target, bytes).map_err(|source| place.failed(&file.path, source))?;
                }
            }
        }
        place.sync().map_err(ToolsetError::from)
    }
}

/// Unpacks every file into nothing, to know its hash and that it is whole. On as many threads as there are cores: this is
/// most of the work of an import.
fn hash_all(archive: &Archive<'_>, bundle: &Bundle) -> Result<Vec<ToolsetFile>, ArchiveError> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::with_capacity(bundle.files.len()), None));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let work = || {
        let mut own = Vec::new();
        let mut failed = None;
        while let Some(file) = bundle.files.get(next.fetch_add(1, Ordering::Relaxed)) {
            match hash(archive, &file.content) {
                Ok((sha256, size)) => own.push(ToolsetFile {
                    kind: FileKind::of(&file.path),
                    path: file.path.clone(),
                    sha256,
                    size,
                    executable: file.executable,
                }),
                Err(error) => {
                    failed = Some(error);
                    next.store(bundle.files.len(), Ordering::Relaxed);
                }
            }
        }
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.0.append(&mut own);
        done.1 = done.1.take().or(failed);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (mut files, failed) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = failed {
        return Err(error);
    }
    // What the bundle does not use is checked too: an archive is whole or it is refused.
    let used: std::collections::HashSet<usize> = bundle
        .files
        .iter()
        .filter_map(|file| match file.content {
            Content::Entry(number) => Some(number),
            Content::Made(_) => None,
        })
        .collect();
    for (number, entry) in archive.entries().iter().enumerate() {
        if !used.contains(&number) {
            archive.copy(entry, &mut std::io::sink())?;
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn hash(archive: &Archive<'_>, content: &Content) -> Result<(ContentHash, u64), ArchiveError> {
    match content {
        Content::Made(bytes) => Ok((ContentHash::of(bytes), bytes.len() as u64)),
        Content::Entry(number) => {
            let mut sink = HashSink(Hasher::default());
            let entry = &archive.entries()[*number];
            archive.copy(entry, &mut sink)?;
            Ok((sink.0.finish(), entry.size()))
        }
    }
}

/// Takes bytes and keeps their hash.
struct HashSink(Hasher);

impl std::io::Write for HashSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
