//! A database for one test.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kitbag_model::{BearerToken, NewToken, OrgId, Secret};
use kitbag_store::{Location, Store};
use sqlx::{Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::bucket::TestBucket;
use crate::cluster::{APP, Cluster, SUPERUSER, run};

/// A fresh database that no other test sees, with a data folder for the program.
pub struct TestDatabase {
    data: TempDir,
    /// Where PostgreSQL runs and what the database is called there; none on SQLite.
    postgres: Option<(Cluster, String)>,
    /// Where bytes are kept; none: in the data folder.
    bucket: Option<TestBucket>,
}

impl TestDatabase {
    /// On SQLite, in the data folder; or on PostgreSQL, where this run of the tests wants to know whether that makes a difference.
    pub fn sqlite() -> Self {
        match wants_postgres() {
            // A thread of its own, for whoever asks may be at work in a runtime.
            true => std::thread::spawn(|| {
                let runtime = tokio::runtime::Runtime::new().expect("a runtime");
                runtime.block_on(Self::postgres())
            })
            .join()
            .expect("a database"),
            false => Self::alone(),
        }
    }

    /// A data folder with nothing in it.
    fn alone() -> Self {
        let bucket = wants_bucket().then(TestBucket::new);
        Self { data: private_folder(), postgres: None, bucket }
    }

    /// On PostgreSQL, migrated.
    pub async fn postgres() -> Self {
        Self::of(Cluster::get().await).await
    }

    /// On a cluster, migrated.
    pub async fn of(cluster: Cluster) -> Self {
        let name = cluster.migrated_database().await;
        Self { postgres: Some((cluster, name)), ..Self::alone() }
    }

    /// With bytes in a bucket.
    pub fn in_bucket(self, bucket: &TestBucket) -> Self {
        Self { bucket: Some(bucket.clone()), ..self }
    }

    /// The same database, for another server with a data folder of its own. PostgreSQL only.
    pub fn beside(&self) -> Self {
        let (cluster, name) = self.postgres.as_ref().expect("one process at a time has a file of SQLite");
        Self { data: private_folder(), postgres: Some((cluster.clone(), name.clone())), bucket: self.bucket.clone() }
    }

    /// Where bytes are kept, if not in the data folder.
    pub fn bucket(&self) -> Option<&TestBucket> {
        self.bucket.as_ref()
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Where the program finds it, as the app role.
    pub fn location(&self) -> Location {
        match self.postgres {
            None => Location::Sqlite(self.data().join("kitbag.db")),
            Some(_) => Location::Postgres(self.url(APP)),
        }
    }

    /// How `role` reaches it. PostgreSQL only.
    pub fn url(&self, role: &str) -> Secret {
        let (cluster, name) = self.postgres.as_ref().expect("SQLite has no roles");
        cluster.url(role, name)
    }

    /// A plain connection as `role`. PostgreSQL only.
    pub async fn connect(&self, role: &str) -> PgConnection {
        let (cluster, name) = self.postgres.as_ref().expect("SQLite has no roles");
        cluster.connect(role, name).await
    }

    /// What it is called. PostgreSQL only.
    pub fn name(&self) -> &str {
        &self.postgres.as_ref().expect("SQLite has no names").1
    }

    /// A superuser's connection to another database of the same cluster. PostgreSQL only.
    pub async fn connect_to(&self, name: &str) -> PgConnection {
        self.postgres.as_ref().expect("SQLite has no cluster").0.connect(SUPERUSER, name).await
    }

    /// Makes the file look as if a newer Kitbag had written it. SQLite only.
    pub async fn make_newer(&self) {
        let url = format!("sqlite://{}", self.data().join("kitbag.db").display());
        let mut connection = SqliteConnection::connect(&url).await.expect("open the file");
        let future = "INSERT INTO schema_migrations VALUES (9999, 'future', '', '', NULL)";
        sqlx::query(future).execute(&mut connection).await.expect("write into the file");
        connection.close().await.expect("close the file");
    }

    /// Makes all chats and all lines of the audit look as if nobody had touched them for decades.
    pub async fn make_old(&self) {
        for statement in [
            "UPDATE chats SET updated_at = '2001-02-03T04:05:06.789Z'",
            "UPDATE audit SET at = '2001-02-03T04:05:06.789Z'",
        ] {
            match self.postgres {
                None => {
                    let url = format!("sqlite://{}", self.data().join("kitbag.db").display());
                    let mut connection = SqliteConnection::connect(&url).await.expect("open the file");
                    sqlx::query(statement).execute(&mut connection).await.expect("write into the file");
                    connection.close().await.expect("close the file");
                }
                Some(_) => run(&mut self.connect(SUPERUSER).await, statement).await,
            }
        }
    }

    /// What it keeps sealed, as it is in the table: kinds, names and bytes.
    pub async fn sealed(&self) -> Vec<(String, String, Vec<u8>)> {
        let query = "SELECT kind, name, sealed FROM secrets ORDER BY kind, name";
        let rows = match self.postgres {
            None => {
                let url = format!("sqlite://{}", self.data().join("kitbag.db").display());
                let mut connection = SqliteConnection::connect(&url).await.expect("open the file");
                sqlx::query_as(query).fetch_all(&mut connection).await
            }
            Some(_) => sqlx::query_as(query).fetch_all(&mut self.connect(SUPERUSER).await).await,
        };
        rows.expect("read the table")
    }

    /// How many people it knows.
    pub async fn people(&self) -> i64 {
        let query = "SELECT count(*) FROM users";
        let count = match self.postgres {
            None => {
                let url = format!("sqlite://{}", self.data().join("kitbag.db").display());
                let mut connection = SqliteConnection::connect(&url).await.expect("open the file");
                sqlx::query_scalar(query).fetch_one(&mut connection).await
            }
            Some(_) => sqlx::query_scalar(query).fetch_one(&mut self.connect(SUPERUSER).await).await,
        };
        count.expect("read the table")
    }

    /// Changes rows behind the program's back, as whoever owns the database could.
    pub async fn change(&self, sql: &'static str) {
        match self.postgres {
            None => {
                let url = format!("sqlite://{}", self.data().join("kitbag.db").display());
                let mut connection = SqliteConnection::connect(&url).await.expect("open the file");
                sqlx::raw_sql(sql).execute(&mut connection).await.expect("change the rows");
            }
            Some(_) => drop(sqlx::raw_sql(sql).execute(&mut self.connect(SUPERUSER).await).await.expect("change them")),
        }
    }

    /// Keeps everybody else from writing into the file of SQLite until it is dropped.
    pub async fn locked(&self) -> SqliteConnection {
        let url = format!("sqlite://{}", self.data().join("kitbag.db").display());
        let mut connection = SqliteConnection::connect(&url).await.expect("open the file");
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await.expect("lock the file");
        connection
    }

    /// The number that a statement asks for, whoever's rows it counts.
    pub async fn count(&self, sql: &'static str) -> i64 {
        let count = match self.postgres {
            None => {
                let url = format!("sqlite://{}", self.data().join("kitbag.db").display());
                let mut connection = SqliteConnection::connect(&url).await.expect("open the file");
                sqlx::query_scalar(sql).fetch_one(&mut connection).await
            }
            Some(_) => sqlx::query_scalar(sql).fetch_one(&mut self.connect(SUPERUSER).await).await,
        };
        count.expect("count the rows")
    }

    /// What the node is called that advertises a port of this machine. PostgreSQL only.
    pub async fn node_at(&self, port: u16) -> Option<String> {
        let query = "SELECT id::text FROM nodes WHERE address LIKE $1 AND NOT dead ORDER BY started_at DESC LIMIT 1";
        let address = format!("%:{port}");
        let mut connection = self.connect(SUPERUSER).await;
        sqlx::query_scalar(query).bind(address).fetch_optional(&mut connection).await.expect("read the nodes")
    }

    /// Whether there is such a node, of which nobody has said that it is dead. PostgreSQL only.
    pub async fn has_node(&self, id: &str) -> bool {
        let query = "SELECT count(*) FROM nodes WHERE id::text = $1 AND NOT dead";
        let mut connection = self.connect(SUPERUSER).await;
        let count: i64 = sqlx::query_scalar(query).bind(id).fetch_one(&mut connection).await.expect("read the nodes");
        count > 0
    }

    /// The toolsets that have files: whose, which, and the generation of the files.
    pub(crate) async fn toolsets(&self) -> Vec<(String, String, String)> {
        let query = "SELECT organization_id, id, generation FROM toolsets WHERE generation IS NOT NULL";
        let rows = match self.postgres {
            None => {
                let url = format!("sqlite://{}", self.data().join("kitbag.db").display());
                let mut connection = SqliteConnection::connect(&url).await.expect("open the file");
                sqlx::query_as(query).fetch_all(&mut connection).await
            }
            Some(_) => sqlx::query_as(query).fetch_all(&mut self.connect(SUPERUSER).await).await,
        };
        rows.expect("read the table")
    }

    /// The texts that a statement asks for, whoever's rows they are of. PostgreSQL only.
    pub async fn texts(&self, sql: &'static str) -> Vec<String> {
        sqlx::query_scalar(sql).fetch_all(&mut self.connect(SUPERUSER).await).await.expect("read the rows")
    }

    /// The tables of PostgreSQL, and the files of the data folder, that hold a text somewhere.
    pub async fn places_of(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.data().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("list a folder").map_while(Result::ok) {
                let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() {
                    let bytes = std::fs::read(&path).unwrap_or_default();
                    if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
                        found.push(path.display().to_string());
                    }
                }
            }
        }
        if self.postgres.is_some() {
            let mut connection = self.connect(SUPERUSER).await;
            let tables: Vec<String> =
                sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
                    .fetch_all(&mut connection)
                    .await
                    .expect("list the tables");
            for table in tables {
                let query = format!("SELECT count(*) FROM \"{table}\" AS row WHERE position($1 IN row::text) > 0");
                let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(query))
                    .bind(text)
                    .fetch_one(&mut connection)
                    .await
                    .expect("look through a table");
                if rows > 0 {
                    found.push(table);
                }
            }
        }
        found
    }

    /// Opens it.
    pub async fn open(&self) -> Store {
        Store::open(&self.location()).await.expect("the test database opens")
    }

    /// Opens it and makes an organisation.
    pub async fn open_with(&self, org: &str) -> (Store, OrgId) {
        let store = self.open().await;
        let id = add_organization(&store, org).await;
        (store, id)
    }
}

