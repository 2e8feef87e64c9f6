//! A whole installation from one place to another: SQLite and files, PostgreSQL and a bucket, or any two of these. Bytes first, rows last and in
//! one transaction, so that the other place is an installation when all of it is there and not before. What is there already is not
//! sent again, so whoever runs it again after a kill goes on. The source is only read.
//!
//! A move is for an installation that nobody serves. A backup may be of one that is served: it is what the rows said at one moment, and if
//! bytes that these name went meanwhile, what they say at a later one.

use std::fs;
use std::io::Seek;
use std::path::{Path, PathBuf};

use kitbag_cas::CasError;
use kitbag_cas::blobs::{Blobs, SMALL};
use kitbag_cas::workspace::to_be_laid_out;
use kitbag_model::{ChatId, ContentHash, OrgId};
use kitbag_store::migrate::transfer::{Inventory, Summary, Transfer, TransferError};
use kitbag_store::{Location, OpenError, Store};

use crate::app::BlobSettings;
use crate::copies::{Misplaced, check_bytes, settle_bytes};
use crate::gallery::{self, GalleryError};
use crate::storage::Storage;
use crate::toolsets::{Shelf, ShelfError};

/// So many blobs, or bytes of them, are sent before they are made to last.
const BATCH: (usize, u64) = (1000, 64 << 20);

/// Where an installation is, or is to be.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its rows. On PostgreSQL with the owner's URL.
    pub database: Location,
    /// Its data folder; with a bucket, a folder for copies.
    pub data: PathBuf,
    /// Its bucket, if it has one.
    pub blobs: BlobSettings,
    /// The folder that has the master key's file, if it is in one.
    pub key: PathBuf,
}

/// Whether somebody may serve the source meanwhile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// Nobody: what they write would be left behind.
    Resting,
    /// It may be served, as long as its rows are PostgreSQL's and its bytes a bucket's, or it is held.
    Served,
}

/// So often a backup begins anew with the rows of a later moment.
const MOMENTS: usize = 8;

/// What there was to move.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// Tables, and rows in them.
    pub tables: usize,
    /// Rows.
    pub rows: u64,
    /// Chats.
    pub chats: usize,
    /// Blobs of chats.
    pub blobs: u64,
    /// Of these, how many were not there yet.
    pub sent: u64,
    /// Toolsets with files.
    pub toolsets: usize,
    /// Bundles of the gallery.
    pub bundles: usize,
    /// Who serves the source.
    pub served_by: Vec<String>,
}

/// Why an installation could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// About rows.
    #[error(transparent)]
    Rows(#[from] TransferError),
    /// The other database cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// About a chat's blobs.
    #[error("the chat {chat} of {org}: {source}")]
    Chat {
        /// Whose.
        org: OrgId,
        /// Which.
        chat: ChatId,
        /// What.
        source: CasError,
    },
    /// About files of toolsets or bundles.
    #[error("{0}")]
    Files(String),
    /// A folder is not for what is to be read or written there.
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
    /// Something came out other than it went in.
    #[error("{0} is not the same in both places; run it again, and the source is as it was")]
    Differs(String),
    /// It never held still for long enough.
    #[error(
        "chats were deleted or collected each time while their bytes were copied. Run it again when it is quieter: what was copied is not copied again"
    )]
    Restless,
    /// The disk said no.
    #[error("{}: {source}", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// What.
        source: std::io::Error,
    },
}

impl From<ShelfError> for MoveError {
    fn from(error: ShelfError) -> Self {
        Self::Files(error.to_string())
    }
}

impl From<GalleryError> for MoveError {
    fn from(error: GalleryError) -> Self {
        Self::Files(error.to_string())
    }
}

/// Counts what would be moved, and looks whether it could be.
pub async fn look(from: &Place, to: &Place) -> Result<Moved, MoveError> {
    check_bytes(&from.data, from.blobs.bucket.is_some())?;
    check_bytes(&to.data, to.blobs.bucket.is_some())?;
    let mut source = Transfer::open(&from.database).await?;
    let rows = source.summary().await?;
    let inventory = source.inventory().await?;
    if is_there(&to.database) {
        target(&to.database, &rows).await?;
    }
    let from = Storage::at(from.data.clone(), &from.blobs);
    let mut moved = counted(&rows, &inventory);
    moved.served_by = source.alive().await?;
    drop(source);
    let counting = move || {
        let mut blobs = 0;
        for (org, chat, generation) in &inventory.chats {
            blobs += listed(&from, org, *chat, *generation)?.map_or(0, |(_, hashes)| hashes.len() as u64);
        }
        Ok::<_, MoveError>(blobs)
    };
    moved.blobs = blocking(counting).await?;
    Ok(moved)
}

