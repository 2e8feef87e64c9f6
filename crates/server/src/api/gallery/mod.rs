//! The gallery: what organisations publish for everybody who is signed in.

pub(crate) mod adopt;
pub(crate) mod get;
pub(crate) mod list;
mod view;

use kitbag_model::PublicSlug;

use super::error::ApiError;
use crate::gallery::GalleryError;

/// A text that is no public name names nothing that is published.
fn slug_of(text: &str) -> Result<PublicSlug, ApiError> {
    text.parse().map_err(|_| GalleryError::NotFound(text.to_owned()).into())
}
