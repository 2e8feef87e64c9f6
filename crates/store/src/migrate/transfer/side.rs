//! One of the two databases, in a transaction.

use futures_util::TryStreamExt;
use kitbag_model::{OrgId, Secret};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Postgres, Row, Sqlite, SqliteConnection};

use super::value::{Kind, Value};
use super::{Inventory, TransferError};
use crate::error::OpenError;
use crate::migrate::{Applied, READ_HISTORY, catalogue, newest, pending};
use crate::postgres;
use crate::row::At;
use crate::store::{Location, PATIENCE};

pub(super) struct Table {
    pub(super) name: String,
    /// By name, so that both databases have them in one order.
    pub(super) columns: Vec<(String, Kind)>,
}

pub(super) enum Side {
    Sqlite(SqliteConnection),
    Postgres(PgConnection, Whole),
}

/// How the owner of PostgreSQL's tables, who is bound by their policies, gets to see all rows.
pub(super) enum Whole {
    /// One organisation after the other, in one snapshot. Nobody waits for that.
    Bound(Vec<OrgId>),
    /// Policies and references are let go of, under locks that nobody passes.
    Loose(Vec<Reference>),
}

/// What a table is read by.
enum Part {
    /// All of it.
    All,
    /// The rows of one organisation, by this column.
    Of(&'static str, OrgId),
}

impl Part {
    fn select(&self, table: &Table) -> String {
        match self {
            Self::All => select(table),
            Self::Of(column, _) => format!("{} WHERE {column} = $1", select(table)),
        }
    }
}

/// A reference between tables, let go of while rows come in whatever order.
pub(super) struct Reference {
    table: String,
    name: String,
    definition: String,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn names(columns: &[(String, Kind)]) -> String {
    columns.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(", ")
}

fn insert(table: &Table) -> String {
    let marks: Vec<String> = (1..=table.columns.len()).map(|number| format!("${number}")).collect();
    format!("INSERT INTO {} ({}) VALUES ({})", quoted(&table.name), names(&table.columns), marks.join(", "))
}

fn select(table: &Table) -> String {
    format!("SELECT {} FROM {}", names(&table.columns), quoted(&table.name))
}

impl Side {
    pub(super) async fn open(location: &Location) -> Result<Self, TransferError> {
        match location {
            Location::Sqlite(path) => {
                let failed = |source| OpenError::Sqlite { path: path.clone(), source };
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full)
                    .foreign_keys(false)
                    .busy_timeout(PATIENCE);
                let mut connection = options.connect().await.map_err(failed)?;
                sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.map_err(failed)?;
                let applied = sqlx::query_as(READ_HISTORY).fetch_all(&mut connection).await.map_err(failed)?;
                check(&applied)?;
                Ok(Self::Sqlite(connection))
            }
            Location::Postgres(url) => {
                let mut connection = connect(url).await?;
                let orgs = see_all(&mut connection).await?;
                Ok(Self::Postgres(connection, Whole::Bound(orgs)))
            }
        }
    }

    /// The same, to be filled: with the policies let go of and everything locked.
    pub(super) async fn loosened(self) -> Result<Self, TransferError> {
        let mut connection = match self {
            Self::Postgres(connection, _) => connection,
            sqlite => return Ok(sqlite),
        };
        // What it looked at holds locks as well, and what it sees must be what is there behind those that come.
        sqlx::query("ROLLBACK").execute(&mut connection).await?;
        sqlx::query("BEGIN ISOLATION LEVEL READ COMMITTED").execute(&mut connection).await?;
        let mut side = Self::Postgres(connection, Whole::Loose(Vec::new()));
        side.bind_owner(false).await?;
        Ok(side)
    }

    /// As it is read, with nobody coming to serve it meanwhile.
    pub(super) async fn open_locked(location: &Location) -> Result<Self, TransferError> {
        let Location::Postgres(url) = location else { return Self::open(location).await };
        let mut connection = connect(url).await?;
        // Before the first look, which says what moment is seen.
        sqlx::query("LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE").execute(&mut connection).await?;
        let orgs = see_all(&mut connection).await?;
        Ok(Self::Postgres(connection, Whole::Bound(orgs)))
    }