/// Moves everything, and then compares it.
pub async fn run(from: &Place, to: &Place, source: Source) -> Result<Moved, MoveError> {
    check_bytes(&from.data, from.blobs.bucket.is_some())?;
    settle_bytes(&to.data, to.blobs.bucket.is_some())?;
    if let Location::Sqlite(_) = &to.database {
        // Makes it, with the schema of this program.
        Store::open(&to.database).await?.close().await;
    }
    // A file of SQLite is held by whoever reads it whole.
    let is_served = source == Source::Served && matches!(from.database, Location::Postgres(_));
    let mut source = match is_served {
        true => Transfer::open(&from.database).await?,
        false => Transfer::open_alone(&from.database).await?,
    };
    // Before anything is sent.
    if let Some(empty) = target(&to.database, &source.summary().await?).await? {
        empty.close().await?;
    }
    let copied =
        if is_served { at_a_moment(from, to, &mut source).await? } else { resting(from, to, &mut source).await? };
    let rows = source.summary().await?;
    let mut moved = counted(&rows, &copied.inventory);
    (moved.blobs, moved.sent) = (copied.blobs, copied.sent);
    if let Some(empty) = target(&to.database, &rows).await? {
        empty.fill(&mut source).await?;
    }
    drop(source);
    // Read back with nothing remembered and no copies.
    let scratch = Scratch::below(&to.data)?;
    let fresh = if to.blobs.bucket.is_some() { scratch.0.clone() } else { to.data.clone() };
    let (old, new) = (Storage::at(from.data.clone(), &from.blobs), Storage::at(fresh, &to.blobs));
    // What came to a served source since is not in the copy, so that is read for itself.
    blocking(move || same(if is_served { &new } else { &old }, &new, &copied.inventory)).await?;
    key(&from.key, &to.key)?;
    Ok(moved)
}

/// Bytes that were copied, and what named them.
struct Copied {
    inventory: Inventory,
    blobs: u64,
    sent: u64,
}

async fn resting(from: &Place, to: &Place, source: &mut Transfer) -> Result<Copied, MoveError> {
    let inventory = source.inventory().await?;
    let (old, new) = (Storage::at(from.data.clone(), &from.blobs), Storage::at(to.data.clone(), &to.blobs));
    blocking(move || {
        let (blobs, sent) = bytes(&old, &new, &inventory)?;
        Ok(Copied { inventory, blobs, sent })
    })
    .await
}

/// Copies what the rows of one moment name while others write. Bytes are there before rows name them, so what matters is only what went
/// since: then the rows of a later moment count, for which little has to be copied that is not there.
async fn at_a_moment(from: &Place, to: &Place, source: &mut Transfer) -> Result<Copied, MoveError> {
    let (mut sent, mut last) = (0, None);
    for _ in 0..MOMENTS {
        let inventory = source.inventory().await?;
        let copied = resting(from, to, source).await;
        let mut later = Transfer::open(&from.database).await?;
        let is_lost = inventory.lost_by(&later.inventory().await?);
        match copied {
            Ok(copied) if !is_lost => return Ok(Copied { sent: sent + copied.sent, ..copied }),
            Ok(copied) => sent += copied.sent,
            // What a collection removes that began before is named by no row, and listed all the same.
            Err(error) => last = Some(error).filter(|_| !is_lost),
        }
        *source = later;
    }
    Err(last.unwrap_or(MoveError::Restless))
}

/// A folder that goes when it is not needed any more.
struct Scratch(PathBuf);

