//! An open database.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kitbag_model::{OrgId, Secret, ToolCall};
use sqlx::PgPool;
use tracing::Instrument;

use crate::behind::Behind;
use crate::error::{OpenError, StoreError};
use crate::places::{Places, Taken};
use crate::sqlite::SqlitePools;
use crate::system::SystemTx;
use crate::tx::{Edition, Inner, ReadTx, Tx, WriteTx};
use crate::{postgres, sqlite};

/// How long a request waits for the database before it is told to come again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Where the database is.
#[derive(Clone, Debug)]
pub enum Location {
    /// A file.
    Sqlite(PathBuf),
    /// A server. The URL may hold a password.
    Postgres(Secret),
}

/// How the connections to a database are used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Connections {
    /// Open, and nobody's.
    pub idle: u32,
    /// Somebody's.
    pub used: u32,
    /// How many there may be.
    pub most: u32,
}

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Store {
    database: Database,
    edition: Edition,
    behind: Behind,
    /// The connections that organisations share, where there are few.
    shared: Option<Places>,
}

#[derive(Clone)]
pub(crate) enum Database {
    Sqlite(SqlitePools),
    Postgres(PgPool),
}

impl Store {
    /// Opens the database. A SQLite file is made and brought up to date; a PostgreSQL schema is only looked at, since
    /// the role that serves must not be able to change it.
    pub async fn open(location: &Location) -> Result<Self, OpenError> {
        let database = match location {
            Location::Sqlite(path) => Database::Sqlite(sqlite::open(path).await?),
            Location::Postgres(url) => Database::Postgres(postgres::open(url).await?),
        };
        let shared = match &database {
            Database::Sqlite(_) => None,
            Database::Postgres(_) => Some(Places::new(postgres::SHARED)),
        };
        Ok(Self { database, edition: Edition::default(), behind: Behind::default(), shared })
    }

    /// Which database it is, for people and logs.
    pub fn kind(&self) -> &'static str {
        match self.database {
            Database::Sqlite(_) => "sqlite",
            Database::Postgres(_) => "postgres",
        }
    }

    /// How many beginnings and ends of calls wait in memory to be written, mostly for a moment.
    pub fn unrecorded(&self) -> usize {
        self.behind.unwritten()
    }

    /// How its connections are used just now.
    pub fn connections(&self) -> Connections {
        let of = |size: u32, idle: usize, most: u32| {
            let idle = u32::try_from(idle).unwrap_or(u32::MAX).min(size);
            Connections { idle, used: size - idle, most }
        };
        match &self.database {
            Database::Sqlite(pools) => {
                let (readers, writer) = (&pools.readers, &pools.writer);
                let most = readers.options().get_max_connections() + writer.options().get_max_connections();
                of(readers.size() + writer.size(), readers.num_idle() + writer.num_idle(), most)
            }
            Database::Postgres(pool) => of(pool.size(), pool.num_idle(), pool.options().get_max_connections()),
        }
    }

    /// While this is the same number, everything that was read before is still so, except for rows of chats. None where others
    /// may write too, and we would not know. Ask before you read.
    pub fn edition(&self) -> Option<u64> {
        match self.database {
            Database::Sqlite(_) => Some(self.edition.now()),
            Database::Postgres(_) => None,
        }
    }

    /// While this is the same number, chats and the states of their workspaces are what they were, too; only calls and messages
    /// may have come that were recorded behind ([`Store::call_asked`]).
    pub fn chat_edition(&self) -> Option<u64> {
        match self.database {
            Database::Sqlite(_) => Some(self.edition.of_chats()),
            Database::Postgres(_) => None,
        }
    }

    /// For the doors of other rooms.
    pub(crate) fn parts(&self) -> (Database, Edition) {
        (self.database.clone(), self.edition.clone())
    }

    /// Asks the database to show a row and to begin to write.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut tx = self.write(&OrgId::local()).await?;
        tx.organization().await?.map(drop).ok_or(StoreError::Corrupt { column: "organizations.id" })
    }

    /// A transaction that only reads rows of `org`. Calls that wait to be recorded are recorded first.
    pub async fn read(&self, org: &OrgId) -> Result<ReadTx, StoreError> {
        let Self { database, edition, behind, shared } = self.clone();
        let org = org.clone();
        uncancelled(async move {
            behind.settle(&database, &org).await?;
            let place = place(shared, &org).await?;
            Tx::bind(database.begin_read().await?, &org, edition, place).await
        })
        .await
    }

    /// The same for what no call that is recorded behind changes: tokens, toolsets, the states of workspaces, whether a chat is
    /// there. It waits for none.
    pub async fn read_beside(&self, org: &OrgId) -> Result<ReadTx, StoreError> {
        let Self { database, edition, shared, .. } = self.clone();
        let org = org.clone();
        uncancelled(async move {
            let place = place(shared, &org).await?;
            Tx::bind(database.begin_read().await?, &org, edition, place).await
        })
        .await
    }

    /// A transaction that reads and writes rows of `org`. Calls that wait to be recorded are recorded first.
    pub async fn write(&self, org: &OrgId) -> Result<WriteTx, StoreError> {
        let Self { database, edition, behind, shared } = self.clone();
        let org = org.clone();
        uncancelled(async move {
            behind.settle(&database, &org).await?;
            let place = place(shared, &org).await?;
            Tx::bind(database.begin_write().await?, &org, edition, place).await
        })
        .await
    }

    /// Records behind that a call runs, with the message that its `message_id` names from now on: below the one that the chat
    /// stands at. It is written with others, within a tenth of a second and before anybody reads. Whether it was taken: while
    /// those before it cannot be written, it must be recorded with [`Store::write`].
    pub async fn call_asked(&self, org: &OrgId, call: Arc<ToolCall>, node: &Arc<str>) -> bool {
        self.behind.asked(&self.database, org, call, node).await
    }

    /// Records behind how a call ended that [`Store::call_asked`] took.
    pub async fn call_over(&self, org: &OrgId, call: Arc<ToolCall>) {
        self.behind.over(&self.database, org, call).await;
    }

    /// The system door: a transaction of no organisation, which may only learn which organisations there are.
    pub async fn system(&self) -> Result<SystemTx, StoreError> {
        let database = self.database.clone();
        uncancelled(async move { SystemTx::open(database.begin_read().await?).await }).await
    }

    /// Writes what waits, waits for what is running, then closes every connection. SQLite folds its log into the file.
    pub async fn close(&self) {
        self.behind.close(&self.database).await;
        match &self.database {
            Database::Sqlite(pools) => {
                pools.readers.close().await;
                pools.writer.close().await;
            }
            // One that says nothing any more gives no connection back.
            Database::Postgres(pool) => drop(tokio::time::timeout(PATIENCE, pool.close()).await),
        }
    }
}