    /// The nodes that serve it. On SQLite whoever serves holds the data folder.
    pub(super) async fn alive(&mut self) -> Result<Vec<String>, TransferError> {
        const ALIVE: &str = "SELECT id || coalesce(' at ' || address, '') FROM nodes
            WHERE NOT dead AND expires_at > clock_timestamp() ORDER BY id";
        let Self::Postgres(connection, _) = self else { return Ok(Vec::new()) };
        Ok(sqlx::query_scalar(ALIVE).fetch_all(connection).await?)
    }

    /// Lets go of everything that was not kept.
    pub(super) async fn close(self) -> Result<(), TransferError> {
        match self {
            Self::Sqlite(connection) => connection.close().await?,
            Self::Postgres(connection, _) => connection.close().await?,
        }
        Ok(())
    }

    /// Whether the owner is bound by the policies of its tables. It is, whenever nobody moves rows.
    async fn bind_owner(&mut self, is_bound: bool) -> Result<(), TransferError> {
        let Self::Postgres(connection, _) = self else { return Ok(()) };
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relrowsecurity ORDER BY 1",
        )
        .fetch_all(&mut *connection)
        .await?;
        for table in tables {
            let word = if is_bound { "FORCE" } else { "NO FORCE" };
            let sql = format!("ALTER TABLE {table} {word} ROW LEVEL SECURITY");
            let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await;
            done.map_err(|error| TransferError::Refused(error.to_string()))?;
        }
        Ok(())
    }

    /// What a table has to be read by, so that all of it is seen.
    fn parts(&self, table: &Table) -> Vec<Part> {
        let Self::Postgres(_, Whole::Bound(orgs)) = self else { return vec![Part::All] };
        let has = |column: &str| table.columns.iter().any(|(name, _)| name == column);
        let column = match table.name.as_str() {
            "organizations" => "id",
            _ if has("organization_id") => "organization_id",
            _ => return vec![Part::All],
        };
        orgs.iter().map(|org| Part::Of(column, org.clone())).collect()
    }

    pub(super) async fn tables(&mut self) -> Result<Vec<Table>, TransferError> {
        let columns: Vec<(String, String, String)> = match self {
            Self::Sqlite(connection) => {
                sqlx::query_as(
                    "SELECT m.name, c.name, c.type FROM sqlite_master m JOIN pragma_table_info(m.name) c
                     WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND m.name <> 'schema_migrations'
                     ORDER BY m.name, c.name",
                )
                .fetch_all(connection)
                .await?
            }
            Self::Postgres(connection, _) => {
                sqlx::query_as(
                    "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL) FROM pg_attribute a
                     JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
                      -- Whoever has a table in partitions has its rows in them, and both databases know it by the table's name.
                      AND NOT c.relispartition
                     WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relname <> 'schema_migrations'
                     ORDER BY c.relname::text COLLATE \"C\", a.attname::text COLLATE \"C\"",
                )
                .fetch_all(connection)
                .await?
            }
        };
        let mut tables: Vec<Table> = Vec::new();
        for (table, column, kind) in columns {
            let kind = match kind.as_str() {
                "TEXT" | "text" => Kind::Text,
                "INTEGER" | "bigint" => Kind::Integer,
                "BLOB" | "bytea" => Kind::Bytes,
                "boolean" => Kind::Boolean,
                "timestamp with time zone" => Kind::Time,
                _ => return Err(TransferError::Value { table, column }),
            };
            match tables.last_mut().filter(|last| last.name == table) {
                Some(last) => last.columns.push((column, kind)),
                None => tables.push(Table { name: table, columns: vec![(column, kind)] }),
            }
        }
        Ok(tables)
    }

