//! Publishing a toolset: a copy for everybody, without anything that is the organisation's own, and never changed once it is there.
//! Taking it back leaves the name, which stays the organisation's.

use kitbag_formats::import::Options;
use kitbag_model::{
    Action, ContentHash, GalleryFile, GalleryServer, GallerySkill, GallerySummary, GalleryTool, Installed, OrgId,
    PublicSlug, Publication, ToolsetId, Visibility, export,
};
use kitbag_store::PublishError;
use serde_json::json;
use tracing::Instrument;

use super::catalogue::of_toolset;
use super::contained;
use super::install::refuse_unshareable;
use super::{Parcel, ToolsetError, Toolsets, blocking};
use crate::access::caller::Author;
use crate::gallery::{Gallery, GalleryError};
use crate::transfer::Inbox;

/// So many files are told of.
const MOST_FILES: usize = 1000;

impl Toolsets {
    /// Publishes a toolset. Under the name that it has already nothing changes. Once begun it is done to its end.
    pub(crate) async fn publish(
        &self,
        org: &OrgId,
        id: &ToolsetId,
        slug: PublicSlug,
        by: Author,
        (inbox, gallery): (&Inbox, &Gallery),
    ) -> Result<(), GalleryError> {
        let (toolsets, org, id) = (self.clone(), org.clone(), id.clone());
        let (inbox, gallery) = (inbox.clone(), gallery.clone());
        let work = async move { toolsets.do_publish(&org, &id, slug, &by, &inbox, &gallery).await };
        tokio::spawn(work.in_current_span()).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn do_publish(
        &self,
        org: &OrgId,
        id: &ToolsetId,
        slug: PublicSlug,
        by: &Author,
        inbox: &Inbox,
        gallery: &Gallery,
    ) -> Result<(), GalleryError> {
        let _turn = self.turn(org, id).await;
        let (installed, files) = self.read_all(org, id).await?;
        match &installed.toolset.public_slug {
            Some(known) if *known == slug => return Ok(()),
            Some(known) => return Err(GalleryError::Published { id: id.clone(), slug: known.clone() }),
            None => {}
        }
        let (definition, suspicious) = export::for_everybody(installed.merged());
        if !suspicious.is_empty() {
            return Err(GalleryError::Secret(suspicious));
        }
        let tools = self.told_tools(org, &installed).await?;
        let bundle = self.write_bundle(org, &installed, definition, files, inbox).await?;
        // What is published is what was read again, with every check that a bundle from outside gets.
        let (parcel, written, bundle) = blocking(move || {
            let parcel = Parcel::open(&bundle, None, &Options::default())?;
            let written = parcel.secrets()?;
            Ok::<_, ToolsetError>((parcel, written, bundle))
        })
        .await?;
        if !written.is_empty() {
            return Err(GalleryError::Secret(written));
        }
        let definition = &parcel.bundle.definition;
        refuse_unshareable(&definition.servers, &definition.containers)?;
        let size = parcel.size();
        let publication = Publication {
            slug,
            toolset: id.clone(),
            name: parcel.bundle.definition.name.to_string(),
            description: parcel.bundle.definition.description.as_ref().map(ToString::to_string),
            version: parcel.bundle.definition.version.to_string(),
            summary: summary(&parcel, tools),
            bundle: parcel.digest,
            bundle_size: size,
        };
        let held = gallery.keep(bundle, parcel.digest).await?;
        let published = self.write_publication(org, by, &installed, &publication).await;
        drop(held);
        if published.is_err() {
            gallery.forget(publication.bundle).await;
        }
        published
    }

    async fn write_publication(
        &self,
        org: &OrgId,
        by: &Author,
        copied: &Installed,
        new: &Publication,
    ) -> Result<(), GalleryError> {
        let mut tx = self.store.write(org).await?;
        tx.publish_toolset(new, by.user).await.map_err(|error| match error {
            PublishError::Taken => GalleryError::Taken(new.slug.clone()),
            PublishError::NotThere => ToolsetError::Conflict.into(),
            PublishError::Store(error) => error.into(),
        })?;
        // The copy was made before this transaction began. If another process changed the toolset since, it is of nothing.
        let now = tx.installed(&new.toolset).await?;
        let same =
            |now: &Installed| now.toolset.generation == copied.toolset.generation && now.merged() == copied.merged();
        if !now.as_ref().is_some_and(same) {
            return Err(ToolsetError::Conflict.into());
        }
        let details = json!({ "publicSlug": new.slug, "version": new.version, "bundleSha256": new.bundle });
        tx.audit(&by.who, Action::ToolsetPublished, new.toolset.as_str(), &details).await?;
        Ok(tx.commit().await?)
    }

    /// Takes a toolset back, after which `visibility` says who sees it. One that is not published stays as it is: nobody who only makes
    /// sure of that shows a private one to the organisation.
    pub(crate) async fn unpublish(
        &self,
        org: &OrgId,
        id: &ToolsetId,
        visibility: Visibility,
        by: &Author,
        gallery: &Gallery,
    ) -> Result<(), GalleryError> {
        let _turn = self.turn(org, id).await;
        let not_found = || ToolsetError::NotFound(id.to_string());
        let mut tx = self.store.write(org).await?;
        let before = tx.toolset(id).await?.ok_or_else(not_found)?;
        if !before.is_published() {
            return Ok(());
        }
        let bundle: Option<ContentHash> = tx.unpublish_toolset(id, visibility, by.user).await?.ok_or_else(not_found)?;
        let details = json!({ "publicSlug": before.public_slug, "visibility": visibility });
        tx.audit(&by.who, Action::ToolsetUnpublished, id.as_str(), &details).await?;
        tx.commit().await?;
        if let Some(bundle) = bundle {
            gallery.forget(bundle).await;
        }
        Ok(())
    }

    /// The tools of Python and of containers with their names and what a model reads about them. The tools of servers are not told: what a server lists may
    /// depend on who asks it.
    async fn told_tools(&self, org: &OrgId, installed: &Installed) -> Result<Vec<GalleryTool>, ToolsetError> {
        let described = self.descriptions(org, std::slice::from_ref(installed)).await?;
        let found = described.get(&installed.toolset.id);
        let told = installed.tools.iter().map(|tool| {
            let effective = of_toolset(installed, tool, found).effective;
            GalleryTool {
                id: tool.id.to_string(),
                name: effective.name.value,
                description: effective.description.value,
            }
        });
        let contained = contained::all_of(installed, None).map(|tool| GalleryTool {
            id: tool.id.override_parts().1.to_owned(),
            name: tool.effective.name.value,
            description: tool.effective.description.value,
        });
        Ok(told.chain(contained).collect())
    }
}

fn summary(parcel: &Parcel, tools: Vec<GalleryTool>) -> GallerySummary {
    let definition = &parcel.bundle.definition;
    let skills = parcel.bundle.skills.iter().map(|skill| GallerySkill {
        id: skill.reference.id.to_string(),
        name: skill.name.clone(),
        description: skill.description.clone(),
    });
    let files = parcel.files.iter().take(MOST_FILES);
    GallerySummary {
        tools,
        servers: definition.servers.iter().map(GalleryServer::from).collect(),
        skills: skills.collect(),
        files: files.map(|file| GalleryFile { path: file.path.to_string(), size: file.size }).collect(),
        file_count: parcel.files.len() as u64,
        permissions: definition.permissions,
    }
}
