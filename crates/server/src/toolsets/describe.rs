//! What the code of toolsets says of their tools. It is found out once for each set of files, when it is first needed, and kept
//! in the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_model::{Installed, OrgId, ToolsetId, WorkPath};
use kitbag_python::{Description, WorkerError};
use kitbag_store::StoreError;
use tokio::sync::mpsc;
use tracing::Instrument;

use super::catalogue::Descriptions;
use super::{ShelfError, ToolsetError, Toolsets, Turns};
use crate::api::error::{ApiError, Code};

/// So long a list waits for code that nobody has looked at yet. It is looked at to the end even so.
const PATIENCE: Duration = Duration::from_secs(5);

/// So long a list does not try again what failed.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Files of a toolset that say which packages it needs.
const NEEDS: [&str; 2] = ["requirements.txt", "pyproject.toml"];

type Failed = HashMap<(OrgId, ToolsetId), (String, Instant)>;

/// Who is at it, and what failed a short time ago: of which files, and when.
#[derive(Clone, Default)]
pub(super) struct Describing {
    turns: Arc<Mutex<Turns>>,
    failed: Arc<Mutex<Failed>>,
}

/// Why it is not known what the code of a toolset says.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DescribeError {
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// Its files cannot be had.
    #[error(transparent)]
    Files(#[from] ShelfError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DescribeError> for ApiError {
    fn from(error: DescribeError) -> Self {
        match error {
            DescribeError::Worker(error) => Self::new(Code::Unavailable, error.to_string()),
            DescribeError::Files(error) => ToolsetError::from(error).into(),
            DescribeError::Store(error) => error.into(),
        }
    }
}

impl Describing {
    fn has_failed(&self, org: &OrgId, one: &Installed) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = failed.get(&(org.clone(), one.toolset.id.clone()));
        known.is_some_and(|(files, at)| Some(files) == one.toolset.generation.as_ref() && at.elapsed() < REMEMBERED)
    }

    fn remember(&self, org: &OrgId, one: &Installed, files: &str, failed: bool) {
        let mut known = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        if failed {
            known.insert((org.clone(), one.toolset.id.clone()), (files.to_owned(), Instant::now()));
        }
    }

    fn turn(&self, org: &OrgId, id: &ToolsetId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry((org.clone(), id.clone())).or_default())
    }
}

impl Toolsets {
    /// What is known of the code of these toolsets. Code that nobody has looked at is looked at now, if it needs no packages:
    /// a list must not make the caller wait for those.
    pub(super) async fn descriptions(&self, org: &OrgId, all: &[Installed]) -> Result<Descriptions, ToolsetError> {
        let mut known = self.known(org, all).await?;
        let mut looking = Vec::new();
        for one in all {
            let new = !known.contains_key(&one.toolset.id) && one.toolset.enabled && !one.tools.is_empty();
            if new && !self.describing.has_failed(org, one) && !self.needs_packages(org, one).await? {
                let (toolsets, org, one) = (self.clone(), org.clone(), one.clone());
                looking.push(tokio::spawn(async move { drop(toolsets.describe(&org, &one).await) }));
            }
        }
        if !looking.is_empty() {
            let all_of_them = async {
                for one in looking {
                    let _ = one.await;
                }
            };
            let _ = tokio::time::timeout(PATIENCE, all_of_them).await;
            known = self.known(org, all).await?;
        }
        Ok(known)
    }

    async fn known(&self, org: &OrgId, all: &[Installed]) -> Result<Descriptions, ToolsetError> {
        let kept = self.store.read_beside(org).await?.tool_descriptions().await?;
        let of_these_files = kept.into_iter().filter(|(id, files, _)| {
            let one = all.iter().find(|one| one.toolset.id == *id);
            one.is_some_and(|one| one.toolset.generation.as_ref() == Some(files))
        });
        // What another version of this program wrote, and this one cannot read, is found out again.
        Ok(of_these_files.filter_map(|(id, _, text)| Some((id, serde_json::from_str(&text).ok()?))).collect())
    }

    async fn needs_packages(&self, org: &OrgId, one: &Installed) -> Result<bool, ToolsetError> {
        if !one.python.dependencies.is_empty() || one.python.version.is_some() {
            return Ok(true);
        }
        let mut tx = self.store.read_beside(org).await?;
        for name in NEEDS {
            let path: WorkPath = name.parse().expect("a plain name is a path");
            if tx.toolset_file(&one.toolset.id, &path).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the code of a toolset says: from the database, or from the code itself. One at a time for each toolset, and to its
    /// end even if nobody waits for it any more.
    pub(crate) async fn describe(&self, org: &OrgId, one: &Installed) -> Result<Description, DescribeError> {
        let (toolsets, org, one) = (self.clone(), org.clone(), one.clone());
        let work = async move { toolsets.do_describe(&org, &one).await };
        tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn do_describe(&self, org: &OrgId, one: &Installed) -> Result<Description, DescribeError> {
        let id = &one.toolset.id;
        let files = one.toolset.generation.clone().unwrap_or_default();
        let turn = self.describing.turn(org, id);
        let _turn = turn.lock().await;
        let kept = self.store.read_beside(org).await?.tool_description(id, &files).await?;
        if let Some(known) = kept.and_then(|text| serde_json::from_str(&text).ok()) {
            return Ok(known);
        }
        self.lay_out(org, Some(&files)).await?;
        let found = self.workers.describe(&self.program(org, one)).await;
        self.describing.remember(org, one, &files, found.is_err());
        let found =
            found.inspect_err(|error| tracing::warn!(toolset = %id, %error, "a toolset's code is not known"))?;
        let text = serde_json::to_string(&found).expect("a description can be written as JSON");
        let mut tx = self.store.write(org).await?;
        match tx.set_tool_description(id, &files, &text).await {
            Ok(()) => tx.commit().await?,
            // Somebody removed the toolset meanwhile.
            Err(StoreError::Reference) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(found)
    }

    /// Builds what a toolset needs, and finds out what its code says. Whoever listens hears how far it is.
    pub(crate) async fn prepare(&self, org: &OrgId, one: &Installed) -> Result<Description, DescribeError> {
        let (sender, mut heard) = mpsc::unbounded_channel::<String>();
        let (events, to, id) = (self.events.clone(), org.clone(), one.toolset.id.to_string());
        tokio::spawn(async move {
            while let Some(message) = heard.recv().await {
                let data = serde_json::json!({ "toolsetId": id, "message": message });
                events.publish(&to, None, "toolset_progress", data);
            }
        });
        self.lay_out(org, one.toolset.generation.as_deref()).await?;
        let (workers, program) = (self.workers.clone(), self.program(org, one));
        let built = tokio::spawn(async move { workers.prepare(&program, sender).await }.in_current_span());
        built.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        self.describe(org, one).await
    }
}