    pub(super) async fn inventory(&mut self) -> Result<Inventory, TransferError> {
        const CHATS: &str = "SELECT organization_id, id, blob_generation FROM chats";
        const TOOLSETS: &str = "SELECT organization_id, id, generation FROM toolsets WHERE generation IS NOT NULL";
        const BUNDLES: &str = "SELECT DISTINCT bundle_sha256 FROM gallery_toolsets WHERE published_at IS NOT NULL";
        let mut chats: Vec<(String, String, i64)> = Vec::new();
        let mut toolsets: Vec<(String, String, String)> = Vec::new();
        let bundles: Vec<String> = match self {
            Self::Sqlite(c) => {
                chats.extend(sqlx::query_as(CHATS).fetch_all(&mut *c).await?);
                toolsets.extend(sqlx::query_as(TOOLSETS).fetch_all(&mut *c).await?);
                sqlx::query_scalar(BUNDLES).fetch_all(&mut *c).await?
            }
            Self::Postgres(c, Whole::Loose(_)) => {
                chats.extend(sqlx::query_as(CHATS).fetch_all(&mut *c).await?);
                toolsets.extend(sqlx::query_as(TOOLSETS).fetch_all(&mut *c).await?);
                sqlx::query_scalar(BUNDLES).fetch_all(&mut *c).await?
            }
            Self::Postgres(c, Whole::Bound(orgs)) => {
                for org in &*orgs {
                    // Nothing of another organisation's is in these two, whatever their text says.
                    bind(c, &Part::Of("organization_id", org.clone())).await?;
                    chats.extend(sqlx::query_as(CHATS).fetch_all(&mut *c).await?);
                    toolsets.extend(sqlx::query_as(TOOLSETS).fetch_all(&mut *c).await?);
                }
                // What is published, everybody sees.
                sqlx::query_scalar(BUNDLES).fetch_all(&mut *c).await?
            }
        };
        chats.sort();
        toolsets.sort();
        let bad =
            |table: &str, column: &str| TransferError::Value { table: table.to_owned(), column: column.to_owned() };
        let mut inventory = Inventory::default();
        for (org, chat, generation) in chats {
            let org = org.parse().map_err(|_| bad("chats", "organization_id"))?;
            let chat = chat.parse().map_err(|_| bad("chats", "id"))?;
            inventory.chats.push((org, chat, u64::try_from(generation).unwrap_or_default()));
        }
        for (org, toolset, generation) in toolsets {
            let org = org.parse().map_err(|_| bad("toolsets", "organization_id"))?;
            inventory.toolsets.push((org, toolset.parse().map_err(|_| bad("toolsets", "id"))?, generation));
        }
        for bundle in bundles {
            inventory.bundles.push(bundle.parse().map_err(|_| bad("gallery_toolsets", "bundle_sha256"))?);
        }
        Ok(inventory)
    }

