//! All rows of one database to another, whatever kind each is: as they are, all of them or none, and then compared.
//!
//! It is the owner's work. Whatever is only read is read as it was at one moment, organisation by organisation, and nobody waits for that. For the
//! database that is filled row-level security is let go of inside a transaction that ends with it in force again, or is rolled back; nobody serves it
//! meanwhile.

mod side;
mod value;

use std::collections::HashSet;

use kitbag_model::{ChatId, ContentHash, OrgId, ToolsetId};

use crate::error::OpenError;
use crate::store::Location;
use side::{Side, Table};
use value::Digest;

/// What every database has from the first.
const OF_THE_FIRST_HOUR: [&str; 2] = ["organization_settings", "organizations"];

/// Why rows could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The role may not do it.
    #[error("{0}. Give the URL of the role that owns the tables")]
    Refused(String),
    /// Somebody would write what does not go along, or into what is being filled.
    #[error("servers are alive on the database that rows are to be moved {0}: {nodes}. Stop them first, or wait a lease long for those that were killed", nodes = .1.join(", "))]
    Alive(&'static str, Vec<String>),
    /// The other one is in use.
    #[error("the database that rows are to be moved to has rows already: {0} in {1}. Give an empty one")]
    Taken(u64, String),
    /// A row that cannot be.
    #[error("{table}.{column} has a value that it cannot have")]
    Value {
        /// Where.
        table: String,
        /// In which column.
        column: String,
    },
    /// What was written is not what was read.
    #[error("after the move {0} is not the same in both databases; nothing was kept")]
    Differs(String),
    /// The database said no.
    #[error("the database does not do it: {0}")]
    Database(#[from] sqlx::Error),
}

/// What the rows of a database name that is kept elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// Chats, and the generation that the blobs of each are written into.
    pub chats: Vec<(OrgId, ChatId, u64)>,
    /// Toolsets that have files, and the generation of these.
    pub toolsets: Vec<(OrgId, ToolsetId, String)>,
    /// The bundles of what is published.
    pub bundles: Vec<ContentHash>,
}

/// How many rows a table has, and what they add up to in whatever order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Summary {
    /// The table.
    pub table: String,
    /// How many rows.
    pub rows: u64,
    digest: Digest,
}

impl Inventory {
    /// Whether bytes that it names may be gone by the time of a later one: a chat was deleted or its blobs collected, or a toolset was replaced.
    pub fn lost_by(&self, later: &Inventory) -> bool {
        let chats: HashSet<_> = later.chats.iter().collect();
        let toolsets: HashSet<_> = later.toolsets.iter().collect();
        let bundles: HashSet<_> = later.bundles.iter().collect();
        self.chats.iter().any(|chat| !chats.contains(chat))
            || self.toolsets.iter().any(|toolset| !toolsets.contains(toolset))
            || self.bundles.iter().any(|bundle| !bundles.contains(bundle))
    }
}

/// A database, seen whole, as it was at one moment. Unless [`Transfer::fill`] ends, nothing that was done to it remains.
pub struct Transfer {
    side: Side,
    tables: Vec<Table>,
}

impl Transfer {
    /// Opens a database whose schema is this program's.
    pub async fn open(location: &Location) -> Result<Self, TransferError> {
        let mut side = Side::open(location).await?;
        let tables = side.tables().await?;
        Ok(Self { side, tables })
    }

    /// Opens one that nobody may serve until this is dropped: what is written there now would be left behind.
    pub async fn open_alone(location: &Location) -> Result<Self, TransferError> {
        if let Location::Sqlite(_) = location {
            return Self::open(location).await;
        }
        // A look first: to lock them out would keep nodes that live from saying so.
        let keeps = |alive: Vec<String>| match alive.is_empty() {
            true => Ok(()),
            false => Err(TransferError::Alive("from", alive)),
        };
        keeps(Side::open(location).await?.alive().await?)?;
        let mut side = Side::open_locked(location).await?;
        keeps(side.alive().await?)?;
        let tables = side.tables().await?;
        Ok(Self { side, tables })
    }

    /// What the rows name that is kept elsewhere.
    pub async fn inventory(&mut self) -> Result<Inventory, TransferError> {
        self.side.inventory().await
    }

    /// Every table.
    pub async fn summary(&mut self) -> Result<Vec<Summary>, TransferError> {
        let mut all = Vec::new();
        for table in &self.tables {
            let (mut rows, mut digest) = (0, Digest::default());
            self.side
                .each(table, &mut |row| {
                    rows += 1;
                    digest.add(&row);
                })
                .await?;
            all.push(Summary { table: table.name.clone(), rows, digest });
        }
        Ok(all)
    }

    /// Refuses if there is anything that is not in every new database.
    pub async fn check_empty(&mut self) -> Result<(), TransferError> {
        for one in self.summary().await? {
            // Who serves it, or did, is told by `check_free`.
            if one.table == "nodes" {
                continue;
            }
            let most = u64::from(OF_THE_FIRST_HOUR.contains(&one.table.as_str()));
            if one.rows > most {
                return Err(TransferError::Taken(one.rows, one.table));
            }
        }
        Ok(())
    }

    /// Puts all rows of another database in place of those that are here. What came of it is the same, table by table, or nothing is kept.
    pub async fn fill(self, source: &mut Transfer) -> Result<Vec<Summary>, TransferError> {
        let wanted = source.summary().await?;
        let mut filled = Self { side: self.side.loosened().await?, tables: self.tables };
        filled.check_free().await?;
        filled.check_empty().await?;
        filled.fill_loose(source, &wanted).await
    }

    /// Lets go of it.
    pub async fn close(self) -> Result<(), TransferError> {
        self.side.close().await
    }

    /// Who serves it, as far as a database knows: on SQLite that is whoever holds the data folder.
    pub async fn alive(&mut self) -> Result<Vec<String>, TransferError> {
        self.side.alive().await
    }

    /// Refuses if somebody serves it.
    pub async fn check_free(&mut self) -> Result<(), TransferError> {
        match self.alive().await? {
            alive if alive.is_empty() => Ok(()),
            alive => Err(TransferError::Alive("to", alive)),
        }
    }

    async fn fill_loose(mut self, source: &mut Transfer, wanted: &[Summary]) -> Result<Vec<Summary>, TransferError> {
        self.side.begin_filling(&self.tables).await?;
        for table in &self.tables {
            let from = source.tables.iter().find(|other| other.name == table.name);
            let from = from.ok_or_else(|| TransferError::Differs(table.name.clone()))?;
            source.side.pour(from, &mut self.side, table).await?;
        }
        let came = self.summary().await?;
        if let Some(other) = wanted.iter().zip(&came).find(|(wanted, came)| wanted != came) {
            return Err(TransferError::Differs(other.0.table.clone()));
        }
        self.side.end_filling().await?;
        Ok(came)
    }
}
