//! Adopting a published toolset: a copy with everything in it, which is the organisation's own from then on, and which nobody has
//! trusted yet.

use kitbag_formats::import::Options;
use kitbag_model::{
    AdoptedFrom, Definition, Description, DisplayName, GalleryEntry, OrgId, PublicSlug, SourceType, ToolsetId,
    Visibility,
};

use super::{Import, Parcel, ShownImages, ToolsetError, Toolsets, blocking};
use crate::access::caller::Author;
use crate::gallery::{Gallery, GalleryError};

/// How many ids are tried for one that is taken.
const MOST_TRIED: usize = 1000;

/// How often somebody else may be faster with the id that was found free.
const TRIES: usize = 3;

/// What is to be other about the copy.
pub(crate) struct Adoption {
    /// The id that it must have; else the original's, with a number if that is taken.
    pub(crate) id: Option<ToolsetId>,
    pub(crate) name: Option<DisplayName>,
    /// The inner `None` is no description.
    pub(crate) description: Option<Option<Description>>,
}

impl Toolsets {
    /// Installs a copy of a published toolset. Its id.
    pub(crate) async fn adopt(
        &self,
        org: &OrgId,
        slug: &PublicSlug,
        wanted: &Adoption,
        by: &Author,
        gallery: &Gallery,
    ) -> Result<ToolsetId, GalleryError> {
        let mut tried = 0;
        loop {
            tried += 1;
            // A bundle may have a hundred megabytes: it is read again rather than kept for the rare case.
            let (entry, bytes) = gallery.open(slug).await?;
            let parcel = blocking(move || Parcel::read(bytes, None, &Options::default())).await?;
            let definition = self.changed(org, &parcel.bundle.definition, wanted).await?;
            let parcel = parcel.with_definition(definition);
            match self.import(org, parcel, how(&entry, by)).await {
                Ok(done) => return Ok(done.id),
                Err(ToolsetError::Taken(_) | ToolsetError::Conflict) if wanted.id.is_none() && tried < TRIES => {}
                Err(ToolsetError::Conflict) => match &wanted.id {
                    Some(id) => return Err(ToolsetError::Taken(id.clone()).into()),
                    None => return Err(ToolsetError::Conflict.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The toolset as the copy will be.
    async fn changed(
        &self,
        org: &OrgId,
        published: &Definition,
        wanted: &Adoption,
    ) -> Result<Definition, GalleryError> {
        let mut changed = match &wanted.id {
            Some(id) => published.clone().called(id.clone())?,
            None => self.under_free_id(org, published).await?,
        };
        if let Some(name) = &wanted.name {
            changed.name = name.clone();
        }
        if let Some(description) = &wanted.description {
            changed.description.clone_from(description);
        }
        Ok(changed)
    }

    async fn under_free_id(&self, org: &OrgId, published: &Definition) -> Result<Definition, GalleryError> {
        let mut tx = self.store.read_beside(org).await?;
        for id in ToolsetId::from_name(published.id.as_str(), "toolset-copy").take(MOST_TRIED) {
            if tx.toolset(&id).await?.is_some() {
                continue;
            }
            // One under which it would be another toolset is passed over like one that is taken.
            if let Ok(definition) = published.clone().called(id) {
                return Ok(definition);
            }
        }
        Err(ToolsetError::Taken(published.id.clone()).into())
    }
}

fn how(entry: &GalleryEntry, by: &Author) -> Import {
    Import {
        source_type: SourceType::Zip,
        source_ref: None,
        only: None,
        digest: None,
        dry_run: false,
        trust: false,
        images: ShownImages::new(),
        force: false,
        visibility: Visibility::Org,
        adopted_from: Some(AdoptedFrom {
            toolset_id: entry.toolset.clone(),
            public_slug: entry.card.slug.clone(),
            version: entry.card.version.clone(),
        }),
        by: by.clone(),
    }
}