/// Whether this run of the tests has bytes in a bucket.
fn wants_bucket() -> bool {
    match std::env::var("KITBAG_TEST_BLOBS").as_deref() {
        Ok("s3") => true,
        Ok(other) => panic!("KITBAG_TEST_BLOBS may be s3, not {other:?}"),
        Err(_) => false,
    }
}

/// Whether this run of the tests has PostgreSQL where a test does not care.
fn wants_postgres() -> bool {
    match std::env::var("KITBAG_TEST_DATABASE").as_deref() {
        Ok("postgres") => true,
        Ok(other) => panic!("KITBAG_TEST_DATABASE may be postgres, not {other:?}"),
        Err(_) => false,
    }
}

/// A folder as the program itself would make it.
fn private_folder() -> TempDir {
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir().expect("a data folder")
}

/// Makes an organisation.
pub async fn add_organization(store: &Store, org: &str) -> OrgId {
    let id: OrgId = org.parse().expect("a valid organisation id");
    let mut tx = store.write(&id).await.expect("a transaction");
    tx.create_organization(&org.parse().expect("a valid name")).await.expect("make an organisation");
    tx.commit().await.expect("commit");
    id
}

/// Makes a token of `org` with these scopes. Its text.
pub async fn add_token(store: &Store, org: &OrgId, scopes: &str) -> String {
    let bearer = BearerToken::generate(org.clone());
    let scopes = scopes.parse().expect("valid scopes");
    let new = NewToken {
        id: bearer.id,
        name: "test".parse().expect("a name"),
        hash: bearer.secret.hash(),
        scopes,
        expires_at: None,
        user: None,
    };
    let mut tx = store.write(org).await.expect("a transaction");
    tx.create_token(&new).await.expect("make a token");
    tx.commit().await.expect("commit");
    bearer.to_secret().expose().to_owned()
}
