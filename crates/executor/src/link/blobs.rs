//! The content of files, by its hash: down before an attempt begins, up when it is over. Only what is missing travels.
//!
//! A server that cannot be reached is asked again until it answers, or until nobody wants the answer.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use kitbag_model::ContentHash;
use kitbag_model::run::wire::{Assignment, AttemptId, ToolsetSnapshot};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Backoff, Link, LinkError, Patience, refused, unreachable};
use crate::Failure;
use crate::prepare::Files;

/// So many hashes are asked for at once.
const HASHES: usize = 1000;

/// How often a server that answers, and cannot do it, is asked.
const TRIES: usize = 8;

/// How long nothing may come.
const IDLE: Duration = Duration::from_secs(60);

/// How long a file may take on its way up.
const UPLOAD: Duration = Duration::from_secs(1800);

/// The files of one attempt.
#[derive(Clone, Debug)]
pub struct Blobs {
    link: Link,
    id: AttemptId,
    patience: Patience,
    /// Whether nobody wants them any more.
    ended: watch::Receiver<bool>,
    /// How many bytes those have that the attempt begins with.
    sizes: HashMap<ContentHash, u64>,
}

#[derive(Serialize)]
struct Asked<'a> {
    hashes: &'a [ContentHash],
}

#[derive(Deserialize)]
struct Missing {
    missing: BTreeSet<ContentHash>,
}

impl Blobs {
    /// Those that an assignment names.
    pub fn new(link: Link, job: &Assignment, patience: Patience, ended: watch::Receiver<bool>) -> Self {
        let all = job.files.values().chain(job.toolset.iter().flat_map(ToolsetSnapshot::files));
        let sizes = all.map(|file| (file.sha256, file.size)).collect();
        Self { link, id: job.id, patience, ended, sizes }
    }

    /// Which of these the server does not have.
    pub async fn missing(&self, hashes: &[ContentHash]) -> Result<BTreeSet<ContentHash>, LinkError> {
        let mut all = BTreeSet::new();
        for some in hashes.chunks(HASHES) {
            all.append(&mut self.insist(|| self.ask(some)).await?);
        }
        Ok(all)
    }

    /// Sends a file that the server does not have.
    pub async fn put(&self, hash: ContentHash, file: &Path, size: u64) -> Result<(), LinkError> {
        self.insist(|| self.send(hash, file, size)).await
    }

    async fn ask(&self, hashes: &[ContentHash]) -> Result<BTreeSet<ContentHash>, LinkError> {
        let request = self.link.request(Method::POST, &self.link.address.missing(self.id))?;
        let answer = request.timeout(IDLE).json(&Asked { hashes }).send().await.map_err(|error| unreachable(&error))?;
        if !answer.status().is_success() {
            return Err(refused(answer).await);
        }
        let missing: Missing = answer.json().await.map_err(|error| unreachable(&error))?;
        Ok(missing.missing)
    }

    async fn send(&self, hash: ContentHash, file: &Path, size: u64) -> Result<(), LinkError> {
        let local = |error: std::io::Error| LinkError::Refused { status: 0, message: error.to_string() };
        let content = tokio::fs::File::open(file).await.map_err(local)?;
        let request = self.link.request(Method::PUT, &self.link.address.blob(self.id, hash))?;
        let request = request
            .timeout(UPLOAD)
            .header(reqwest::header::CONTENT_TYPE, "application/octet-stream")
            .header(reqwest::header::CONTENT_LENGTH, size)
            .body(reqwest::Body::from(content));
        let answer = request.send().await.map_err(|error| unreachable(&error))?;
        if answer.status().is_success() { Ok(()) } else { Err(refused(answer).await) }
    }

    async fn fetch(&self, hash: ContentHash, size: u64) -> Result<Vec<u8>, LinkError> {
        let request = self.link.request(Method::GET, &self.link.address.blob(self.id, hash))?;
        let slow = |_| LinkError::Unreachable(format!("nothing came for {IDLE:?}"));
        let answer = timeout(IDLE, request.send()).await.map_err(slow)?;
        let mut answer = answer.map_err(|error| unreachable(&error))?;
        if !answer.status().is_success() {
            return Err(refused(answer).await);
        }
        let mut content = Vec::new();
        while let Some(part) =
            timeout(IDLE, answer.chunk()).await.map_err(slow)?.map_err(|error| unreachable(&error))?
        {
            content.extend_from_slice(&part);
            if content.len() as u64 > size {
                let message = format!("it sent more than the {size} bytes that it promised for {hash}");
                return Err(LinkError::Refused { status: 200, message });
            }
        }
        Ok(content)
    }

    /// Asks until there is an answer.
    async fn insist<T, A>(&self, ask: impl Fn() -> A) -> Result<T, LinkError>
    where
        A: Future<Output = Result<T, LinkError>>,
    {
        let (mut ended, mut backoff) = (self.ended.clone(), Backoff::new(self.patience));
        let over = async move {
            if ended.wait_for(|ended| *ended).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let mut busy = 0;
        let answer = async {
            loop {
                match ask().await {
                    Err(LinkError::Busy { status, message }) => {
                        busy += 1;
                        if busy == TRIES {
                            return Err(LinkError::Busy { status, message });
                        }
                    }
                    Err(LinkError::Unreachable(reason)) => {
                        tracing::debug!(id = %self.id, reason, "a file could not be fetched or sent; once more");
                    }
                    other => return other,
                }
                sleep(backoff.failed()).await;
            }
        };
        tokio::select! {
            answer = answer => answer,
            () = over => Err(LinkError::Ended),
        }
    }
}

impl Files for Blobs {
    async fn get(&self, hash: ContentHash) -> Result<Vec<u8>, Failure> {
        let size = self.sizes.get(&hash).copied().unwrap_or_default();
        self.insist(|| self.fetch(hash, size)).await.map_err(|error| match error {
            LinkError::Ended => Failure::new("CANCELLED", error),
            _ => Failure::new("WORKSPACE_FAILED", error),
        })
    }
}