impl Scratch {
    fn below(folder: &Path) -> Result<Self, MoveError> {
        let path = folder.join(format!("moving-{}", uuid::Uuid::now_v7()));
        fs::create_dir_all(&path).map_err(|source| MoveError::Disk { path: path.clone(), source })?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_there(database: &Location) -> bool {
    match database {
        Location::Sqlite(path) => path.exists(),
        Location::Postgres(_) => true,
    }
}

fn counted(rows: &[Summary], inventory: &Inventory) -> Moved {
    Moved {
        tables: rows.len(),
        rows: rows.iter().map(|table| table.rows).sum(),
        chats: inventory.chats.len(),
        toolsets: inventory.toolsets.len(),
        bundles: inventory.bundles.len(),
        ..Moved::default()
    }
}

/// The database that rows go to; none if they are all there already.
async fn target(database: &Location, rows: &[Summary]) -> Result<Option<Transfer>, MoveError> {
    let mut target = Transfer::open(database).await?;
    if target.summary().await? == rows {
        return Ok(None);
    }
    target.check_empty().await?;
    target.check_free().await?;
    Ok(Some(target))
}

type Listed = Option<(std::sync::Arc<dyn Blobs>, Vec<ContentHash>)>;

/// The blobs that a place has of a chat; none if it never had any.
fn listed(place: &Storage, org: &OrgId, chat: ChatId, generation: u64) -> Result<Listed, MoveError> {
    let home = place.home(org, chat);
    // To open them would make the folder.
    if !place.is_shared() && !home.is_dir() {
        return Ok(None);
    }
    let of_chat = |source| MoveError::Chat { org: org.clone(), chat, source };
    let blobs = place.blobs(org, chat, &home, generation).map_err(of_chat)?;
    let hashes = blobs.list().map_err(of_chat)?;
    Ok(Some((blobs, hashes)))
}

/// Copies all bytes. How many blobs there are, and how many of them were not there.
fn bytes(from: &Storage, to: &Storage, inventory: &Inventory) -> Result<(u64, u64), MoveError> {
    let (mut blobs, mut sent) = (0, 0);
    for (org, chat, generation) in &inventory.chats {
        let Some((source, hashes)) = listed(from, org, *chat, *generation)? else { continue };
        blobs += hashes.len() as u64;
        let of_chat = |source| MoveError::Chat { org: org.clone(), chat: *chat, source };
        let target = to.blobs(org, *chat, &to.home(org, *chat), *generation).map_err(of_chat)?;
        sent += copy(&*source, &*target, &hashes).map_err(of_chat)?;
        let home = to.home(org, *chat);
        // An empty folder would be taken for a state whose files somebody deleted.
        if !to.is_shared() && !home.join("workspace").exists() {
            to_be_laid_out(&home).map_err(of_chat)?;
        }
    }
    for (org, id, generation) in &inventory.toolsets {
        Shelf::of(from, org).copy(&Shelf::of(to, org), id, generation)?;
        // Files of a toolset that was replaced meanwhile are gone, and a copy of them may have begun before.
        if !Shelf::of(from, org).has_same(&Shelf::of(to, org), id, generation)? {
            return Err(MoveError::Differs(format!("the toolset {id} of {org}")));
        }
    }
    for bundle in &inventory.bundles {
        gallery::copy(from, to, bundle)?;
    }
    Ok((blobs, sent))
}

fn copy(source: &dyn Blobs, target: &dyn Blobs, hashes: &[ContentHash]) -> Result<u64, CasError> {
    let mut sent = 0;
    let mut missing = Vec::new();
    for hash in hashes {
        if !target.contains(hash)? {
            missing.push(*hash);
        }
    }
    for part in missing.chunks(BATCH.0) {
        source.expect(part)?;
        let (mut writer, mut waiting) = (target.writer()?, 0);
        for hash in part {
            let length = source.open(hash)?.length();
            if length <= SMALL {
                writer.put(hash, &source.read(hash)?)?;
            } else {
                let failed = |source| CasError::Io { path: "a temporary file".into(), source };
                let mut file = tempfile::tempfile().map_err(failed)?;
                source.copy_to(hash, &file)?;
                file.rewind().map_err(failed)?;
                writer.put_file(&file)?;
            }
            (waiting, sent) = (waiting + length, sent + 1);
            if waiting >= BATCH.1 {
                writer.finish()?;
                (writer, waiting) = (target.writer()?, 0);
            }
        }
        writer.finish()?;
    }
    Ok(sent)
}

/// Reads everything back.
fn same(from: &Storage, to: &Storage, inventory: &Inventory) -> Result<(), MoveError> {
    for (org, chat, generation) in &inventory.chats {
        let Some((_, hashes)) = listed(from, org, *chat, *generation)? else { continue };
        let of_chat = |source| MoveError::Chat { org: org.clone(), chat: *chat, source };
        let target = to.blobs(org, *chat, &to.home(org, *chat), *generation).map_err(of_chat)?;
        target.expect(&hashes).map_err(of_chat)?;
        for hash in &hashes {
            target.verify(hash).map_err(of_chat)?;
        }
    }
    for (org, id, generation) in &inventory.toolsets {
        if !Shelf::of(from, org).has_same(&Shelf::of(to, org), id, generation)? {
            return Err(MoveError::Differs(format!("the toolset {id} of {org}")));
        }
    }
    for bundle in &inventory.bundles {
        gallery::copy(to, to, bundle)?;
    }
    Ok(())
}

/// What is sealed opens with the installation's key alone, so that goes along if it is a file.
fn key(from: &Path, to: &Path) -> Result<(), MoveError> {
    use std::os::unix::fs::OpenOptionsExt;
    let (from, to) = (from.join("master.key"), to.join("master.key"));
    if !from.exists() || to.exists() {
        return Ok(());
    }
    let failed = |source| MoveError::Disk { path: to.clone(), source };
    let text = fs::read(&from).map_err(failed)?;
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&to).map_err(failed)?;
    std::io::Write::write_all(&mut file, &text).and_then(|()| file.sync_all()).map_err(failed)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MoveError> + Send + 'static,
) -> Result<T, MoveError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
