//! SQLite: one file, one writer, several readers.
//!
//! A single writing connection makes "database is locked" impossible inside one process: writers queue in the pool,
//! in order, instead of polling for the lock.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, SqlitePool};

use crate::error::OpenError;
use crate::migrate;
use crate::store::PATIENCE;

const READERS: u32 = 4;

/// What one that reads keeps of the file, in kibibytes. The operating system has all of it anyway; without this each would come to
/// have two megabytes of its own.
const READER_CACHE: &str = "-256";

/// How long the log of writes may become, in pages of 4 kB, before what is in it is brought into the file.
const LOG_PAGES: &str = "4000";

/// The connections to one file.
#[derive(Clone)]
pub(crate) struct SqlitePools {
    pub(crate) writer: SqlitePool,
    pub(crate) readers: SqlitePool,
}

/// Opens the file, making it if need be, and brings its schema up to date.
pub(crate) async fn open(path: &Path) -> Result<SqlitePools, OpenError> {
    let failed = |source| OpenError::Sqlite { path: path.to_owned(), source };
    // FULL: what was acknowledged survives a power cut, not only a crash of this process.
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(PATIENCE);
    // SQLite ends a transaction by itself when the disk is full; sqlx then fails to end it and keeps counting it. Such a
    // connection is thrown away, or it would fail every later writer.
    let pool = SqlitePoolOptions::new()
        .acquire_timeout(PATIENCE)
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
    // A statement with many rows notes what it changes, to take it back if one of them is refused. In a file that is most of what is written.
    // And pages that many transactions change in a row are brought from the log into the file once for all of them.
    let writing = options.clone().pragma("temp_store", "memory").pragma("wal_autocheckpoint", LOG_PAGES);
    let writer = pool.clone().max_connections(1).connect_with(writing).await.map_err(failed)?;
    migrate::sqlite(&writer).await?;
    // All at once: later there may be no file descriptor left for one.
    let readers = pool
        .max_connections(READERS)
        .min_connections(READERS)
        .connect_with(options.pragma("query_only", "on").pragma("cache_size", READER_CACHE))
        .await
        .map_err(failed)?;
    Ok(SqlitePools { writer, readers })
}
