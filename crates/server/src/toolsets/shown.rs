//! Which images of containers somebody was shown before they said yes: nobody is to trust what they did not see.

use std::collections::BTreeMap;

use kitbag_model::{Installed, InstalledContainer};

/// The images that were shown, by the ids of containers: `movedTo`, else `imageId`, else none, because nobody knew yet which it is.
pub(crate) type ShownImages = BTreeMap<String, Option<String>>;

/// The container whose image is not the one that was shown any more. Any call may find that a name means another image, between a look and the
/// yes.
pub(crate) fn other_than_shown<'a>(shown: &'a ShownImages, installed: &Installed) -> Option<&'a str> {
    let now =
        |one: &InstalledContainer| one.moved_to.clone().or_else(|| one.pinned.as_ref().map(|pinned| pinned.id.clone()));
    let other = shown.iter().find(|(id, image)| match (installed.container(id), image) {
        (None, _) => true,
        // Nobody knew which image it is, and it was found since: that is the one that was trusted then.
        (Some(one), None) => one.moved_to.is_some(),
        (Some(one), Some(image)) => now(one).as_ref() != Some(image),
    });
    other.map(|(id, _)| id.as_str())
}

/// Whether a yes is one to the image that a container would be from now on.
pub(crate) fn is_for(shown: &ShownImages, one: &InstalledContainer) -> bool {
    one.moved_to.is_none() || shown.get(one.container.id.as_str()) == Some(&one.moved_to)
}
