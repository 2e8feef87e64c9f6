//! The tenant door: a transaction that is bound to one organisation.
//!
//! A [`ReadTx`] cannot write: the functions that do exist only on [`WriteTx`]. On SQLite readers run beside the one
//! writer; on PostgreSQL a read transaction is `READ ONLY`, so the database holds the promise too.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kitbag_model::OrgId;
use sqlx::error::BoxDynError;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Encode, Postgres, Sqlite, Transaction, Type};

use crate::error::StoreError;
use crate::places::Taken;

/// Marks a transaction that only reads.
#[derive(Clone, Copy, Debug)]
pub struct Read;

/// Marks a transaction that may write.
#[derive(Clone, Copy, Debug)]
pub struct Write;

/// A transaction that only reads.
pub type ReadTx = Tx<Read>;

/// A transaction that may write. Dropped without [`Tx::commit`], it leaves no trace.
pub type WriteTx = Tx<Write>;

/// A transaction bound to one organisation.
pub struct Tx<Mode> {
    pub(crate) inner: Inner,
    pub(crate) org: OrgId,
    edition: Edition,
    /// Its organisation's, among the connections.
    _place: Option<Taken>,
    mode: PhantomData<Mode>,
}

/// Counts the transactions that changed what is remembered of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edition {
    all: Arc<AtomicU64>,
    chats: Arc<AtomicU64>,
}

impl Edition {
    pub(crate) fn now(&self) -> u64 {
        self.all.load(Ordering::SeqCst)
    }

