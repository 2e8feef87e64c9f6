//! What organisations publish for everybody. Reading it has a door of its own: a transaction of nobody, which sees what is published
//! and nothing else. Changing it is done in a transaction of the organisation that publishes, together with the toolset's own row.

use kitbag_model::{
    ContentHash, GalleryCard, GalleryEntry, PublicSlug, Publication, Timestamp, ToolsetId, UserId, Visibility,
};

use crate::error::StoreError;
use crate::page::Page;
use crate::row::{At, row};
use crate::store::{Store, uncancelled};
use crate::tx::{Inner, WriteTx, execute, on};

/// Why a toolset was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The name belongs to another organisation, or to another toolset of this one.
    #[error("the name is taken")]
    Taken,
    /// There is no such toolset, or it is published already.
    #[error("there is no such toolset that is not published")]
    NotThere,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for PublishError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// A transaction of nobody, which reads what is published.
pub struct GalleryTx {
    inner: Inner,
}

impl Store {
    /// A transaction that reads what is published, by whomever.
    pub async fn gallery(&self) -> Result<GalleryTx, StoreError> {
        let (database, _) = self.parts();
        // No organisation is bound: on PostgreSQL the public policy alone shows rows.
        uncancelled(async move { Ok(GalleryTx { inner: database.begin_read().await? }) }).await
    }
}

row!(CardRow {
    slug: String,
    name: String,
    description: Option<String>,
    version: String,
    published_at: At,
    tool_count: i64,
    server_count: i64,
    skill_count: i64,
});

row!(WordsRow {
    slug: String,
    name: String,
    description: Option<String>,
    version: String,
    published_at: At,
    tool_count: i64,
    server_count: i64,
    skill_count: i64,
    words: String,
});

row!(EntryRow {
    slug: String,
    name: String,
    description: Option<String>,
    version: String,
    published_at: At,
    tool_count: i64,
    server_count: i64,
    skill_count: i64,
    toolset_id: String,
    summary: String,
    bundle_sha256: String,
});

fn corrupt(column: &'static str) -> StoreError {
    StoreError::Corrupt { column }
}

impl TryFrom<CardRow> for GalleryCard {
    type Error = StoreError;

    fn try_from(row: CardRow) -> Result<Self, StoreError> {
        let count = |count: i64| u64::try_from(count).map_err(|_| corrupt("gallery_toolsets.tool_count"));
        Ok(Self {
            slug: row.slug.parse().map_err(|_| corrupt("gallery_toolsets.slug"))?,
            name: row.name,
            description: row.description,
            version: row.version,
            published_at: row.published_at.0,
            tool_count: count(row.tool_count)?,
            server_count: count(row.server_count)?,
            skill_count: count(row.skill_count)?,
        })
    }
}

impl TryFrom<WordsRow> for (GalleryCard, String) {
    type Error = StoreError;

    fn try_from(row: WordsRow) -> Result<Self, StoreError> {
        let WordsRow { slug, name, description, version, published_at, tool_count, server_count, skill_count, words } =
            row;
        let card = CardRow { slug, name, description, version, published_at, tool_count, server_count, skill_count };
        Ok((card.try_into()?, words))
    }
}

impl TryFrom<EntryRow> for GalleryEntry {
    type Error = StoreError;

    fn try_from(row: EntryRow) -> Result<Self, StoreError> {
        let EntryRow { slug, name, description, version, published_at, tool_count, server_count, skill_count, .. } =
            row;
        let card = CardRow { slug, name, description, version, published_at, tool_count, server_count, skill_count };
        Ok(Self {
            card: card.try_into()?,
            toolset: row.toolset_id.parse().map_err(|_| corrupt("gallery_toolsets.toolset_id"))?,
            summary: serde_json::from_str(&row.summary).map_err(|_| corrupt("gallery_toolsets.summary"))?,
            bundle: row.bundle_sha256.parse().map_err(|_| corrupt("gallery_toolsets.bundle_sha256"))?,
        })
    }
}

