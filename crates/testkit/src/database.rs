//! A database for one test.

use kitbag_model::{OrgId, Secret};
use kitbag_store::{Location, Store};
use sqlx::PgConnection;
use tempfile::TempDir;

use crate::cluster::{APP, Cluster};

/// A fresh database that no other test sees.
pub enum TestDatabase {
    /// A file in a folder of its own.
    Sqlite(TempDir),
    /// A copy of the migrated template.
    Postgres {
        /// Where it runs.
        cluster: Cluster,
        /// Its name.
        name: String,
    },
}

impl TestDatabase {
    /// On SQLite.
    pub fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a folder for a database"))
    }

    /// On PostgreSQL, migrated.
    pub async fn postgres() -> Self {
        let cluster = Cluster::get().await;
        let name = cluster.migrated_database().await;
        Self::Postgres { cluster, name }
    }

    /// Where the program finds it, as the app role.
    pub fn location(&self) -> Location {
        match self {
            Self::Sqlite(folder) => Location::Sqlite(folder.path().join("kitbag.db")),
            Self::Postgres { .. } => Location::Postgres(self.url(APP)),
        }
    }

    /// How `role` reaches it. PostgreSQL only.
    pub fn url(&self, role: &str) -> Secret {
        let Self::Postgres { cluster, name } = self else { panic!("SQLite has no roles") };
        cluster.url(role, name)
    }

    /// A plain connection as `role`. PostgreSQL only.
    pub async fn connect(&self, role: &str) -> PgConnection {
        let Self::Postgres { cluster, name } = self else { panic!("SQLite has no roles") };
        cluster.connect(role, name).await
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

/// Makes an organisation.
pub async fn add_organization(store: &Store, org: &str) -> OrgId {
    let id: OrgId = org.parse().expect("a valid organisation id");
    let mut tx = store.write(&id).await.expect("a transaction");
    tx.create_organization(&org.parse().expect("a valid name")).await.expect("make an organisation");
    tx.commit().await.expect("commit");
    id
}