impl Database {
    pub(crate) async fn begin_read(&self) -> Result<Inner, StoreError> {
        Ok(match self {
            Self::Sqlite(pools) => Inner::Sqlite(pools.readers.begin().await?),
            Self::Postgres(pool) => {
                Inner::Postgres(pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?)
            }
        })
    }

    pub(crate) async fn begin_write(&self) -> Result<Inner, StoreError> {
        Ok(match self {
            Self::Sqlite(pools) => Inner::Sqlite(pools.writer.begin_with("BEGIN IMMEDIATE").await?),
            Self::Postgres(pool) => Inner::Postgres(pool.begin().await?),
        })
    }
}

/// Waits for an organisation's turn at a connection, as long as one would wait for the connection itself.
async fn place(shared: Option<Places>, org: &OrgId) -> Result<Option<Taken>, StoreError> {
    let Some(shared) = shared else { return Ok(None) };
    match tokio::time::timeout(PATIENCE, shared.take(org)).await {
        Ok(place) => Ok(Some(place)),
        Err(_) => {
            let why = "timed out while waiting for a place among the connections that organisations share";
            Err(StoreError::Unavailable(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, why))))
        }
    }
}

/// Does `work` to its end even if the caller goes away in the middle. sqlx rolls back a transaction that is dropped, but
/// not one that is dropped while `BEGIN` is under way: that one would go back into the pool open, with its mode.
///
/// It is not an `async fn` on purpose: the work goes to its task at once, so who waits holds the handle of the task and not, in
/// two copies, the work itself, which has many kilobytes. Every future that reads something would have them inside.
pub(crate) fn uncancelled<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> impl Future<Output = Result<T, StoreError>> {
    let task = tokio::spawn(work.in_current_span());
    async move {
        match task.await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(StoreError::Unavailable(sqlx::Error::WorkerCrashed)),
        }
    }
}
