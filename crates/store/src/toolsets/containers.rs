//! The containers of toolsets: what bundles say of them, and which images they were found to be.

use kitbag_model::container::{folder_hash, trust_key};
use kitbag_model::{
    ContentHash, ImageSource, Install, Installed, InstalledContainer, PinnedImage, ServerId, Timestamp, ToolsetId,
};

use super::install::to_json;
use super::whole::{ByToolset, Span, by_toolset};
use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, on};

row!(ContainerRow {
    toolset_id: String,
    definition: String,
    built_from_sha256: Option<String>,
    image_id: Option<String>,
    image_says: Option<String>,
    moved_to_image_id: Option<String>,
    created_at: At,
    config_sha256: Option<String>,
});

impl TryFrom<ContainerRow> for InstalledContainer {
    type Error = StoreError;

    fn try_from(row: ContainerRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let hash = |text: Option<String>, column| {
            text.map(|text| text.parse::<ContentHash>()).transpose().map_err(|_| corrupt(column))
        };
        let says = row.image_says.map(|text| serde_json::from_str(&text)).transpose();
        let says = says.map_err(|_| corrupt("toolset_docker_containers.image_says"))?;
        let definition = serde_json::from_str(&row.definition);
        Ok(Self {
            container: definition.map_err(|_| corrupt("toolset_docker_containers.definition"))?,
            created_at: row.created_at.0,
            built_from: hash(row.built_from_sha256, "toolset_docker_containers.built_from_sha256")?,
            trusted: hash(row.config_sha256, "trust_records.config_sha256")?,
            pinned: row.image_id.map(|id| PinnedImage { id, says: says.unwrap_or_default() }),
            moved_to: row.moved_to_image_id,
        })
    }
}

impl<Mode> Tx<Mode> {
    pub(super) async fn containers_of(&mut self, span: Span<'_>) -> Result<ByToolset<InstalledContainer>, StoreError> {
        let rows: Vec<ContainerRow> = on!(self, c => sqlx::query_as(
            "SELECT s.toolset_id, s.definition, s.built_from_sha256, s.image_id, s.image_says, s.moved_to_image_id,
                    s.created_at, t.config_sha256
             FROM toolset_docker_containers s LEFT JOIN trust_records t
                  ON t.organization_id = s.organization_id AND t.toolset_id = s.toolset_id
                     AND t.server_id = 'container:' || s.id
             WHERE s.organization_id = $1 AND s.toolset_id >= $2 AND s.toolset_id <= $3
             ORDER BY s.toolset_id, s.position")
            .bind(self.org.as_str()).bind(span.from).bind(span.to).fetch_all(c))?;
        by_toolset(rows, |row| Ok((row.toolset_id.clone(), row.try_into()?)))
    }
}

impl WriteTx {
    /// Containers keep when they were first declared and, while they are what they were, which image they are.
    pub(super) async fn replace_containers(&mut self, new: &Install) -> Result<(), StoreError> {
        let id = &new.definition.id;
        let known = self.containers_of(Span::one(id)).await?.remove(id.as_str()).unwrap_or_default();
        execute!(
            self,
            sqlx::query("DELETE FROM toolset_docker_containers WHERE organization_id = $1 AND toolset_id = $2")
                .bind(self.org.as_str())
                .bind(id.as_str())
        )?;
        let containers = &new.definition.containers;
        for gone in known.iter().filter(|known| containers.iter().all(|one| one.id != known.container.id)) {
            execute!(
                self,
                sqlx::query(
                    "DELETE FROM trust_records WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3"
                )
                .bind(self.org.as_str())
                .bind(id.as_str())
                .bind(gone.container.trust_key())
            )?;
        }
        for (position, container) in containers.iter().enumerate() {
            let built_from = built_from(new, &container.source);
            let now = container.fingerprint(built_from.as_ref());
            let before = known.iter().find(|known| known.container.id == container.id);
            let same = before.filter(|before| before.fingerprint() == now);
            let pinned = same.and_then(|same| same.pinned.as_ref());
            execute!(
                self,
                sqlx::query(
                    "INSERT INTO toolset_docker_containers (organization_id, toolset_id, id, position, definition,
                         built_from_sha256, image_id, image_says, moved_to_image_id, created_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
                )
                .bind(self.org.as_str())
                .bind(id.as_str())
                .bind(container.id.as_str())
                .bind(position as i64)
                .bind(to_json(container))
                .bind(built_from.map(|hash| hash.to_string()))
                .bind(pinned.map(|pinned| pinned.id.as_str()))
                .bind(pinned.map(|pinned| to_json(&pinned.says)))
                .bind(same.and_then(|same| same.moved_to.as_deref()))
                .bind(At(before.map_or_else(Timestamp::now, |before| before.created_at)))
            )?;
            self.void_trust_in(id, &container.trust_key(), &now).await?;
        }
        Ok(())
    }

    /// A container is this image from now on. Whether there is such a container.
    pub async fn pin_image(
        &mut self,
        toolset: &ToolsetId,
        container: &ServerId,
        image: &PinnedImage,
    ) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_docker_containers SET image_id = $4, image_says = $5, moved_to_image_id = NULL
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(toolset.as_str())
            .bind(container.as_str())
            .bind(image.id.as_str())
            .bind(to_json(&image.says))
        )?;
        Ok(changed > 0)
    }

    /// A container's name means another image than the one that it is. Whether there is such a container.
    pub async fn image_moved(
        &mut self,
        toolset: &ToolsetId,
        container: &ServerId,
        to: Option<&str>,
    ) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_docker_containers SET moved_to_image_id = $4
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(toolset.as_str())
            .bind(container.as_str())
            .bind(to)
        )?;
        Ok(changed > 0)
    }

    /// Remembers that a person trusts all containers of a toolset as they are. One whose name means another image now is that one from now on, if
    /// `is_shown` says that the person saw it; otherwise it stays refused.
    pub async fn trust_containers(
        &mut self,
        installed: &Installed,
        is_shown: impl Fn(&InstalledContainer) -> bool,
    ) -> Result<(), StoreError> {
        let toolset = &installed.toolset.id;
        for one in &installed.containers {
            self.trust(toolset, &trust_key(&one.container.id), &one.fingerprint()).await?;
            if let Some(pinned) = one.trusted_anew().filter(|_| is_shown(one)) {
                self.pin_image(toolset, &one.container.id, &pinned).await?;
            }
        }
        Ok(())
    }
}

/// The hash of the folder that an image is built from.
fn built_from(new: &Install, source: &ImageSource) -> Option<ContentHash> {
    match source {
        ImageSource::Image(_) => None,
        ImageSource::Build(folder) => {
            let files = new.files.iter().map(|file| (&file.path, &file.sha256, file.executable));
            Some(folder_hash(files, folder))
        }
    }
}
