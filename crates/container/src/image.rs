//! Images: what an engine has, fetching one, building one.

use std::collections::HashMap;

use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::{
    BuildImageOptionsBuilder, CreateImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptions,
};
use futures_util::StreamExt;

use crate::engine::Engine;
use crate::error::{EngineError, short};
use crate::nature::EngineKind;

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

/// An image that was built here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Built {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub names: Vec<String>,
}

/// What the steps of a recipe may use.
#[derive(Clone, Copy, Debug)]
pub struct Within {
    /// Whether they reach the network. This machine's own they never have.
    pub network: bool,
    /// The most bytes of memory.
    pub memory: u64,
}

/// podman's service gives the steps of a recipe this machine's network unless it is told that they have one of their own, in a field that
/// Docker does not know, and the library neither: `nsoptions=[{"Name":"network","Host":false}]`.
const APART: &str = "nsoptions=%5B%7B%22Name%22%3A%22network%22%2C%22Host%22%3Afalse%7D%5D";

/// What the network of a recipe's steps is called. podman's service knows Docker's names for it as little as it says so.
fn network_of_steps(kind: EngineKind, network: bool) -> &'static str {
    match (kind, network) {
        (EngineKind::Docker, true) => "bridge",
        (EngineKind::Docker, false) => "none",
        (EngineKind::Podman, true) => "NetworkEnabled",
        (EngineKind::Podman, false) => "NetworkDisabled",
    }
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
        let mut options = CreateImageOptionsBuilder::default().from_image(name);
        if !names_one(name) {
            // Docker would fetch all that the registry has of this name.
            options = options.tag("latest");
        }
        let mut steps = self.docker.create_image(Some(options.build()), None, None);
        while let Some(step) = steps.next().await {
            let step = step.map_err(|error| none(EngineError::from(error).to_string()))?;
            if let Some(problem) = step.error_detail.as_ref().and_then(|detail| detail.message.as_deref()) {
                return Err(none(short(problem)));
            }
            if let Some(said) = how_far(&step) {
                tell(short(&said));
            }
        }
        self.image(name).await?.ok_or_else(|| none("it is not there after it was fetched".to_owned()))
    }

    /// Builds an image of a packed folder, with labels by which it is found again. `tell` hears what the builder says.
    pub async fn build(
        &self,
        tag: &str,
        recipe: &str,
        folder: Vec<u8>,
        labels: &HashMap<&str, String>,
        within: &Within,
        tell: impl Fn(String),
    ) -> Result<Image, EngineError> {
        let memory = i32::try_from(within.memory).unwrap_or(i32::MAX);
        let options = BuildImageOptionsBuilder::default()
            .dockerfile(recipe)
            .t(tag)
            .labels(labels)
            .rm(true)
            .forcerm(true)
            .networkmode(network_of_steps(self.kind(), within.network))
            .memory(memory)
            .memswap(memory)
            .build();
        let body = bollard::body_full(folder.into());
        let builder = match self.kind() {
            EngineKind::Docker => self.docker.clone(),
            EngineKind::Podman => self.docker.clone().with_request_modifier(|mut request| {
                // An address that cannot be written leads nowhere: the steps must not begin with this machine's network.
                *request.uri_mut() = format!("{}&{APART}", request.uri()).parse().unwrap_or_default();
                request
            }),
        };
        let mut steps = builder.build_image(options, None, Some(body));
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

    /// The images that were built with all of these labels.
    pub async fn images_with(&self, labels: &HashMap<&str, String>) -> Result<Vec<Built>, EngineError> {
        let labelled = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let filters = HashMap::from([("label", labelled)]);
        let options = ListImagesOptionsBuilder::default().filters(&filters).build();
        let listed = self.docker.list_images(Some(options)).await?;
        Ok(listed.into_iter().map(|one| Built { id: one.id, names: one.repo_tags }).collect())
    }

    /// Removes an image. One that something is made of stays, which is an error.
    pub async fn remove_image(&self, id: &str) -> Result<(), EngineError> {
        self.docker.remove_image(id, None::<RemoveImageOptions>, None).await?;
        Ok(())
    }
}

/// Whether a name says which of all images of that name is meant.
fn names_one(name: &str) -> bool {
    name.contains('@') || name.rsplit('/').next().is_some_and(|last| last.contains(':'))
}

/// What a step of fetching says: of which part of the image, what happens to it, and how much of it is there.
fn how_far(step: &CreateImageInfo) -> Option<String> {
    let status = step.status.as_deref().filter(|status| !status.trim().is_empty())?;
    let part = step.id.as_deref().map(|id| format!("{id}: ")).unwrap_or_default();
    let bytes = step.progress_detail.as_ref().and_then(|detail| {
        let total = detail.total.filter(|total| *total > 0)?;
        Some(format!(" {} of {} kB", detail.current.unwrap_or(0) / 1000, total / 1000))
    });
    Some(format!("{part}{status}{}", bytes.unwrap_or_default()))
}

fn known(found: ImageInspect) -> Option<Image> {
    let config = found.config.unwrap_or_default();
    let volumes = config.volumes.unwrap_or_default();
    Some(Image { id: found.id?, volumes, labels: config.labels.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_image() {
        for one in ["a:1", "registry.example:5000/a/b:1", "a@sha256:0a", "localhost/a:latest"] {
            assert!(names_one(one), "{one}");
        }
        for many in ["a", "registry.example:5000/a/b", "library/a"] {
            assert!(!names_one(many), "{many}");
        }
    }

    #[test]
    fn a_step_says_of_what_and_how_much() {
        let step = |text: &str| how_far(&serde_json::from_str(text).unwrap());
        assert_eq!(step(r#"{"status": "Pulling fs layer", "id": "0a1b"}"#).as_deref(), Some("0a1b: Pulling fs layer"));
        let loading = r#"{"status": "Downloading", "id": "0a1b", "progressDetail": {"current": 2500, "total": 10000}}"#;
        assert_eq!(step(loading).as_deref(), Some("0a1b: Downloading 2 of 10 kB"));
        assert_eq!(step(r#"{"status": "Done", "progressDetail": {}}"#).as_deref(), Some("Done"));
        assert_eq!(step("{}"), None);
    }
}