    /// Shows every row of a table.
    pub(super) async fn each(
        &mut self,
        table: &Table,
        take: &mut (dyn FnMut(Vec<Value>) + Send),
    ) -> Result<(), TransferError> {
        let parts = self.parts(table);
        match self {
            Self::Sqlite(connection) => {
                let mut rows = sqlx::query(AssertSqlSafe(select(table))).fetch(connection);
                while let Some(row) = rows.try_next().await? {
                    take(of_sqlite(&row, table)?);
                }
            }
            Self::Postgres(connection, _) => {
                for part in parts {
                    bind(connection, &part).await?;
                    let mut rows = of(part.select(table), &part).fetch(&mut *connection);
                    while let Some(row) = rows.try_next().await? {
                        take(of_postgres(&row, table)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Every row of a table goes into that of another database.
    pub(super) async fn pour(&mut self, from: &Table, into: &mut Side, table: &Table) -> Result<(), TransferError> {
        let (sql, parts) = (insert(table), self.parts(from));
        match self {
            Self::Sqlite(connection) => {
                let mut rows = sqlx::query(AssertSqlSafe(select(from))).fetch(connection);
                while let Some(row) = rows.try_next().await? {
                    into.insert(&sql, table, of_sqlite(&row, from)?).await?;
                }
            }
            Self::Postgres(connection, _) => {
                for part in parts {
                    bind(connection, &part).await?;
                    let mut rows = of(part.select(from), &part).fetch(&mut *connection);
                    while let Some(row) = rows.try_next().await? {
                        into.insert(&sql, table, of_postgres(&row, from)?).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn insert(&mut self, sql: &str, table: &Table, row: Vec<Value>) -> Result<(), TransferError> {
        let mut values = Vec::with_capacity(row.len());
        for (value, (column, kind)) in row.into_iter().zip(&table.columns) {
            let bad = || TransferError::Value { table: table.name.clone(), column: column.clone() };
            values.push((value.to(*kind).ok_or_else(bad)?, *kind));
        }
        match self {
            Self::Sqlite(connection) => {
                let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
                values.into_iter().fold(query, bound_to_sqlite).execute(connection).await?;
            }
            Self::Postgres(connection, _) => {
                let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
                values.into_iter().fold(query, bound_to_postgres).execute(connection).await?;
            }
        }
        Ok(())
    }

    /// Clears the tables, and lets go of references: rows come in whatever order.
    pub(super) async fn begin_filling(&mut self, tables: &[Table]) -> Result<(), TransferError> {
        if let Self::Postgres(connection, Whole::Loose(references)) = self {
            // Those of partitions go and come with their table's.
            let found: Vec<(String, String, String)> = sqlx::query_as(
                "SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint
                 WHERE contype = 'f' AND connamespace = 'public'::regnamespace AND conparentid = 0",
            )
            .fetch_all(&mut *connection)
            .await?;
            for (table, name, definition) in found {
                let sql = format!("ALTER TABLE {table} DROP CONSTRAINT {name}");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await?;
                references.push(Reference { table, name, definition });
            }
        }
        for table in tables {
            let sql = format!("DELETE FROM {}", quoted(&table.name));
            match self {
                Self::Sqlite(c) => sqlx::raw_sql(AssertSqlSafe(sql)).execute(c).await.map(|_| ())?,
                Self::Postgres(c, _) => sqlx::raw_sql(AssertSqlSafe(sql)).execute(c).await.map(|_| ())?,
            }
        }
        Ok(())
    }

    /// Takes the references up again, which proves that all lead somewhere, has the policies in force, and commits.
    pub(super) async fn end_filling(mut self) -> Result<(), TransferError> {
        if let Self::Postgres(connection, Whole::Loose(references)) = &mut self {
            for Reference { table, name, definition } in references.drain(..) {
                let sql = format!("ALTER TABLE {table} ADD CONSTRAINT {name} {definition}");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await?;
            }
        }
        self.bind_owner(true).await?;
        match self {
            Self::Sqlite(mut connection) => {
                let lost: Vec<SqliteRow> = sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut connection).await?;
                if let Some(row) = lost.first() {
                    return Err(TransferError::Differs(row.try_get(0)?));
                }
                sqlx::query("COMMIT").execute(&mut connection).await?;
                connection.close().await?;
            }
            Self::Postgres(mut connection, _) => {
                sqlx::query("COMMIT").execute(&mut connection).await?;
                connection.close().await?;
            }
        }
        Ok(())
    }
}

/// Begins a transaction in which all is as it was at one moment, however long it takes.
async fn connect(url: &Secret) -> Result<PgConnection, TransferError> {
    // Neither a statement nor the pause while bytes are sent has an end by the clock: this is one connection, and nobody waits for it.
    const SESSION: &str =
        "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '5s'";
    let mut connection = postgres::options(url)?.connect().await.map_err(OpenError::connecting)?;
    sqlx::raw_sql(SESSION).execute(&mut connection).await?;
    sqlx::query("BEGIN ISOLATION LEVEL REPEATABLE READ").execute(&mut connection).await?;
    Ok(connection)
}

/// Checks the schema and that this role sees everything, and says which organisations there are.
async fn see_all(connection: &mut PgConnection) -> Result<Vec<OrgId>, TransferError> {
    let applied = sqlx::query_as(READ_HISTORY).fetch_all(&mut *connection).await?;
    check(&applied)?;
    let sees: bool = sqlx::query_scalar(
        "SELECT (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)
             OR 3 = (SELECT count(*) FROM pg_policy p, unnest(p.polroles) AS role
                     WHERE p.polname = 'kitbag_owner_select' AND pg_has_role(role, 'USAGE'))",
    )
    .fetch_one(&mut *connection)
    .await?;
    if !sees {
        let role: String = sqlx::query_scalar("SELECT current_user::text").fetch_one(&mut *connection).await?;
        return Err(TransferError::Refused(format!("the role {role} does not see all rows")));
    }
    sqlx::query("SELECT set_config('kitbag.system', 'on', TRUE)").execute(&mut *connection).await?;
    let orgs: Vec<String> =
        sqlx::query_scalar("SELECT id FROM organizations ORDER BY id").fetch_all(&mut *connection).await?;
    let settings = "SELECT set_config('kitbag.system', '', TRUE), set_config('kitbag.owner', 'on', TRUE)";
    sqlx::query(settings).execute(connection).await?;
    let bad = |_| TransferError::Value { table: "organizations".to_owned(), column: "id".to_owned() };
    orgs.iter().map(|org| org.parse().map_err(bad)).collect()
}

async fn bind(connection: &mut PgConnection, part: &Part) -> Result<(), sqlx::Error> {
    let Part::Of(_, org) = part else { return Ok(()) };
    sqlx::query("SELECT set_config('kitbag.org', $1, TRUE)").bind(org.as_str()).execute(connection).await.map(drop)
}

fn of(sql: String, part: &Part) -> Query<'static, Postgres, PgArguments> {
    let query = sqlx::query(AssertSqlSafe(sql));
    match part {
        Part::All => query,
        Part::Of(_, org) => query.bind(org.as_str().to_owned()),
    }
}

/// Rows are moved between schemas of this program alone.
fn check(applied: &[Applied]) -> Result<(), OpenError> {
    if pending(catalogue::all(), applied, None)?.is_empty() {
        return Ok(());
    }
    Err(OpenError::NeedsMigration { found: applied.last().map_or(0, |last| last.version), needed: newest() })
}

fn of_sqlite(row: &SqliteRow, table: &Table) -> Result<Vec<Value>, sqlx::Error> {
    let value = |(at, (_, kind)): (usize, &(String, Kind))| {
        Ok(match kind {
            Kind::Integer | Kind::Boolean => row.try_get::<Option<i64>, _>(at)?.map(Value::Integer),
            Kind::Bytes => row.try_get::<Option<Vec<u8>>, _>(at)?.map(Value::Bytes),
            Kind::Text | Kind::Time => row.try_get::<Option<String>, _>(at)?.map(Value::Text),
        }
        .unwrap_or(Value::Null))
    };
    table.columns.iter().enumerate().map(value).collect()
}

fn of_postgres(row: &PgRow, table: &Table) -> Result<Vec<Value>, sqlx::Error> {
    let value = |(at, (_, kind)): (usize, &(String, Kind))| {
        Ok(match kind {
            Kind::Integer => row.try_get::<Option<i64>, _>(at)?.map(Value::Integer),
            Kind::Boolean => row.try_get::<Option<bool>, _>(at)?.map(Value::Boolean),
            Kind::Bytes => row.try_get::<Option<Vec<u8>>, _>(at)?.map(Value::Bytes),
            Kind::Text => row.try_get::<Option<String>, _>(at)?.map(Value::Text),
            Kind::Time => row.try_get::<Option<At>, _>(at)?.map(|At(time)| Value::Time(time)),
        }
        .unwrap_or(Value::Null))
    };
    table.columns.iter().enumerate().map(value).collect()
}

fn bound_to_sqlite<'q>(
    query: Query<'q, Sqlite, SqliteArguments>,
    (value, _): (Value, Kind),
) -> Query<'q, Sqlite, SqliteArguments> {
    match value {
        Value::Null => query.bind(None::<String>),
        Value::Text(text) => query.bind(text),
        Value::Integer(number) => query.bind(number),
        Value::Boolean(is) => query.bind(i64::from(is)),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Time(time) => query.bind(time.to_string()),
    }
}

fn bound_to_postgres<'q>(
    query: Query<'q, Postgres, PgArguments>,
    (value, kind): (Value, Kind),
) -> Query<'q, Postgres, PgArguments> {
    match (value, kind) {
        (Value::Null, Kind::Text) => query.bind(None::<String>),
        (Value::Null, Kind::Integer) => query.bind(None::<i64>),
        (Value::Null, Kind::Boolean) => query.bind(None::<bool>),
        (Value::Null, Kind::Bytes) => query.bind(None::<Vec<u8>>),
        (Value::Null, Kind::Time) => query.bind(None::<At>),
        (Value::Text(text), _) => query.bind(text),
        (Value::Integer(number), _) => query.bind(number),
        (Value::Boolean(is), _) => query.bind(is),
        (Value::Bytes(bytes), _) => query.bind(bytes),
        (Value::Time(time), _) => query.bind(At(time)),
    }
}
