//! What outlives the process that knew of it: the nodes of a database that became a file.

use crate::error::StoreError;
use crate::tx::{Inner, WriteTx};

impl WriteTx {
    /// The nodes of which a SQLite file tells: it was made of an installation that they served, and nobody but its one process is alive.
    pub async fn nodes_left_behind(&mut self) -> Result<Vec<String>, StoreError> {
        match &mut self.inner {
            Inner::Sqlite(tx) => {
                Ok(sqlx::query_scalar("SELECT id FROM nodes ORDER BY id").fetch_all(&mut **tx).await?)
            }
            Inner::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// Forgets one of them, when what it had begun was ended.
    pub async fn forget_node_left_behind(&mut self, id: &str) -> Result<(), StoreError> {
        if let Inner::Sqlite(tx) = &mut self.inner {
            sqlx::query("DELETE FROM nodes WHERE id = $1").bind(id).execute(&mut **tx).await?;
        }
        Ok(())
    }
}