impl GalleryTx {
    /// What is published, newest first, behind the one that was published then and so called.
    pub async fn cards(
        &mut self,
        behind: Option<(Timestamp, &PublicSlug)>,
        limit: u32,
    ) -> Result<Page<GalleryCard>, StoreError> {
        let most = i64::from(limit) + 1;
        let rows: Vec<CardRow> = match behind {
            // Two statements, so that each can be answered by reading so many entries of the index and no more.
            None => on!(self, c => sqlx::query_as(
                "SELECT slug, name, description, version, published_at, tool_count, server_count, skill_count
                 FROM gallery_toolsets WHERE published_at IS NOT NULL
                 ORDER BY published_at DESC, slug DESC LIMIT $1")
                .bind(most).fetch_all(c))?,
            Some((at, slug)) => on!(self, c => sqlx::query_as(
                "SELECT slug, name, description, version, published_at, tool_count, server_count, skill_count
                 FROM gallery_toolsets WHERE published_at IS NOT NULL AND (published_at, slug) < ($1, $2)
                 ORDER BY published_at DESC, slug DESC LIMIT $3")
                .bind(At(at)).bind(slug.as_str()).bind(most).fetch_all(c))?,
        };
        Page::from_rows(rows, limit)
    }

    /// What is published, by name and time, newest first: enough to know whether anything is other than before.
    pub async fn published(&mut self) -> Result<Vec<(PublicSlug, Timestamp)>, StoreError> {
        let rows: Vec<(String, At)> = on!(self, c => sqlx::query_as(
            "SELECT slug, published_at FROM gallery_toolsets WHERE published_at IS NOT NULL
             ORDER BY published_at DESC, slug DESC").fetch_all(c))?;
        let read = |(slug, at): (String, At)| Ok((slug.parse().map_err(|_| corrupt("gallery_toolsets.slug"))?, at.0));
        rows.into_iter().map(read).collect()
    }

    /// All that is published with the names of its tools and skills, in the same order.
    pub async fn with_words(&mut self) -> Result<Vec<(GalleryCard, String)>, StoreError> {
        let rows: Vec<WordsRow> = on!(self, c => sqlx::query_as(
            "SELECT slug, name, description, version, published_at, tool_count, server_count, skill_count, words
             FROM gallery_toolsets WHERE published_at IS NOT NULL ORDER BY published_at DESC, slug DESC").fetch_all(c))?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// One published toolset.
    pub async fn entry(&mut self, slug: &PublicSlug) -> Result<Option<GalleryEntry>, StoreError> {
        let row: Option<EntryRow> = on!(self, c => sqlx::query_as(
            "SELECT slug, name, description, version, published_at, tool_count, server_count, skill_count, toolset_id,
                    summary, bundle_sha256
             FROM gallery_toolsets WHERE slug = $1 AND published_at IS NOT NULL")
            .bind(slug.as_str()).fetch_optional(c))?;
        row.map(GalleryEntry::try_from).transpose()
    }

    /// The bundles that adoptions need.
    pub async fn bundles(&mut self) -> Result<Vec<ContentHash>, StoreError> {
        let found: Vec<String> = on!(self, c => sqlx::query_scalar(
            "SELECT DISTINCT bundle_sha256 FROM gallery_toolsets WHERE published_at IS NOT NULL").fetch_all(c))?;
        found.iter().map(|text| text.parse().map_err(|_| corrupt("gallery_toolsets.bundle_sha256"))).collect()
    }

    /// Whether an adoption of anything needs this bundle.
    pub async fn needs(&mut self, bundle: &ContentHash) -> Result<bool, StoreError> {
        let found: Option<String> = on!(self, c => sqlx::query_scalar(
            "SELECT slug FROM gallery_toolsets WHERE bundle_sha256 = $1 AND published_at IS NOT NULL LIMIT 1")
            .bind(bundle.to_string()).fetch_optional(c))?;
        Ok(found.is_some())
    }
}

impl WriteTx {
    /// Publishes a toolset of this organisation that is not published: its own row and the copy for everybody. After an error the
    /// transaction must not be committed.
    pub async fn publish_toolset(&mut self, new: &Publication, by: Option<UserId>) -> Result<(), PublishError> {
        let now = At(Timestamp::now());
        let marked = execute!(
            self,
            sqlx::query(
                "UPDATE toolsets SET visibility = 'public', public_slug = $3, published_at = $4, updated_by_user_id = $5
                 WHERE organization_id = $1 AND id = $2 AND public_slug IS NULL"
            )
            .bind(self.org.as_str())
            .bind(new.toolset.as_str())
            .bind(new.slug.as_str())
            .bind(now)
            .bind(by.map(|user| user.to_string()))
        )?;
        if marked == 0 {
            return Err(PublishError::NotThere);
        }
        // A name of ours that is free, or one that nobody has. Two that reach for the same one at once wait for each other here.
        self.reserve(&new.slug).await?;
        let (summary, words) = (super::toolsets::to_json(&new.summary), new.summary.words());
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let filled = execute!(
            self,
            sqlx::query(
                "UPDATE gallery_toolsets SET published_at = $3, toolset_id = $4, name = $5, description = $6, version = $7,
                     tool_count = $8, server_count = $9, skill_count = $10, words = $11, summary = $12,
                     bundle_sha256 = $13, bundle_size = $14
                 WHERE slug = $1 AND organization_id = $2 AND published_at IS NULL"
            )
            .bind(new.slug.as_str())
            .bind(self.org.as_str())
            .bind(now)
            .bind(new.toolset.as_str())
            .bind(&new.name)
            .bind(new.description.as_deref())
            .bind(&new.version)
            .bind(count(new.summary.tools.len()))
            .bind(count(new.summary.servers.len()))
            .bind(count(new.summary.skills.len()))
            .bind(words)
            .bind(summary)
            .bind(new.bundle.to_string())
            .bind(i64::try_from(new.bundle_size).unwrap_or(i64::MAX))
        )?;
        if filled == 1 { Ok(()) } else { Err(PublishError::Taken) }
    }

    /// Makes a name this organisation's, unless it is somebody's. What is there is left alone and not looked at: a row of another
    /// organisation that was taken back cannot be seen, and must answer like one that can.
    async fn reserve(&mut self, slug: &PublicSlug) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "INSERT INTO gallery_toolsets (organization_id, slug) VALUES ($1, $2) ON CONFLICT (slug) DO NOTHING"
            )
            .bind(self.org.as_str())
            .bind(slug.as_str())
        )?;
        Ok(())
    }

    /// Takes a toolset back, whether or not it was published; from then on `visibility` says who sees it. None if there is no such
    /// toolset; else the bundle that its adoption needed, if it was published.
    pub async fn unpublish_toolset(
        &mut self,
        id: &ToolsetId,
        visibility: Visibility,
        by: Option<UserId>,
    ) -> Result<Option<Option<ContentHash>>, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolsets SET visibility = $3, public_slug = NULL, published_at = NULL, updated_by_user_id = $4
                 WHERE organization_id = $1 AND id = $2"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(visibility.as_str())
            .bind(by.map(|user| user.to_string()))
        )?;
        if changed == 0 {
            return Ok(None);
        }
        self.take_back(id).await.map(Some)
    }

    /// Leaves of what a toolset is published as the name alone. Its bundle, if it was published.
    pub(crate) async fn take_back(&mut self, id: &ToolsetId) -> Result<Option<ContentHash>, StoreError> {
        let bundle: Option<String> = on!(self, c => sqlx::query_scalar(
            "SELECT bundle_sha256 FROM gallery_toolsets WHERE organization_id = $1 AND toolset_id = $2")
            .bind(self.org.as_str()).bind(id.as_str()).fetch_optional(c))?;
        execute!(
            self,
            sqlx::query(
                "UPDATE gallery_toolsets SET published_at = NULL, toolset_id = NULL, name = NULL, description = NULL,
                     version = NULL, tool_count = NULL, server_count = NULL, skill_count = NULL, words = NULL,
                     summary = NULL, bundle_sha256 = NULL, bundle_size = NULL
                 WHERE organization_id = $1 AND toolset_id = $2"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
        )?;
        bundle.map(|text| text.parse().map_err(|_| corrupt("gallery_toolsets.bundle_sha256"))).transpose()
    }
}
