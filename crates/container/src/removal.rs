//! A container from its making to its going, and what it means how one ended.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bollard::query_parameters::{CreateContainerOptions, InspectContainerOptions};

use crate::confine::{Spec, request};
use crate::engine::Engine;
use crate::error::EngineError;

/// A container that goes away with this, whatever becomes of who has it.
#[derive(Debug)]
pub(crate) struct Removal {
    engine: Engine,
    id: Option<String>,
}

impl Engine {
    /// Makes a container. It is not started yet.
    pub(crate) async fn make(&self, spec: &Spec) -> Result<Removal, EngineError> {
        // It is made to the end, also when nobody waits any more: then it goes away with what nobody takes.
        let (engine, request) = (self.clone(), request(self.nature(), spec));
        let making = tokio::spawn(async move {
            let made = engine.docker.create_container(None::<CreateContainerOptions>, request).await?;
            for warning in made.warnings {
                tracing::warn!(warning, "of a container that was made");
            }
            Ok(Removal { engine, id: Some(made.id) })
        });
        making.await.unwrap_or_else(|_| Err(EngineError::Away("a container could not be made".to_owned())))
    }
}

impl Removal {
    /// Which container it is.
    pub(crate) fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// Removes it.
    pub(crate) async fn now(mut self) {
        if let Some(id) = self.id.take() {
            self.engine.remove_or_note(&id).await;
        }
    }
}

/// Containers that could not be removed when they should have been, and where their engine listens: it was away, and no other one knows them.
static LEFT: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

fn left() -> MutexGuard<'static, Vec<(PathBuf, String)>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Whether there are containers that could not be removed.
    pub fn has_left() -> bool {
        !left().is_empty()
    }

    /// Removes a container, now or later.
    pub(crate) async fn remove_or_note(&self, id: &str) {
        if let Err(error) = self.remove(id).await {
            tracing::warn!(%error, container = id, "a container could not be removed; it is tried again");
            left().push((self.socket().to_owned(), id.to_owned()));
        }
    }

    /// Removes what could not be removed before from this engine.
    pub async fn remove_left(&self) {
        let own: Vec<_> = left().extract_if(.., |(socket, _)| socket == self.socket()).collect();
        for (_, id) in own {
            Removal { engine: self.clone(), id: Some(id) }.now().await;
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let engine = self.engine.clone();
            tokio::spawn(async move { Removal { engine, id: Some(id) }.now().await });
        }
    }
}

/// What it means that a container ended with this status.
pub(crate) async fn how_it_ended(engine: &Engine, id: &str, code: i64, memory: u64) -> String {
    let state = engine.docker.inspect_container(id, None::<InspectContainerOptions>).await.ok();
    let killed = state.and_then(|one| one.state).and_then(|state| state.oom_killed).unwrap_or(false);
    let megabytes = memory >> 20;
    match code {
        _ if killed => format!("it needed more memory than it may have ({megabytes} MiB)"),
        // Not every engine knows whether it was the memory.
        137 => format!("it was killed, perhaps because it needed more memory than it may have ({megabytes} MiB)"),
        126 | 127 => format!("its command could not be started (exit status {code})"),
        code @ 129..=192 => format!("it was ended by signal {}", code - 128),
        code => format!("it ended with exit status {code}"),
    }
}
