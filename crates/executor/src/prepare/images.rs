//! The images of a run's containers: there, fetched, or built of the toolset's files. One that is not what the toolset's organisation
//! trusted is not used.

use std::collections::HashMap;

use kitbag_container::{Engine, Limits, Packed, Within};
use kitbag_model::ImageSource;
use kitbag_model::container::built_tag;
use kitbag_model::run::wire::ContainerSnapshot;

use super::Files;
use super::folder::fetched;
use crate::Failure;

/// What an image's recipe is called, in the order in which it is looked for.
const RECIPES: [&str; 2] = ["Containerfile", "Dockerfile"];

/// So many bytes may be in a folder that an image is built from. It is held in memory.
const LARGEST_FOLDER: u64 = 256 << 20;

/// The id of the image that a container is, at this engine. What builds one has no more than `memory` bytes.
pub async fn image(
    engine: &Engine,
    toolset: &str,
    container: &ContainerSnapshot,
    memory: u64,
    contents: &impl Files,
) -> Result<String, Failure> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::new("CONTAINER_IMAGE_FAILED", format_args!("{}: {why}", container.id));
    match &container.source {
        ImageSource::Image(name) => {
            if let Some(id) = container.image_id.as_ref().filter(|id| is_image_id(id))
                && let Some(found) = engine.image(id).await.map_err(|error| failed(&error))?
            {
                return Ok(found.id);
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
                _ => Ok(found.id),
            }
        }
        ImageSource::Build(_) => {
            let tag = built_tag(toolset, container.id.as_str(), &container.fingerprint);
            if let Some(found) = engine.image(&tag).await.map_err(|error| failed(&error))? {
                return Ok(found.id);
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
            // It stays, for the next run of the same toolset.
            let built = engine.build(&tag, recipe, packed.finish(), &HashMap::new(), &within, |_| {}).await;
            Ok(built.map_err(|error| failed(&error))?.id)
        }
    }
}

/// Whether it is the whole hash of an image: anything else would mean something to an engine, too.
fn is_image_id(id: &str) -> bool {
    let digits = id.strip_prefix("sha256:").unwrap_or(id);
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
