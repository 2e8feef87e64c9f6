//! Why something could not be published, found or adopted.

use std::io;
use std::path::PathBuf;

use kitbag_bucket::BucketError;
use kitbag_model::{ContentHash, NotItsId, PublicSlug, ToolsetId};
use kitbag_store::StoreError;

use crate::api::error::{ApiError, Code};
use crate::toolsets::ToolsetError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum GalleryError {
    /// Nothing of that name is published.
    #[error("there is no published toolset {0:?}")]
    NotFound(String),
    /// Somebody else has the name, or had it: the two must look the same.
    #[error("the public slug \"{0}\" is taken; choose another")]
    Taken(PublicSlug),
    /// It has a name already.
    #[error("{id} is published as {slug}; unpublish it before you publish it under another name")]
    Published {
        /// Which toolset.
        id: ToolsetId,
        /// As what.
        slug: PublicSlug,
    },
    /// Something in it looks like a secret. Where, but not what; and what everybody can read cannot be forced.
    #[error("everybody could read what looks like a secret: {}; take it out, or put a placeholder there", .0.join(", "))]
    Secret(Vec<String>),
    /// An id that would change what its overrides mean.
    #[error(transparent)]
    NotItsId(#[from] NotItsId),
    /// The bundle of a published toolset is not what was published.
    #[error("the bundle {0} of a published toolset is missing or was changed on the disk; it must be published again")]
    Damaged(ContentHash),
    /// Something about the folder of bundles failed.
    #[error("{}: {source}", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What.
        source: io::Error,
    },
    /// The bucket that has the bundles does not answer.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    #[error(transparent)]
    Toolset(#[from] ToolsetError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<GalleryError> for ApiError {
    fn from(error: GalleryError) -> Self {
        let message = error.to_string();
        match error {
            GalleryError::NotFound(_) => Self::new(Code::ToolsetNotFound, message),
            GalleryError::Taken(_) => Self::new(Code::PublicSlugConflict, message),
            GalleryError::Published { .. } | GalleryError::Secret(_) => Self::new(Code::Conflict, message),
            GalleryError::NotItsId(_) => Self::invalid("id", message),
            GalleryError::Damaged(_) => {
                tracing::error!(message, "a published toolset is damaged");
                Self::new(Code::BlobCorrupt, message)
            }
            GalleryError::Disk { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Self::new(Code::Unavailable, "the disk is full: nothing was changed")
            }
            GalleryError::Disk { .. } => Self::internal(message),
            GalleryError::Bucket(_) => {
                tracing::warn!(message, "the blob store does not answer");
                Self::new(Code::Unavailable, "the blob store does not answer; nothing was changed. Try again")
            }
            GalleryError::Toolset(error) => error.into(),
            GalleryError::Store(error) => error.into(),
        }
    }
}
