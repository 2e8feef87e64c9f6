//! What a run of an agent does to a workspace: it begins with a state of it, and leaves one. The folder here is not touched: the agent
//! has one of its own, elsewhere.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::PathBuf;

use kitbag_cas::{CasError, Entry, Kind, tree};
use kitbag_model::run::wire::FileRef;
use kitbag_model::run::{Run, RunOutcome};
use kitbag_model::{ContentHash, ExecutorId, Manifest, ManifestId, NewManifest, Source, WorkPath};
use kitbag_store::{End, NotHeld};

use super::{Lease, WorkspaceError};

/// Why the end of a run was not recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunEndError {
    #[error(transparent)]
    NotHeld(#[from] NotHeld),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// An attempt that is over, as its executor tells it.
pub(crate) struct Ended {
    pub(crate) run: kitbag_model::RunId,
    pub(crate) attempt: u32,
    pub(crate) executor: ExecutorId,
    pub(crate) outcome: RunOutcome,
    pub(crate) files: Option<BTreeMap<WorkPath, FileRef>>,
    pub(crate) began_with: Option<ManifestId>,
}

impl Lease {
    /// Keeps the content of files that no state has, durably. Each must be what its hash says.
    pub(crate) async fn take_files(&self, files: Vec<(PathBuf, ContentHash)>) -> Result<(), WorkspaceError> {
        self.work_in_now(move |workspace, _| {
            let writer = workspace.blobs().writer()?;
            for (path, hash) in files {
                let failed = |source| CasError::Io { path: path.clone(), source };
                let (_, found) = writer.put_file(&File::open(&path).map_err(failed)?)?;
                if found != hash {
                    return Err(CasError::Corrupt { hash }.into());
                }
            }
            Ok(writer.finish().map(drop)?)
        })
        .await
    }

    /// Those of these contents that are not here.
    pub(crate) async fn missing(&self, hashes: Vec<ContentHash>) -> Result<Vec<ContentHash>, WorkspaceError> {
        Ok(self.missing_in(hashes).await?.0)
    }

    /// The same, and the generation of blobs that those which are here are relied on in. Whoever is told that something is missing
    /// gives it up, so it is looked for wherever another node may have put it.
    async fn missing_in(&self, hashes: Vec<ContentHash>) -> Result<(Vec<ContentHash>, Option<u64>), WorkspaceError> {
        self.work_in_now(move |workspace, _| {
            let blobs = workspace.blobs();
            let generation = blobs.generation();
            Ok((blobs.missing(&hashes)?, generation))
        })
        .await
    }

    /// The files of a state, as an executor is told them. Links and empty folders stay here: an agent's folder begins without them.
    pub(crate) async fn files_of(&self, manifest: ManifestId) -> Result<BTreeMap<WorkPath, FileRef>, WorkspaceError> {
        let root = self.manifest(manifest).await?.root;
        let entries = self.entries(root).await?;
        let file = |(path, entry): (WorkPath, Entry)| {
            let executable = entry.kind == Kind::Executable;
            is_told(entry.kind).then_some((path, FileRef { sha256: entry.hash, size: entry.size, executable }))
        };
        Ok(entries.into_iter().filter_map(file).collect())
    }

    /// Records the end of a run together with the state that it left. The chat stays where it is.
    pub(crate) async fn finish_run(&self, ended: Ended) -> Result<(Run, Option<Manifest>), RunEndError> {
        let (tree, generation) = match &ended.files {
            Some(files) => {
                let (tree, generation) = self.tree_of(files, ended.began_with).await?;
                (Some(tree), generation)
            }
            None => (None, None),
        };
        let mut tx = self.write().await?;
        self.hold_generation(&mut tx, generation).await?;
        let mut manifest = None;
        if let Some(tree) = &tree {
            tx.add_nodes(self.0.chat, &tree.new_nodes).await.map_err(WorkspaceError::from)?;
            let new = NewManifest {
                parent: ended.began_with,
                root: tree.root,
                source: Source::ToolRun,
                source_ref: Some(ended.run.to_string()),
            };
            manifest = Some(tx.add_manifest(self.0.chat, &new).await.map_err(WorkspaceError::from)?);
        }
        let end = End { outcome: &ended.outcome, manifest: manifest.as_ref().map(|manifest| manifest.id) };
        let run = tx.finish_run(ended.run, ended.attempt, ended.executor, end).await?;
        tx.commit_chat().await.map_err(WorkspaceError::from)?;
        Ok((run, manifest))
    }

    /// The tree of files whose content is here, all of it, with what the executor was not told of: it cannot have taken that away.
    async fn tree_of(
        &self,
        files: &BTreeMap<WorkPath, FileRef>,
        began_with: Option<ManifestId>,
    ) -> Result<(tree::Tree, Option<u64>), WorkspaceError> {
        let before = match began_with {
            Some(manifest) => self.entries(self.manifest(manifest).await?.root).await?,
            None => Vec::new(),
        };
        // What a state has that was kept is there as long as that state is.
        let kept: HashSet<ContentHash> = before.iter().map(|(_, entry)| entry.hash).collect();
        let hashes = files.values().map(|file| file.sha256).filter(|hash| !kept.contains(hash)).collect();
        let (missing, generation) = self.missing_in(hashes).await?;
        if let Some(hash) = missing.first() {
            return Err(CasError::Missing { hash: *hash }.into());
        }
        let entry = |(path, file): (&WorkPath, &FileRef)| {
            let kind = if file.executable { Kind::Executable } else { Kind::File };
            (path.clone(), Entry { kind, size: file.size, hash: file.sha256 })
        };
        let mut entries: BTreeMap<WorkPath, Entry> = files.iter().map(entry).collect();
        let untold = before.into_iter().filter(|(_, entry)| !is_told(entry.kind));
        let kept: Vec<(WorkPath, Entry)> = untold.filter(|(path, _)| has_room(path, &entries)).collect();
        entries.extend(kept);
        Ok((tree::build(&entries), generation))
    }
}

/// Whether an executor is told of such a thing.
fn is_told(kind: Kind) -> bool {
    matches!(kind, Kind::File | Kind::Executable)
}

/// Whether nothing is in the place of a path, above it or below it.
fn has_room(path: &WorkPath, entries: &BTreeMap<WorkPath, Entry>) -> bool {
    let text = path.as_str();
    let above = text.match_indices('/').map(|(end, _)| &text[..end]);
    let below = format!("{text}/");
    !entries.contains_key(text)
        && above.into_iter().all(|folder| !entries.contains_key(folder))
        && !entries.keys().any(|other| other.as_str().starts_with(&below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_is_not_kept() {
        let entry = Entry::folder();
        let entries: BTreeMap<WorkPath, Entry> =
            ["a.txt", "src/main.rs"].map(|path| (path.parse().unwrap(), entry)).into();
        for (path, has) in
            [("link", true), ("src/link", true), ("a.txt", false), ("src", false), ("a.txt/x", false), ("a.tx", true)]
        {
            assert_eq!(has_room(&path.parse().unwrap(), &entries), has, "{path}");
        }
    }
}
