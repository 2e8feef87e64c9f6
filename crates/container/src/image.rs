//! Images: what an engine has, fetching one, building one.

use std::collections::HashMap;

use bollard::models::ImageInspect;
use bollard::query_parameters::{BuildImageOptionsBuilder, CreateImageOptionsBuilder};
use futures_util::StreamExt;

use crate::engine::Engine;
use crate::error::{EngineError, short};

/// An image.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Image {
    /// The hash of what it is made of.
    pub id: String,
    /// Folders that an engine makes for it on this machine's disk, without a limit.
    pub volumes: Vec<String>,
    /// What it says of itself.
    pub labels: HashMap<String, String>,
}

/// What the steps of a recipe may use.
#[derive(Clone, Copy, Debug)]
pub struct Within {
    /// Whether they reach the network. podman's service lets them reach it all the same: it knows this by another name, which cannot be said here.
    pub network: bool,
    /// The most bytes of memory.
    pub memory: u64,
}

impl Engine {
    /// The image of a name, if the engine has it.
    pub async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        match self.docker.inspect_image(name).await {
            Ok(found) => Ok(known(found)),
            Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Fetches an image, with the credentials that the engine itself has. `tell` hears how far it is.
    pub async fn pull(&self, name: &str, tell: impl Fn(String)) -> Result<Image, EngineError> {
        let none = |reason: String| EngineError::NoImage { name: name.to_owned(), reason };
        let options = CreateImageOptionsBuilder::default().from_image(name).build();
        let mut steps = self.docker.create_image(Some(options), None, None);
        while let Some(step) = steps.next().await {
            let step = step.map_err(|error| none(EngineError::from(error).to_string()))?;
            if let Some(problem) = step.error_detail.and_then(|detail| detail.message) {
                return Err(none(short(&problem)));
            }
            if let Some(status) = step.status {
                tell(short(&status));
            }
        }
        self.image(name).await?.ok_or_else(|| none("it is not there after it was fetched".to_owned()))
    }

    /// Builds an image of a packed folder. `tell` hears what the builder says.
    pub async fn build(
        &self,
        tag: &str,
        recipe: &str,
        folder: Vec<u8>,
        within: &Within,
        tell: impl Fn(String),
    ) -> Result<Image, EngineError> {
        let memory = i32::try_from(within.memory).unwrap_or(i32::MAX);
        let options = BuildImageOptionsBuilder::default()
            .dockerfile(recipe)
            .t(tag)
            .rm(true)
            .forcerm(true)
            .networkmode(if within.network { "bridge" } else { "none" })
            .memory(memory)
            .memswap(memory)
            .build();
        let body = bollard::body_full(folder.into());
        let mut steps = self.docker.build_image(options, None, Some(body));
        let mut last = String::new();
        while let Some(step) = steps.next().await {
            let step = step.map_err(|error| EngineError::Build(EngineError::from(error).to_string()))?;
            if let Some(problem) = step.error_detail.and_then(|detail| detail.message) {
                return Err(EngineError::Build(short(&problem)));
            }
            if let Some(said) = step.stream.filter(|said| !said.trim().is_empty()) {
                last = short(&said);
                tell(last.clone());
            }
        }
        self.image(tag).await?.ok_or(EngineError::Build(last))
    }
}

fn known(found: ImageInspect) -> Option<Image> {
    let config = found.config.unwrap_or_default();
    let volumes = config.volumes.unwrap_or_default();
    Some(Image { id: found.id?, volumes, labels: config.labels.unwrap_or_default() })
}
