//! A database for one test.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kitbag_model::{BearerToken, NewToken, OrgId, Secret};
use kitbag_store::{Location, Store};
use sqlx::{Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::cluster::{APP, Cluster, SUPERUSER, run};

/// A fresh database that no other test sees, with a data folder for the program.
pub struct TestDatabase {
    data: TempDir,
    /// Where PostgreSQL runs and what the database is called there; none on SQLite.
    postgres: Option<(Cluster, String)>,
}

impl TestDatabase {
    /// On SQLite, in the data folder.
    pub fn sqlite() -> Self {
        Self { data: private_folder(), postgres: None }
    }

    /// On PostgreSQL, migrated.
    pub async fn postgres() -> Self {
        let cluster = Cluster::get().await;
        let name = cluster.migrated_database().await;
        Self { postgres: Some((cluster, name)), ..Self::sqlite() }
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
        let future = "INSERT INTO schema_migrations VALUES (9999, 'future', '', '')";
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
