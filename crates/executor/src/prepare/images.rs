//! The images of a run's containers: there, fetched, or built of the toolset's files. One that is not what the toolset's organisation
//! trusted is not used.

use std::collections::HashMap;

use kitbag_container::{BUILDER_LABEL, Engine, Image, Limits, Packed, TOOLSET_LABEL, Within};
use kitbag_model::container::built_tag;
use kitbag_model::run::wire::ContainerSnapshot;
use kitbag_model::{ImageSource, OrgId};

use super::Files;
use super::folder::fetched;
use crate::Failure;

/// What an image's recipe is called, in the order in which it is looked for.
const RECIPES: [&str; 2] = ["Containerfile", "Dockerfile"];

/// So many bytes may be in a folder that an image is built from. It is held in memory.
const LARGEST_FOLDER: u64 = 256 << 20;

/// For whom an image is needed, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// Whose toolset it is.
    pub org: &'a OrgId,
    /// Which.
    pub toolset: &'a str,
    /// This executor, which is told apart from others with the same engine.
    pub executor: &'a str,
}

/// The id of the image that a container is, at this engine. What builds one has no more than `memory` bytes.
///
/// What an organisation may have is the server's to say, and looked at here once more: an executor may serve all of them with one engine.
pub async fn image(
    engine: &Engine,
    whose: Whose<'_>,
    container: &ContainerSnapshot,
    memory: u64,
    contents: &impl Files,
) -> Result<String, Failure> {
    let found = found(engine, whose, container, memory, contents).await?;
    match refusal(whose.org, &found) {
        Some(why) => Err(failed(container, &why)),
        None => Ok(found.id),
    }
}

fn failed(container: &ContainerSnapshot, why: &dyn std::fmt::Display) -> Failure {
    Failure::new("CONTAINER_IMAGE_FAILED", format_args!("{}: {why}", container.id))
}

/// Why an image is not used, whatever it is called.
fn refusal(org: &OrgId, found: &Image) -> Option<String> {
    if *org != OrgId::local() && found.labels.contains_key(BUILDER_LABEL) {
        return Some("images that were built here are their own toolset's".to_owned());
    }
    (!found.volumes.is_empty()).then(|| {
        let volumes = found.volumes.join(", ");
        format!("the image declares volumes ({volumes}), for each of which the engine makes a folder without a limit")
    })
}

async fn found(
    engine: &Engine,
    whose: Whose<'_>,
    container: &ContainerSnapshot,
    memory: u64,
    contents: &impl Files,
) -> Result<Image, Failure> {
    let failed = |why: &dyn std::fmt::Display| failed(container, why);
    let is_local = *whose.org == OrgId::local();
    match &container.source {
        ImageSource::Image(name) if !is_local && name.is_built_here() => {
            Err(failed(&"images that were built here are their own toolset's"))
        }
        ImageSource::Image(name) => {
            if let Some(id) = container.image_id.as_ref().filter(|id| is_image_id(id))
                && let Some(found) = engine.image(id).await.map_err(|error| failed(&error))?
            {
                return Ok(found);
            }
            let found = match engine.image(name.as_str()).await.map_err(|error| failed(&error))? {
                Some(found) => found,
                None => engine.pull(name.as_str(), |_| {}).await.map_err(|error| failed(&error))?,
            };
            match &container.image_id {
                Some(id) if *id != found.id => Err(Failure::new(
                    "QUARANTINED",
                    format_args!(
                        "the image {name} is not the one that was trusted: it was {id} and is {} here",
                        found.id
                    ),
                )),
                _ => Ok(found),
            }
        }
        ImageSource::Build(_) if !is_local => {
            Err(failed(&"images are built for whoever runs the server alone; name an image that is built already"))
        }
        ImageSource::Build(_) => {
            let tag = built_tag(whose.toolset, container.id.as_str(), &container.fingerprint);
            if let Some(found) = engine.image(&tag).await.map_err(|error| failed(&error))? {
                return Ok(found);
            }
            let size = container.files.values().fold(0u64, |sum, file| sum.saturating_add(file.size));
            if size > LARGEST_FOLDER {
                return Err(failed(&"the folder is too large to build an image from"));
            }
            let mut packed = Packed::default();
            for (path, file) in &container.files {
                let content = fetched(contents, path, file).await.map_err(|why| failed(&why))?;
                packed.file(path.as_str(), file.executable, &content).map_err(|error| failed(&error))?;
            }
            let recipe = RECIPES.into_iter().find(|name| container.files.keys().any(|path| path.as_str() == *name));
            let recipe = recipe.ok_or_else(|| failed(&"its folder has no Containerfile"))?;
            let within =
                Within { network: container.network, memory: Limits::within(&container.limits, memory).memory };
            // It stays, for the next run of the same toolset, until another folder takes its place or the executor starts again.
            let labels = HashMap::from([
                (BUILDER_LABEL, whose.executor.to_owned()),
                (TOOLSET_LABEL, format!("{}/{}", whose.toolset, container.id)),
            ]);
            let built = engine.build(&tag, recipe, packed.finish(), &labels, &within, |_| {}).await;
            let built = built.map_err(|error| failed(&error))?;
            forget(engine, &labels, Some(&built.id)).await;
            Ok(built)
        }
    }
}

/// Removes images that were built with these labels, but for one. One that a run still uses stays.
pub async fn forget(engine: &Engine, labels: &HashMap<&str, String>, but: Option<&str>) {
    let images = match engine.images_with(labels).await {
        Ok(images) => images,
        Err(error) => {
            tracing::info!(%error, "images that nobody needs could not be looked for");
            return;
        }
    };
    for image in images.iter().filter(|image| Some(image.id.as_str()) != but) {
        if let Err(error) = engine.remove_image(&image.id).await {
            tracing::info!(%error, image = image.id, "an image that nobody needs stays for now");
        }
    }
}

/// Whether it is the whole hash of an image: anything else would mean something to an engine, too.
fn is_image_id(id: &str) -> bool {
    let digits = id.strip_prefix("sha256:").unwrap_or(id);
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_are_not_used_whatever_they_are_called() {
        let with = |labels: &[(&str, &str)], volumes: &[&str]| Image {
            id: "sha256:0".to_owned(),
            volumes: volumes.iter().map(|one| (*one).to_owned()).collect(),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        let (local, other): (OrgId, OrgId) = (OrgId::local(), "acme".parse().unwrap());
        assert_eq!(refusal(&other, &with(&[], &[])), None);
        assert!(refusal(&local, &with(&[], &["/data"])).unwrap().contains("/data"));
        let built = with(&[(BUILDER_LABEL, "somebody")], &[]);
        assert_eq!(refusal(&local, &built), None);
        assert!(refusal(&other, &built).unwrap().contains("built here"), "what is in it is another organisation's");
    }
}
