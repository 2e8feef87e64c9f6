//! A bundle that has arrived and was opened: everything in it is checked, and nothing of it has been written or run.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kitbag_formats::archive::{Archive, ArchiveError, Limits};
use kitbag_formats::bundle::{Bundle, Code, Content, Finding, MANIFEST, Refused};
use kitbag_formats::import::{Download, Imported, Input, Kind, Options};
use kitbag_formats::manifest;
use kitbag_model::redaction::tokens_in;
use kitbag_model::{ContentHash, Definition, FileKind, Hasher, ToolsetFile, WorkPath};

use super::ToolsetError;
use super::shelf::Staging;
use crate::transfer::Staged;

/// What is longer than this is no text that a person wrote.
const LONGEST_TEXT: u64 = 1024 * 1024;

/// A bundle with its bytes.
pub(crate) struct Parcel {
    bytes: Vec<u8>,
    pub(crate) bundle: Bundle,
    pub(crate) files: Vec<ToolsetFile>,
    /// The hash of what came, so that a yes can be bound to it.
    pub(crate) digest: ContentHash,
    /// What it was when it came.
    pub(crate) kind: Kind,
    /// What it names and what was not fetched.
    pub(crate) downloads: Vec<Download>,
}

impl Parcel {
    /// Opens what has arrived under a name. Blocks.
    pub(crate) fn open(file: &Staged, name: Option<&str>, options: &Options) -> Result<Self, ToolsetError> {
        Self::read(file.read()?, name, options)
    }

    /// The same for bytes that are here already. Blocks.
    pub(super) fn read(bytes: Vec<u8>, name: Option<&str>, options: &Options) -> Result<Self, ToolsetError> {
        let input = Input::open(&bytes, &Limits::BUNDLE)?;
        let Imported { bundle, kind, downloads } = input.read(name, options)?;
        if let (true, Some(elsewhere)) = (bundle.is_empty(), downloads.first()) {
            let message = format!(
                "it only says where a bundle is. Import that one: {} (its SHA-256 must be {})",
                elsewhere.url, elsewhere.sha256
            );
            return Err(Refused::from(Finding::new(Code::InvalidBundle, name, message)).into());
        }
        let files = hash_all(input.archive(), &bundle).map_err(|error| Refused::from(Finding::from(&error)))?;
        Ok(Self { digest: ContentHash::of(&bytes), bytes, bundle, files, kind, downloads })
    }

    /// How many bytes came.
    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Makes it a bundle with another manifest, and with a file that says so.
    pub(super) fn with_definition(mut self, definition: Definition) -> Self {
        let manifest = manifest::write(&definition).into_bytes();
        let is_manifest = |path: &WorkPath| path.as_str() == MANIFEST;
        for file in self.files.iter_mut().filter(|file| is_manifest(&file.path)) {
            (file.sha256, file.size) = (ContentHash::of(&manifest), manifest.len() as u64);
        }
        for file in self.bundle.files.iter_mut().filter(|file| is_manifest(&file.path)) {
            file.content = Content::Made(manifest.clone());
        }
        self.bundle.definition = definition;
        self
    }

    /// Where its texts have what is a secret beyond doubt, as `file:line (what it looks like)`.
    pub(super) fn secrets(&self) -> Result<Vec<String>, ToolsetError> {
        let input = Input::open(&self.bytes, &Limits::BUNDLE)?;
        let sizes: HashMap<&WorkPath, u64> = self.files.iter().map(|file| (&file.path, file.size)).collect();
        let mut found = Vec::new();
        for file in
            self.bundle.files.iter().filter(|file| sizes.get(&file.path).is_some_and(|size| *size <= LONGEST_TEXT))
        {
            let mut bytes = Vec::new();
            copy(input.archive(), &file.content, &mut bytes)
                .map_err(|error| ToolsetError::from(Refused::from(Finding::from(&error))))?;
            if let Ok(text) = String::from_utf8(bytes) {
                found.extend(tokens_in(&text).into_iter().map(|(line, kind)| format!("{}:{line} ({kind})", file.path)));
            }
        }
        Ok(found)
    }

    /// Writes all files.
    pub(super) fn unpack(&self, place: &Staging) -> Result<(), ToolsetError> {
        let input = Input::open(&self.bytes, &Limits::BUNDLE)?;
        for file in &self.bundle.files {
            let mut target = place.create(&file.path, file.executable)?;
            copy(input.archive(), &file.content, &mut target).map_err(|error| match error {
                ArchiveError::Sink(source) => place.failed(&file.path, source).into(),
                error => ToolsetError::from(Refused::from(Finding::from(&error))),
            })?;
        }
        place.sync().map_err(ToolsetError::from)
    }
}

/// What a file of a bundle holds.
fn copy(archive: Option<&Archive<'_>>, content: &Content, sink: &mut dyn Write) -> Result<(), ArchiveError> {
    match (content, archive) {
        (Content::Made(bytes), _) => sink.write_all(bytes).map_err(ArchiveError::Sink),
        (Content::Entry(number), Some(archive)) => archive.copy(&archive.entries()[*number], sink),
        (Content::Entry(_), None) => Err(ArchiveError::NotZip),
    }
}

/// Unpacks every file into nothing, to know its hash and that it is whole. On as many threads as there are cores: this is
/// most of the work of an import.
fn hash_all(archive: Option<&Archive<'_>>, bundle: &Bundle) -> Result<Vec<ToolsetFile>, ArchiveError> {
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
    for (number, _) in archive.iter().flat_map(|archive| archive.entries().iter().enumerate()) {
        if !used.contains(&number) {
            copy(archive, &Content::Entry(number), &mut std::io::sink())?;
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn hash(archive: Option<&Archive<'_>>, content: &Content) -> Result<(ContentHash, u64), ArchiveError> {
    let mut sink = HashSink { hasher: Hasher::default(), size: 0 };
    copy(archive, content, &mut sink)?;
    Ok((sink.hasher.finish(), sink.size))
}

/// Takes bytes and keeps their hash.
struct HashSink {
    hasher: Hasher,
    size: u64,
}

impl Write for HashSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