    /// Something was written that may be remembered.
    pub(crate) fn advance(&self) {
        self.chats.fetch_add(1, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn of_chats(&self) -> u64 {
        self.chats.load(Ordering::SeqCst)
    }
}

/// A transaction on one of the two databases.
pub(crate) enum Inner {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl<Mode> Tx<Mode> {
    /// Binds a fresh transaction to `org`. The setting lives and dies with the transaction: one that belonged to the
    /// connection would still be there for the next borrower.
    pub(crate) async fn bind(
        mut inner: Inner,
        org: &OrgId,
        edition: Edition,
        place: Option<Taken>,
    ) -> Result<Self, StoreError> {
        if let Inner::Postgres(tx) = &mut inner {
            sqlx::query("SELECT set_config('kitbag.org', $1, true)").bind(org.as_str()).execute(&mut **tx).await?;
        }
        Ok(Self { inner, org: org.clone(), edition, _place: place, mode: PhantomData })
    }

    /// The organisation it is bound to.
    pub fn org(&self) -> &OrgId {
        &self.org
    }
}

impl WriteTx {
    /// Makes everything that was written durable.
    pub async fn commit(self) -> Result<(), StoreError> {
        let edition = self.edition.clone();
        let committed = self.commit_chat().await;
        // Even if it failed: then nobody knows whether it did.
        edition.all.fetch_add(1, Ordering::SeqCst);
        committed
    }

    /// The same where nothing but rows of chats was written (messages, calls, states): what is remembered of everything else
    /// stays true. See [`crate::Store::edition`].
    pub async fn commit_chat(self) -> Result<(), StoreError> {
        let committed = match self.inner {
            Inner::Sqlite(tx) => tx.commit().await,
            Inner::Postgres(tx) => tx.commit().await,
        };
        self.edition.chats.fetch_add(1, Ordering::SeqCst);
        Ok(committed?)
    }
}

/// Fetches on whichever database the transaction is of: `on!(tx, c => sqlx::query_as(…).fetch_one(c))`.
macro_rules! on {
    ($tx:expr, $connection:ident => $statement:expr) => {
        match &mut $tx.inner {
            $crate::tx::Inner::Sqlite(tx) => {
                let $connection = &mut **tx;
                $statement.await
            }
            $crate::tx::Inner::Postgres(tx) => {
                let $connection = &mut **tx;
                $statement.await
            }
        }
    };
}
pub(crate) use on;

/// Executes on whichever database the transaction is of, and says how many rows it touched.
macro_rules! execute {
    ($tx:expr, $statement:expr) => {
        match &mut $tx.inner {
            $crate::tx::Inner::Sqlite(tx) => $statement.execute(&mut **tx).await.map(|done| done.rows_affected()),
            $crate::tx::Inner::Postgres(tx) => $statement.execute(&mut **tx).await.map(|done| done.rows_affected()),
        }
    };
}
pub(crate) use execute;

/// Inserts many rows with few statements, whose texts are too many to be worth keeping: `insert_many!(tx, "INSERT INTO t (a, b) ", rows, |row, one| { row.push_bind(…); })`.
macro_rules! insert_many {
    ($tx:expr, $into:expr, $rows:expr, |$row:ident, $one:ident| $push:block) => {
        for batch in $rows.chunks($crate::tx::BATCH) {
            match &mut $tx.inner {
                $crate::tx::Inner::Sqlite(tx) => {
                    let mut query = sqlx::QueryBuilder::<sqlx::Sqlite>::new($into);
                    query.push_values(batch, |mut $row, $one| $push);
                    query.build().persistent(false).execute(&mut **tx).await?;
                }
                $crate::tx::Inner::Postgres(tx) => {
                    let mut query = sqlx::QueryBuilder::<sqlx::Postgres>::new($into);
                    query.push_values(batch, |mut $row, $one| $push);
                    query.build().persistent(false).execute(&mut **tx).await?;
                }
            }
        }
    };
}
pub(crate) use insert_many;

/// The same for what is inserted all the time: `insert_often!(tx, "t", "a, b", { "c" => …, "d" => … }, rows, |row, one| { row.push_bind(…); })`.
/// On SQLite the rows go into statements of a few sizes, which stay prepared: to read a text with thousands of values takes longer
/// than to insert them. What all rows have in common is bound once, behind the rows' own: every value is copied on its way. On
/// PostgreSQL every statement is a journey, and there are as few as can be.
macro_rules! insert_often {
    ($tx:expr, $table:literal, $own:literal, { $($shared:literal => $value:expr),+ $(,)? }, $rows:expr, |$row:ident, $one:ident| $push:block) => {
        match &mut $tx.inner {
            $crate::tx::Inner::Sqlite(tx) => {
                static TEXTS: std::sync::LazyLock<$crate::tx::Texts> =
                    std::sync::LazyLock::new(|| $crate::tx::texts($table, $own, &[$($shared),+]));
                let mut left = &$rows[..];
                for (size, text) in TEXTS.iter() {
                    while let Some((batch, more)) = left.split_at_checked(*size) {
                        let mut $row = $crate::tx::Bound::default();
                        for $one in batch {
                            $push
                        }
                        $($row.push_bind($value);)+
                        sqlx::query_with(text.as_str(), $row.arguments()?).execute(&mut **tx).await?;
                        left = more;
                    }
                }
            }
            $crate::tx::Inner::Postgres(_) => {
                $crate::tx::insert_many!(
                    $tx,
                    concat!("INSERT INTO ", $table, " (", $own, $(", ", $shared),+, ") "),
                    $rows,
                    |$row, $one| {
                        $push
                        $($row.push_bind($value);)+
                    }
                );
            }
        }
    };
}
pub(crate) use insert_often;

/// So many rows have the statements that stay prepared, the most first.
const SIZES: [usize; 3] = [32, 8, 1];

/// How many rows, and the text of the statement.
pub(crate) type Texts = [(usize, String); SIZES.len()];

/// The statements that insert rows with columns of their own, and with columns that they have in common.
pub(crate) fn texts(table: &str, own: &str, shared: &[&str]) -> Texts {
    let into = format!("INSERT INTO {table} ({own}, {})", shared.join(", "));
    let of_row = own.split(',').count();
    let values = |count| format!("({})", vec!["?"; count].join(", "));
    SIZES.map(|size| {
        if size == 1 {
            return (size, format!("{into} VALUES {}", values(of_row + shared.len())));
        }
        let rows = vec![values(of_row); size].join(", ");
        // These have numbers, which are those of their places behind the others.
        let common: String = (1..=shared.len()).map(|place| format!(", ?{}", size * of_row + place)).collect();
        (size, format!("WITH given AS (VALUES {rows}) {into} SELECT *{common} FROM given"))
    })
}

/// The values of some rows.
#[derive(Default)]
pub(crate) struct Bound {
    values: SqliteArguments,
    failed: Option<BoxDynError>,
}

impl Bound {
    pub(crate) fn push_bind<'t>(&mut self, value: impl Encode<'t, Sqlite> + Type<Sqlite>) -> &mut Self {
        if let Err(error) = Arguments::add(&mut self.values, value) {
            self.failed = Some(error);
        }
        self
    }

    pub(crate) fn arguments(self) -> Result<SqliteArguments, sqlx::Error> {
        self.failed.map_or(Ok(self.values), |error| Err(sqlx::Error::Encode(error)))
    }
}

/// So many rows go into one statement. Both databases limit how many values a statement may have.
pub(crate) const BATCH: usize = 500;
